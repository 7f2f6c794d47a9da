"""The scalar roots behind reciprocal responses stay exact where weights and offsets differ by many orders."""

import numpy as np
import pytest

from palestra.learn.equilibria.risk import risk_value
from palestra.learn.equilibria.roots import reciprocal_simplex


@pytest.fixture(autouse=True)
def no_silent_arithmetic():
    with np.errstate(divide="raise", over="raise", invalid="raise"):
        yield


def test_two_outcomes_have_the_root_of_the_quadratic():
    x = reciprocal_simplex(np.array([1.0, 1.0]), np.array([0.0, 1.0]))  # 1/c + 1/(c + 1) = 1
    root = (1 + np.sqrt(5)) / 2
    assert x == pytest.approx([1 / root, 1 / (root + 1)], abs=1e-15)


@pytest.mark.parametrize("level", [0.0, 1e3, -1e12])
def test_weights_far_below_the_offsets_are_not_rounded_away(level):
    x = reciprocal_simplex(np.array([1e-18]), level + np.array([0.0, 1e3]))
    assert x == pytest.approx([1.0, 1e-21], rel=1e-12)


@pytest.mark.parametrize("rare", [1e-100, 1e-300, 1e-310])
def test_reverse_kl_fears_what_is_barely_possible(rare):
    # as q -> 0 on the worst outcome the belief keeps p = 1/2 there: value 1/2 + log(2)/2
    value = risk_value("reverse_kl", np.array([0.0, 1.0]), np.array([rare, 1.0]), np.array([2.0]))
    assert value == pytest.approx(0.5 + np.log(2) / 2, abs=1e-12)
