"""The exact solver against published games, closed forms, the peer's logit solver and its own invariances."""

import json
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palestra.core.errors import BadInput
from palestra.envs.games import ghp, selten_chmura
from palestra.learn.equilibria import (
    NoGuarantee,
    entropic_risk,
    logit_batch,
    logit_qre,
    nash_2x2,
    rqe,
    rqe_batch,
    rqe_condition,
    spectral_radius,
)

NUMBERS = Path(__file__).parents[2] / "fixtures" / "rqe"
MATRIX = json.loads((NUMBERS / "matrix_games.json").read_text())
THREE = json.loads((NUMBERS / "markov_and_three_player.json").read_text())["three_player"]
PAIRS = {"kl_logbarrier": ("kl", "log_barrier"), "reversekl_entropy": ("reverse_kl", "entropy")}
GAMES = [*MATRIX["games"], MATRIX["ghp_game4"]]
PENNIES = np.array([[[1.0, -1.0], [-1.0, 1.0]], [[-1.0, 1.0], [1.0, -1.0]]])

pair = st.sampled_from(list(PAIRS.values()))
trait = st.floats(0.2, 5.0)


def game_2x3(seed):
    return np.random.default_rng(seed).uniform(-1, 1, (2, 2, 3))


@pytest.mark.parametrize("number", range(13))
@pytest.mark.parametrize("key", list(PAIRS))
def test_published_games_have_their_equilibria(number, key):
    game, (penalty, regulariser) = GAMES[number], PAIRS[key]
    fit = game[key]
    result = rqe(
        [game["row_payoff"], game["col_payoff"]], (fit["tau1"], fit["tau2"]), (fit["eps1"], fit["eps2"]),
        penalty=penalty, regulariser=regulariser,
    )  # fmt: skip
    expected = fit["rqe"][0]
    assert result.policies[0][0] == pytest.approx(expected["up"], abs=1e-8)
    assert result.policies[1][0] == pytest.approx(expected["left"], abs=1e-8)
    assert result.residual <= 1e-10 and result.certified
    assert result.regret.max() <= 1e-9


@pytest.mark.parametrize("number", range(12))
def test_data_in_the_package_is_the_published_data(number):
    game, carried = GAMES[number], selten_chmura(number + 1)
    assert np.array_equal(carried.payoffs[0], game["row_payoff"])
    assert np.array_equal(carried.payoffs[1], game["col_payoff"])
    assert carried.observed == (game["observed"]["up"], game["observed"]["left"])
    for key, (penalty, _) in PAIRS.items():
        (tau1, tau2), (eps1, eps2) = carried.fits[penalty]
        assert (tau1, eps1, tau2, eps2) == tuple(game[key][name] for name in ("tau1", "eps1", "tau2", "eps2"))
        assert rqe_condition((tau1, tau2), (eps1, eps2)) == pytest.approx(game[key]["condition_product"], rel=1e-12)
    (only,) = nash_2x2(carried)
    assert only[0][0] == pytest.approx(game["nash"]["up"]) and only[1][0] == pytest.approx(game["nash"]["left"])


def test_ghp_game_is_the_published_game():
    game = ghp(4)
    assert np.array_equal(game.payoffs[1], MATRIX["ghp_game4"]["col_payoff"]) and game.observed == (0.47, 0.65)


@pytest.mark.parametrize("number", range(12))
def test_logit_equilibria_of_published_games(number):
    game = GAMES[number]
    for precision, expected in game["logit_qre"].items():
        result = logit_qre([game["row_payoff"], game["col_payoff"]], float(precision))
        assert result.policies[0][0] == pytest.approx(expected["up"], abs=1e-10)
        assert result.policies[1][0] == pytest.approx(expected["left"], abs=1e-10)
        assert result.residual <= 1e-10


@pytest.mark.parametrize("precision", [0.5, 2.0, 10.0])
@pytest.mark.parametrize("shape", [(2, 2), (3, 4), (2, 3, 2)])
def test_logit_agrees_with_pygambit(shape, precision):
    gambit = pytest.importorskip("pygambit")
    payoffs = np.random.default_rng(3).uniform(0, 1, (len(shape), *shape))
    table = gambit.Game.from_arrays(*payoffs)
    profile = gambit.qre.logit_solve_lambda(table, [precision])[0].profile
    result = logit_qre(payoffs, precision)
    for policy, player in zip(result.policies, table.players, strict=True):
        assert policy == pytest.approx([float(profile[s]) for s in player.strategies], abs=1e-6)


