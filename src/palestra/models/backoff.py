"""When to ask again: exponential backoff with full jitter, and a pause that all calls to one endpoint share.

Full jitter is from Brooker, "Exponential Backoff And Jitter" (AWS Architecture Blog, 2015): sleep a uniform time between
nothing and the cap. The jitter comes from the operating system, never from the recorded seed tree: waiting longer or
shorter must not change a run.
"""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from msgspec import Struct

from palestra.core.errors import BadInput

_dice = random.SystemRandom()
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


class Backoff(Struct, frozen=True):
    """How often and how slowly to ask again; times in seconds.

    >>> 0.0 <= Backoff(base=0.5).delay(3) <= 4.0
    True
    """

    attempts: int = 6  # requests in all, the first one included
    base: float = 0.5  # upper end of the first wait; it doubles with each
    cap: float = 30.0  # upper end of any wait
    patience: float = 120.0  # a server that asks for a longer pause than this is given up

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise BadInput("attempts", self.attempts, "at least 1")
        for name in ("base", "cap", "patience"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise BadInput(name, getattr(self, name), "seconds, at least 0")

    def delay(self, failures: int) -> float:
        """Seconds to wait after `failures` failures in a row (0 for the first)."""
        return _dice.uniform(0, min(self.cap, self.base * 2.0 ** min(failures, 32)))


class Pause:
    """A moment before which no call goes out; shared by all calls to one endpoint, in all event loops."""

    __slots__ = ("until",)

    def __init__(self) -> None:
        self.until = 0.0  # time.monotonic()

    def extend(self, seconds: float) -> None:
        """Hold all calls back for `seconds` from now, unless they are held back longer already."""
        self.until = max(self.until, time.monotonic() + seconds)

    async def over(self, spread: float) -> None:
        """Wait until the pause is over, then up to `spread` seconds more, so that not all calls go out at once."""
        waited = False
        while (left := self.until - time.monotonic()) > 0:
            waited = True
            await asyncio.sleep(left)
        if waited:
            await asyncio.sleep(_dice.uniform(0, spread))


def pause_asked(headers: Mapping[str, str], *, refused: bool) -> float | None:
    """Seconds that a server's headers ask to wait, or None.

    Args:
        headers: of the reply, names in lower case: `retry-after-ms`, `retry-after`, `x-ratelimit-remaining-*` and
            `x-ratelimit-reset-*`.
        refused: whether the reply is a refusal; then a reset time counts even when the remaining amount is not given.

    >>> pause_asked({"retry-after": "2"}, refused=True)
    2.0
    >>> pause_asked({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1m0.5s"}, refused=False)
    60.5
    """
    if refused:
        milliseconds = _number(headers.get("retry-after-ms"))
        if milliseconds is not None:
            return milliseconds / 1000
        if (asked := _retry_after(headers.get("retry-after"))) is not None:
            return asked
    found: list[float] = []
    for kind in ("-requests", "-tokens", ""):
        remaining = _number(headers.get(f"x-ratelimit-remaining{kind}"))
        reset = duration(headers.get(f"x-ratelimit-reset{kind}"))
        if reset is not None and (remaining == 0 or (refused and remaining is None)):
            found.append(reset)
    return max(found, default=None)


def duration(text: str | None) -> float | None:
    """Seconds of `1m30s`, `250ms`, `12.5` (seconds) or a Unix time; None when `text` is none of these.

    >>> duration("1m30s"), duration("250ms"), duration("12.5"), duration("soon")
    (90.0, 0.25, 12.5, None)
    """
    if text is None:
        return None
    if (seconds := _number(text)) is not None:
        if seconds < 1e9:
            return seconds
        return max(0.0, (seconds / 1000 if seconds > 1e11 else seconds) - time.time())  # a moment, in s or ms
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text.strip():
        return None
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)


def _retry_after(text: str | None) -> float | None:
    if text is None:
        return None
    if (seconds := _number(text)) is not None:
        return seconds
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())


def _number(text: str | None) -> float | None:
    try:
        value = float(text) if text is not None else None
    except ValueError:
        return None
    return value if value is not None and 0 <= value < float("inf") else None
