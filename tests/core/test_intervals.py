"""Intervals agree with scipy and with the textbook formulas."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from palestra.core.errors import BadInput
from palestra.core.intervals import bootstrap, mean_interval, wilson


@given(st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_is_that_of_scipy(case: tuple[int, int]) -> None:
    successes, trials = case
    expected = stats.binomtest(successes, trials).proportion_ci(method="wilson")
    assert wilson(successes, trials) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_wilson_without_trials_knows_nothing() -> None:
    assert wilson(0, 0) == (0.0, 1.0)


@pytest.mark.parametrize(("successes", "trials"), [(5, 4), (-1, 4), (0, -1), (math.nan, 4)])
def test_impossible_counts_are_refused(successes: float, trials: int) -> None:
    with pytest.raises(BadInput):
        wilson(successes, trials)


def test_a_mean_has_the_interval_of_its_standard_error() -> None:
    values = [0.1, 0.5, 0.9, 0.7]
    mean, low, high = mean_interval(values)
    error = stats.sem(values) * stats.norm.ppf(0.975)
    assert (mean, low, high) == pytest.approx((np.mean(values), np.mean(values) - error, np.mean(values) + error))


def test_shares_of_successes_have_the_interval_of_wilson() -> None:
    assert mean_interval([1.0, 0, True, 0]) == (0.5, *wilson(2, 4))


def test_too_few_values_have_no_interval() -> None:
    assert all(math.isnan(value) for value in mean_interval([]))
    mean, low, high = mean_interval([0.3])
    assert mean == 0.3
    assert math.isnan(low)
    assert math.isnan(high)


def test_the_bootstrap_covers_the_mean_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(300):
        low, high = bootstrap(rng.normal(2.0, 1.0, size=40), rng=rng, draws=400)
        hits += low <= 2.0 <= high
    assert stats.binomtest(hits, 300, 0.95).pvalue > 1e-3


def test_the_bootstrap_needs_values() -> None:
    with pytest.raises(BadInput):
        bootstrap([], rng=np.random.default_rng(0))
