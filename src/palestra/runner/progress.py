"""Live progress: what a run shows while it works. The runner reports; a display decides whether and how to show."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Protocol

from palestra.core.records import Episode

if TYPE_CHECKING:
    from rich.console import Console


class Display(Protocol):
    """Receives progress. Calls come often: a display must be cheap."""

    def begin(self, name: str, total: int | None, done: int = 0) -> None: ...
    def running(self, name: str, count: int) -> None: ...
    def episode(self, name: str, episode: Episode) -> None: ...
    def advance(self, name: str, steps: int = 1) -> None: ...
    def end(self, name: str) -> None: ...
    def close(self) -> None: ...


class Silent:
    """Shows nothing."""

    def begin(self, name: str, total: int | None, done: int = 0) -> None: ...
    def running(self, name: str, count: int) -> None: ...
    def episode(self, name: str, episode: Episode) -> None: ...
    def advance(self, name: str, steps: int = 1) -> None: ...
    def end(self, name: str) -> None: ...
    def close(self) -> None: ...


class Lines(Silent):
    """A line at the start and the end of each study, and one every half minute: for logs and pipes."""

    EVERY = 30.0  # seconds

    def __init__(self) -> None:
        self._state: dict[str, tuple[int | None, int, int]] = {}  # total, done, failed
        self._said = time.monotonic()

    def begin(self, name: str, total: int | None, done: int = 0) -> None:
        """Say what begins."""
        self._state[name] = (total, done, 0)
        self._say(name, "")

    def episode(self, name: str, episode: Episode) -> None:
        """Count a saved episode."""
        total, done, failed = self._state[name]
        self._state[name] = (total, done + 1, failed + (episode.status == "failed"))
        self._now_and_then(name)

    def advance(self, name: str, steps: int = 1) -> None:
        """Count steps of work that is no episode."""
        total, done, failed = self._state[name]
        self._state[name] = (total, done + steps, failed)
        self._now_and_then(name)

    def end(self, name: str) -> None:
        """Say how it ended."""
        self._say(name, " · end")
        self._state.pop(name)

    def _now_and_then(self, name: str) -> None:
        if time.monotonic() - self._said >= self.EVERY:
            self._say(name, "")

    def _say(self, name: str, more: str) -> None:
        self._said = time.monotonic()
        total, done, failed = self._state[name]
        of = "" if total is None else f" of {total}"
        sys.stderr.write(f"{name}: {done}{of}{f', {failed} failed' if failed else ''}{more}\n")


class Rich:
    """A bar for each study: done, failed, running, tokens, cost, time left."""

    def __init__(self, console: Console | None = None) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeRemainingColumn(elapsed_when_finished=True),
            TextColumn("{task.fields[note]}"),
            console=console or Console(stderr=True),
            refresh_per_second=5,
            speed_estimate_period=60,
        )
        self._bars: dict[str, _Bar] = {}
        self.progress.start()

    def begin(self, name: str, total: int | None, done: int = 0) -> None:
        """Show a new bar."""
        task = self.progress.add_task(name, total=total, completed=done, note="")
        self._bars[name] = _Bar(task)

    def running(self, name: str, count: int) -> None:
        """Say how many episodes are in flight."""
        bar = self._bars[name]
        bar.running = count
        now = time.monotonic()
        if now - bar.shown > 0.2:
            bar.shown = now
            self._show(bar)

    def episode(self, name: str, episode: Episode) -> None:
        """Count a saved episode."""
        bar = self._bars.get(name)
        if bar is None:  # the study was cut off: its bar has ended
            return
        bar.failed += episode.status == "failed"
        bar.tokens += episode.usage.tokens
        bar.usd += episode.usage.usd
        bar.steps += 1
        if bar.steps >= 64 or self.progress.tasks[int(bar.task)].completed < 256:
            self._show(bar)

    def advance(self, name: str, steps: int = 1) -> None:
        """Count steps of work that is no episode."""
        self._bars[name].steps += steps
        self._show(self._bars[name])

    def end(self, name: str) -> None:
        """Leave the bar as it is."""
        self._bars[name].running = 0
        self._show(self._bars.pop(name))

    def close(self) -> None:
        """Give the terminal back."""
        self.progress.stop()

    def _show(self, bar: _Bar) -> None:
        self.progress.update(bar.task, advance=bar.steps, note=bar.note())  # pyright: ignore[reportArgumentType]
        bar.steps = 0


class _Bar:
    def __init__(self, task: int) -> None:
        self.task = task
        self.failed = self.running = self.tokens = self.steps = 0
        self.usd = self.shown = 0.0

    def note(self) -> str:
        parts = [f"{self.running} running"] if self.running else []
        if self.failed:
            parts.append(f"[red]{self.failed} failed[/red]")
        if self.tokens:
            parts.append(f"{self.tokens:,} tokens")
        if self.usd:
            parts.append(f"${self.usd:.4f}")
        return " · ".join(parts)
