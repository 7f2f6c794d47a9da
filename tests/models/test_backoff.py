"""Waiting: full jitter under a doubling cap, and pauses read from headers."""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palestra.core.errors import BadInput
from palestra.models.backoff import Backoff, Pause, duration, pause_asked


@pytest.mark.parametrize("failures, highest", [(0, 0.5), (1, 1.0), (3, 4.0), (9, 30.0), (10**6, 30.0)])
def test_waits_are_uniform_from_nothing_to_a_cap_that_doubles(failures, highest):
    waits = [Backoff().delay(failures) for _ in range(2000)]
    assert 0 <= min(waits) < 0.02 * highest
    assert 0.98 * highest < max(waits) <= highest
    assert sum(waits) / len(waits) == pytest.approx(highest / 2, rel=0.1)


@pytest.mark.parametrize(
    "options", [{"attempts": 0}, {"base": -1.0}, {"cap": float("nan")}, {"patience": float("inf")}]
)
def test_limits_that_are_none_are_refused(options):
    with pytest.raises(BadInput):
        Backoff(**options)


def test_a_date_in_retry_after_is_read():
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=10), usegmt=True)
    assert pause_asked({"retry-after": soon}, refused=True) == pytest.approx(9, abs=1.5)
    assert pause_asked({"retry-after": "Mon, 01 Jan 2001 00:00:00 GMT"}, refused=True) == 0.0


@pytest.mark.parametrize(
    "headers, refused, seconds",
    [
        ({}, True, None),
        ({"retry-after": "1.5", "x-ratelimit-reset-requests": "9s"}, True, 1.5),
        ({"retry-after-ms": "40", "retry-after": "1"}, True, 0.04),
        ({"retry-after": "7"}, False, None),
        ({"x-ratelimit-reset-tokens": "2s", "x-ratelimit-reset-requests": "1s"}, True, 2.0),
        ({"x-ratelimit-remaining-tokens": "5", "x-ratelimit-reset-tokens": "2s"}, False, None),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "2s"}, False, 2.0),
        ({"x-ratelimit-remaining-tokens": "5", "x-ratelimit-reset-tokens": "2s"}, True, None),
    ],
)
def test_pauses_are_read_from_headers(headers, refused, seconds):
    assert pause_asked(headers, refused=refused) == seconds


def test_a_reset_given_as_a_moment_is_a_time_from_now():
    moment = time.time() + 20
    assert duration(f"{moment:.0f}") == pytest.approx(20, abs=1)
    assert duration(f"{moment * 1000:.0f}") == pytest.approx(20, abs=1)


@given(st.text(max_size=30) | st.from_regex(r"(\d{1,3}(\.\d)?(ms|s|m|h|d)){1,3}", fullmatch=True))
def test_any_header_gives_seconds_or_nothing(text):
    for headers in ({"retry-after": text}, {"retry-after-ms": text}, {"x-ratelimit-reset": text}):
        found = pause_asked(headers, refused=True)
        assert found is None or 0 <= found < float("inf")


async def test_a_pause_holds_back_and_only_grows():
    pause = Pause()
    pause.extend(0.1)
    pause.extend(0.01)
    started = time.monotonic()
    await asyncio.gather(*(pause.over(0.01) for _ in range(3)))
    assert 0.09 <= time.monotonic() - started < 0.5
    started = time.monotonic()
    await pause.over(10.0)
    assert time.monotonic() - started < 0.05
