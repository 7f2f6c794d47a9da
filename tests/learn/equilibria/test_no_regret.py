"""No-regret play reaches the exact equilibrium inside the tractable region, and says so when it may not."""

import numpy as np
import pytest

pytest.importorskip("jax")

from palestra.core.errors import BadInput
from palestra.envs.games import selten_chmura
from palestra.learn.equilibria import NoGuarantee, rqe
from palestra.learn.equilibria.study import PAIRS, no_regret_map


@pytest.mark.parametrize(("sizes", "iterations"), [((3, 3), 4000), ((4, 4, 4), 4000)])
def test_kl_with_log_barrier_always_reaches_the_equilibrium(sizes, iterations):
    (found,) = no_regret_map(sizes=sizes, pair=PAIRS[0], levels=(1.0,), games=40, starts=3, iterations=iterations)
    assert found.reached == 1.0 and found.worst <= 1e-3
    assert found.exact_residual <= 1e-10


def test_reverse_kl_with_entropy_reaches_it_with_enough_iterations():
    (found,) = no_regret_map(sizes=(3, 3), pair=PAIRS[1], levels=(1.0,), games=40, starts=3, iterations=12_000)
    assert found.reached == 1.0 and found.worst <= 1e-3


def test_far_below_the_bound_some_games_are_not_learned():
    (found,) = no_regret_map(sizes=(3, 3), pair=PAIRS[0], levels=(1e-4,), games=40, starts=3, iterations=4000)
    assert found.reached < 1.0


@pytest.mark.parametrize("penalty", ["kl", "reverse_kl"])
def test_published_games_are_learned(penalty):
    game, regulariser = selten_chmura(8), dict(PAIRS)[penalty]
    names = {"penalty": penalty, "regulariser": regulariser}
    learned = rqe(game, *game.fits[penalty], **names, method="no_regret", tol=1e-8, iterations=60_000)
    exact = rqe(game, *game.fits[penalty], **names)
    for a, b in zip(learned.policies, exact.policies, strict=True):
        assert a == pytest.approx(b, abs=1e-6)
    assert learned.certified and learned.history[-1] <= 1e-8 and learned.iterations >= len(learned.history)
    for a, b in zip(learned.averages, exact.policies, strict=True):
        assert a == pytest.approx(b, abs=0.05) and a.sum() == pytest.approx(1)


def test_random_starts_are_reproducible_and_lead_to_the_same_place():
    game = selten_chmura(8)
    first, again, other = (
        rqe(game, *game.fits["kl"], method="no_regret", tol=1e-8, key=k, iterations=60_000) for k in (1, 1, 2)
    )
    assert np.array_equal(first.policies[0], again.policies[0])
    assert first.policies[0] == pytest.approx(other.policies[0], abs=1e-6)


def test_a_violated_condition_is_named_with_its_number():
    game = selten_chmura(8)
    with pytest.warns(NoGuarantee, match=r"condition 0\.01 is below 1"):
        result = rqe(game, 0.1, 1.0, method="no_regret", tol=1e-8, iterations=60_000)
    assert not result.certified


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"step": 0.0}, "step"),
        ({"iterations": 0}, "iterations"),
        ({"start": [[0.5, 0.6], [0.5, 0.5]]}, r"start\[0\]"),
        ({"start": [[0.5, 0.5]]}, "start"),
    ],
)
def test_bad_options(options, field):
    with pytest.raises(BadInput, match=field):
        rqe(selten_chmura(8), 1.0, 1.0, method="no_regret", **options)
