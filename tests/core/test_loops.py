"""Loop detection: a cycle repeated often enough is found at its last step, and nothing else is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palestra.core import LoopDetector
from palestra.core.errors import BadInput, LoopDetected


def _steps_until_found(detector: LoopDetector, steps: list[tuple[str, str]]) -> int | None:
    for number, step in enumerate(steps, 1):
        try:
            detector.see(*step)
        except LoopDetected:
            return number
    return None


@pytest.mark.parametrize("period", [1, 2, 3, 4])
@pytest.mark.parametrize("repeats", [2, 5])
def test_a_cycle_is_found_when_it_is_complete(period: int, repeats: int) -> None:
    cycle = [("room", f"door {number}") for number in range(period)]
    assert _steps_until_found(LoopDetector(period=4, repeats=repeats), cycle * 10) == period * repeats


def test_a_cycle_longer_than_the_period_is_allowed() -> None:
    assert _steps_until_found(LoopDetector(period=2, repeats=3), [("x", str(n % 3)) for n in range(60)]) is None


def test_the_same_action_on_new_observations_is_no_loop() -> None:
    assert _steps_until_found(LoopDetector(), [(str(n), "go") for n in range(100)]) is None


def test_a_way_into_the_cycle_does_not_hide_it() -> None:
    way = [("way", str(n)) for n in range(7)]
    assert _steps_until_found(LoopDetector(period=1, repeats=3), way + [("wall", "go")] * 9) == 7 + 3


@given(st.lists(st.sampled_from("ab"), max_size=60), st.integers(1, 4), st.integers(2, 4))
def test_it_finds_exactly_the_repeated_patterns(actions: list[str], period: int, repeats: int) -> None:
    def looped(seen: list[str]) -> bool:
        return any(
            len(seen) >= p * repeats and seen[-p * repeats :] == seen[-p:] * repeats for p in range(1, period + 1)
        )

    expected = next((n for n in range(1, len(actions) + 1) if looped(actions[:n])), None)
    found = _steps_until_found(LoopDetector(period=period, repeats=repeats), [("o", a) for a in actions])
    assert found == expected


@pytest.mark.parametrize("settings", [{"period": 0}, {"repeats": 1}])
def test_settings_that_find_nothing_are_refused(settings: dict[str, int]) -> None:
    with pytest.raises(BadInput):
        LoopDetector(**settings)