def test_logit_goes_round_folds_onto_the_principal_branch():
    # a coordination game whose branch leaves the even profile gradually: (4, 4) is risk dominant
    payoffs = [[[4, 0], [0, 2]], [[4, 0], [0, 2]]]
    result = logit_qre(payoffs, 8.0)
    assert result.residual <= 1e-10 and result.policies[0][0] > 0.999


def test_three_players_with_kl_on_the_joint_of_the_others():
    result = rqe([np.array(p) for p in THREE["payoffs"]], THREE["tau"], THREE["eps"])
    for policy, expected in zip(result.policies, THREE["rqe"], strict=True):
        assert policy == pytest.approx(expected, abs=1e-8)
    assert spectral_radius(THREE["tau"], THREE["eps"]) == pytest.approx(THREE["spectral_radius"], abs=1e-12)
    assert result.condition == pytest.approx(THREE["spectral_radius"] ** -2) and result.certified
    assert result.adversaries[0].shape == (2, 2) and result.adversaries[0].sum() == pytest.approx(1)


@settings(max_examples=25, deadline=None)
@given(st.floats(1e-3, 50), st.floats(1e-3, 50), st.floats(1e-2, 50), st.floats(1e-2, 50), pair)
def test_matching_pennies_is_even_for_all_traits(tau1, tau2, eps1, eps2, names):
    result = rqe(PENNIES, (tau1, tau2), (eps1, eps2), penalty=names[0], regulariser=names[1])
    for policy in result.policies:
        assert policy == pytest.approx([0.5, 0.5], abs=1e-9)


@pytest.mark.parametrize("penalty", ["kl", "reverse_kl"])
def test_no_risk_aversion_gives_logit(penalty):
    payoffs = game_2x3(0)
    with pytest.warns(NoGuarantee) if penalty == "kl" else nullcontext():
        result = rqe(payoffs, 1e-8, 0.5, penalty=penalty, regulariser="entropy")
    neutral = logit_qre(payoffs, 2.0)
    for a, b in zip(result.policies, neutral.policies, strict=True):
        assert a == pytest.approx(b, abs=1e-6)
    assert result.values == pytest.approx(neutral.values, abs=1e-6)


def test_extreme_risk_aversion_values_the_worst_case():
    payoffs = game_2x3(1)
    result = rqe(payoffs, 1e6, 0.5)
    worst = [(result.policies[0] @ payoffs[0]).min(), (payoffs[1] @ result.policies[1]).min()]
    assert result.values == pytest.approx(worst, abs=1e-4)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), trait, trait, pair, st.floats(-20, 20), st.floats(-20, 20))
def test_adding_a_constant_moves_only_the_value(seed, tau, eps, names, shift0, shift1):
    payoffs = game_2x3(seed)
    base = rqe_batch(payoffs[:, None], tau, eps, penalty=names[0], regulariser=names[1])
    moved = rqe_batch(payoffs[:, None] + np.reshape([shift0, shift1], (2, 1, 1, 1)), tau, eps,
                      penalty=names[0], regulariser=names[1])  # fmt: skip
    for a, b in zip(base.policies, moved.policies, strict=True):
        assert a == pytest.approx(b, abs=1e-9)
    assert moved.values - base.values == pytest.approx(np.array([[shift0, shift1]]), abs=1e-8)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), trait, trait, pair, st.floats(0.01, 100))
def test_scaling_payoffs_and_traits_keeps_policies(seed, tau, eps, names, factor):
    payoffs = game_2x3(seed)[:, None]
    base = rqe_batch(payoffs, tau, eps, penalty=names[0], regulariser=names[1])
    scaled = rqe_batch(factor * payoffs, tau / factor, eps * factor, penalty=names[0], regulariser=names[1])
    for a, b in zip(base.policies, scaled.policies, strict=True):
        assert a == pytest.approx(b, abs=1e-9)
    assert scaled.values == pytest.approx(factor * base.values, rel=1e-8, abs=1e-8 * factor)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), trait, trait, pair)
def test_solutions_are_interior_policies_that_best_respond(seed, tau, eps, names):
    eps = max(eps, 1 / tau)  # inside the tractable region
    result = rqe(game_2x3(seed), tau, eps, penalty=names[0], regulariser=names[1])
    assert result.residual <= 1e-10 and result.certified
    for policy in result.policies:
        assert policy.sum() == pytest.approx(1, abs=1e-12) and (policy > 0).all()
    assert (result.regret <= 1e-9).all()


