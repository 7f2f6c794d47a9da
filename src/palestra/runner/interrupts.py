"""Ctrl-C while studies are at work: the first lets the running episodes finish, the second cancels them.

It holds for all studies that a recipe runs side by side. Between studies, Ctrl-C is the event loop's own.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Any


class Active:
    """A study at work: what stops it, and what it waits for."""

    def __init__(self) -> None:
        self.task = asyncio.current_task()
        self.stopping = asyncio.Event()  # no more episodes are to be started
        self.room = asyncio.Event()  # the writer may have room again
        self.running = 0  # episodes
        self.interrupted = self.cancelled = False


class Interrupts:
    """The studies at work, and what Ctrl-C does to them."""

    def __init__(self) -> None:
        self.studies: list[Active] = []
        self._before: Any = None

    @contextmanager
    def study(self) -> Generator[Active]:
        """A study is at work. Its cancellation by Ctrl-C ends here, told by `interrupted`."""
        active = Active()
        self.studies.append(active)
        loop = asyncio.get_running_loop()
        if len(self.studies) == 1 and threading.current_thread() is threading.main_thread():
            self._before = signal.getsignal(signal.SIGINT)
            with suppress(NotImplementedError, RuntimeError):
                loop.add_signal_handler(signal.SIGINT, self._on_signal)
        try:
            yield active
        except asyncio.CancelledError:
            if not active.cancelled:  # by somebody else
                raise
            assert active.task is not None
            active.task.uncancel()
        finally:
            self.studies.remove(active)
            if not self.studies and loop.remove_signal_handler(signal.SIGINT):
                signal.signal(signal.SIGINT, self._before)

    def stop(self) -> None:
        """Start no more episodes."""
        for active in self.studies:
            active.stopping.set()
            active.room.set()

    def _on_signal(self) -> None:
        for active in self.studies:
            if active.interrupted and active.task is not None:
                active.cancelled = True
                active.task.cancel()
            active.interrupted = True
            active.stopping.set()
