"""Gathers requests that arrive at about the same time into one batch, and runs the batches one after another.

torch is faster on one batch of many than on many batches of one. Callers are asyncio tasks (of any loop); the work runs
in one thread of its own, so no event loop is ever blocked.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeAlias

LINGER = 0.003  # seconds to wait for others after the first request of a batch
Work: TypeAlias = Callable[[Sequence[Any]], Sequence[Any]]
_Waiting: TypeAlias = tuple[Work, Any, "Future[Any]"]


class Batcher:
    """One worker thread with a queue.

    >>> async def three():
    ...     batcher = Batcher("doc")
    ...     double = lambda items: [(2 * item, len(items)) for item in items]
    ...     return await asyncio.gather(*(batcher.submit(double, item) for item in (1, 2, 3)))
    >>> asyncio.run(three())
    [(2, 3), (4, 3), (6, 3)]
    """

    def __init__(self, name: str) -> None:
        self._waiting: list[_Waiting] = []
        self._lock = threading.Lock()
        self._worker = ThreadPoolExecutor(1, thread_name_prefix=f"palestra-{name}")

    async def submit(self, work: Work, item: Any) -> Any:
        """`work` applied to a batch that holds `item` and whatever else waits for the same `work`; the item's result.

        An exception returned as an item's result is raised for that item only; one raised by `work` reaches all.
        """
        future: Future[Any] = Future()
        with self._lock:
            self._waiting.append((work, item, future))
            if len(self._waiting) == 1:
                self._worker.submit(self._drain)
        return await asyncio.wrap_future(future)

    def _drain(self) -> None:
        time.sleep(LINGER)
        with self._lock:
            waiting, self._waiting = self._waiting, []
        by_work: dict[Work, list[tuple[Any, Future[Any]]]] = {}
        for work, item, future in waiting:
            if future.set_running_or_notify_cancel():  # False: its caller has gone
                by_work.setdefault(work, []).append((item, future))
        for work, batch in by_work.items():
            try:
                results = work([item for item, _ in batch])
            except BaseException as error:
                for _, future in batch:
                    future.set_exception(error)
                continue
            for (_, future), result in zip(batch, results, strict=True):
                if isinstance(result, BaseException):
                    future.set_exception(result)
                else:
                    future.set_result(result)
