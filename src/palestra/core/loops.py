"""Loop detection: an agent that keeps doing the same in the same situation is stopped, and the reason recorded."""

from __future__ import annotations

from collections import deque

from palestra.core.errors import BadInput, LoopDetected


class LoopDetector:
    """Finds a cycle of (observation, action) pairs: a pattern of length 1 … `period` seen `repeats` times in a row.

    >>> detector = LoopDetector(period=2, repeats=3)
    >>> for step in range(6):
    ...     detector.see("room", "left" if step % 2 else "right")
    Traceback (most recent call last):
    palestra.core.errors.LoopDetected: a cycle of 2 steps was repeated 3 times
    """

    __slots__ = ("history", "period", "repeats")

    def __init__(self, *, period: int = 4, repeats: int = 5) -> None:
        if period < 1 or repeats < 2:
            raise BadInput("loops", (period, repeats), "period of at least 1 and repeats of at least 2")
        self.period, self.repeats = period, repeats
        self.history: deque[int] = deque(maxlen=period * repeats)

    def see(self, observation: str, action: str) -> None:
        """Add one step.

        Raises:
            LoopDetected: the last steps are a cycle.
        """
        history = self.history
        history.append(hash((observation, action)))
        for period in range(1, self.period + 1):
            need = period * self.repeats
            if len(history) < need:
                return
            recent = list(history)[-need:]
            if recent == recent[:period] * self.repeats:
                raise LoopDetected(f"a cycle of {period} step{'s' * (period > 1)} was repeated {self.repeats} times")