def test_value_is_no_better_than_the_expected_payoff():
    payoffs = game_2x3(5)
    result = rqe(payoffs, 2.0, 1.0)
    expected = [result.policies[0] @ p @ result.policies[1] for p in payoffs]
    assert (result.values <= np.array(expected) + 1e-12).all()
    assert result.values[0] == pytest.approx(
        float(entropic_risk(result.policies[0] @ payoffs[0], result.policies[1], tau=2.0)), abs=1e-12
    )


def test_fixed_point_iteration_agrees_with_newton():
    game = selten_chmura(9)
    exact, iterated = (rqe(game, *game.fits["kl"], method=m, tol=1e-10) for m in ("newton", "fixed_point"))
    assert iterated.policies[0] == pytest.approx(exact.policies[0], abs=1e-8) and iterated.converged


@pytest.mark.parametrize("names", list(PAIRS.values()))
def test_batches_equal_single_solves(names):
    payoffs = np.random.default_rng(2).uniform(-1, 1, (3, 6, 2, 3, 2))
    traits = np.random.default_rng(3).uniform(1.5, 3, (2, 6, 3))
    batch = rqe_batch(payoffs, *traits, penalty=names[0], regulariser=names[1])
    for b in range(6):
        single = rqe(payoffs[:, b], traits[0, b], traits[1, b], penalty=names[0], regulariser=names[1])
        for i in range(3):
            assert batch.policies[i][b] == pytest.approx(single.policies[i], abs=1e-11)
        assert batch.condition[b] == pytest.approx(single.condition)
    assert batch.certified.all() and batch.residual.max() <= 1e-10


def test_a_large_batch_is_solved_to_the_residual_claimed():
    payoffs = np.random.default_rng(0).uniform(-1, 1, (2, 1000, 5, 5))
    assert logit_batch(payoffs, 1.0).residual.max() <= 1e-8
    assert rqe_batch(payoffs, 1.0, 1.0).residual.max() <= 1e-8


def test_condition_number():
    assert rqe_condition([0.1, 0.1], [10, 10]) == 1.0
    assert rqe_condition([1, 2], [3, 4]) == pytest.approx(24)
    assert rqe_condition([1, 1, 1], [2, 2, 2]) == pytest.approx(1.0)  # M = (1/2) off the diagonal, radius 1


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"tau": 0.0}, "tau"),
        ({"tau": [1.0, -1.0]}, "tau"),
        ({"eps": 0.0}, "eps"),
        ({"eps": [1.0, float("nan")]}, "eps"),
        ({"tau": [1.0, 1.0, 1.0]}, "tau"),
        ({"payoffs": [[[1, 2], [3, float("nan")]], PENNIES[1]]}, r"payoffs\[0\]\[1, 1\]"),
        ({"payoffs": [PENNIES[0], [[1, float("inf")], [0, 0]]]}, r"payoffs\[1\]\[0, 1\]"),
        ({"payoffs": [PENNIES[0], np.zeros((2, 3))]}, r"payoffs\[1\]"),
        ({"payoffs": [PENNIES[0]]}, "payoffs"),
        ({"penalty": "reverse-kl"}, "did you mean 'reverse_kl'"),
        ({"regulariser": "logbarrier"}, "did you mean 'log_barrier'"),
        ({"method": "newtown"}, "did you mean 'newton'"),
        ({"tol": 0.0}, "tol"),
        ({"steps": 3}, "options"),
    ],
)
def test_bad_input_is_one_clear_line(change, field):
    arguments = {"payoffs": PENNIES, "tau": 1.0, "eps": 1.0} | change
    with pytest.raises(BadInput, match=field) as caught:
        rqe(arguments.pop("payoffs"), arguments.pop("tau"), arguments.pop("eps"), **arguments)
    assert "\n" not in str(caught.value)


def test_pairs_without_a_guarantee_warn_and_are_not_certified():
    with pytest.warns(NoGuarantee, match="kl \\+ entropy"):
        result = rqe(PENNIES, 2.0, 2.0, penalty="kl", regulariser="entropy")
    assert not result.certified and result.converged
    assert not rqe(PENNIES, 0.1, 0.1).certified  # condition violated
    assert "not" not in repr(rqe(PENNIES, 2.0, 2.0)) and "certified unique" in repr(rqe(PENNIES, 2.0, 2.0))
