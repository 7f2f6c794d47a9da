"""Fits recover traits, certificates count equilibria, gradients agree with differences, callables with names."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palestra.core.errors import BadInput
from palestra.envs.games import selten_chmura
from palestra.learn.equilibria import (
    NoGuarantee,
    certify_2x2,
    differentiable_rqe,
    fit_rqe,
    logit_qre,
    nash_2x2,
    rqe,
    rqe_gradients,
)
from palestra.learn.equilibria.study import cross_play, gap_to_observed, region_figure, tractable_region

GAMES = [selten_chmura(k) for k in range(1, 13)]
COORDINATION = [[[4, 0], [0, 4]], [[4, 0], [0, 4]]]
PAIRS = [("kl", "log_barrier"), ("reverse_kl", "entropy")]


def test_gap_to_observed_play():
    table = gap_to_observed()
    assert table.gap("nash")[0] == pytest.approx(0.0827, abs=5e-5)
    assert table.gap("kl") == pytest.approx((0.0026, 0.0146), abs=5e-5)
    assert table.gap("reverse_kl") == pytest.approx((0.0150, 0.0860), abs=5e-5)
    assert table.gap("logit")[0] <= gap_to_observed(precision=1.12).gap("logit")[0]
    assert gap_to_observed(precision=1.12).gap("logit")[0] == pytest.approx(0.0376, abs=5e-5)
    assert np.argmax(abs(table.reverse_kl - table.observed).max(1)) == 1  # game 2, wrong in the publication
    assert table.residual <= 1e-10


@pytest.mark.parametrize(("penalty", "regulariser"), PAIRS)
def test_fit_recovers_traits_from_exact_frequencies(penalty, regulariser):
    tau, eps = np.array([0.3, 0.8]), np.array([2.0, 3.0])
    counts = [[2000 * x for x in rqe(g, tau, eps, penalty=penalty, regulariser=regulariser).policies] for g in GAMES]
    fit = fit_rqe(GAMES, counts, penalty=penalty, regulariser=regulariser)
    assert fit.tau == pytest.approx(tau, rel=1e-3) and fit.eps == pytest.approx(eps, rel=1e-3)
    assert fit.deviance == pytest.approx(0, abs=1e-5) and fit.identified and not fit.bounded
    assert (fit.tau_se < fit.tau).all() and (fit.tau_se > 0).all()


def test_standard_errors_cover_the_truth_at_the_nominal_rate():
    tau, eps, rng = 0.5, 3.0, np.random.default_rng(0)
    exact = [rqe(g, tau, eps).policies for g in GAMES]
    scores = []
    for _ in range(20):
        counts = [[rng.multinomial(400, x) for x in policies] for policies in exact]
        fit = fit_rqe(GAMES, counts, traits="common")
        scores.append((np.log(fit.eps[0] / eps)) / (fit.eps_se[0] / fit.eps[0]))
    assert 0.5 < np.sqrt(np.mean(np.square(scores))) < 1.6


def test_one_2x2_game_fits_exactly_and_is_reported_as_not_identified():
    game = GAMES[6]
    fit = fit_rqe(game, game.counts())
    assert fit.predicted[0][0][0] == pytest.approx(game.observed[0], abs=1e-5)
    assert fit.predicted[0][1][0] == pytest.approx(game.observed[1], abs=1e-5)
    assert not fit.identified and np.isinf(fit.tau_se).any() and "NOT identified" in repr(fit)
    assert fit.condition >= 1 - 1e-6


@pytest.mark.parametrize(
    ("counts", "field"),
    [([[1, 2], [3]], "counts"), ([[1, 2], [-3, 4]], r"counts\[1\]"), ([[0, 0], [3, 4]], r"counts\[0\]")],
)
def test_bad_counts(counts, field):
    with pytest.raises(BadInput, match=field):
        fit_rqe(GAMES[0], counts)


@pytest.mark.parametrize(("penalty", "regulariser"), PAIRS)
@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 2)])
def test_gradients_agree_with_differences(shape, penalty, regulariser):
    rng, n, h = np.random.default_rng(0), len(shape), 1e-5
    payoffs, tau, eps = rng.uniform(-1, 1, (n, *shape)), rng.uniform(1, 2, n), rng.uniform(1.5, 2, n)
    names = {"penalty": penalty, "regulariser": regulariser}
    found = rqe_gradients(payoffs, tau, eps, **names)

    def difference(d_payoff=0.0, d_tau=0.0, d_eps=0.0):
        up = rqe(payoffs + d_payoff, tau + d_tau, eps + d_eps, **names).policies
        down = rqe(payoffs - d_payoff, tau - d_tau, eps - d_eps, **names).policies
        return [(a - b) / (2 * h) for a, b in zip(up, down, strict=True)]

    for k in range(n):
        entry = (k, *(int(rng.integers(size)) for size in shape))
        bump = np.zeros_like(payoffs)
        bump[entry] = h
        for i, slope in enumerate(difference(d_payoff=bump)):
            assert found.by_payoff[i][k][(slice(None), *entry[1:])] == pytest.approx(slope, abs=1e-8)
        for i, slope in enumerate(difference(d_tau=h * np.eye(n)[k])):
            assert found.by_tau[i][:, k] == pytest.approx(slope, abs=1e-8)
        for i, slope in enumerate(difference(d_eps=h * np.eye(n)[k])):
            assert found.by_eps[i][:, k] == pytest.approx(slope, abs=1e-8)


def test_jax_function_has_the_same_gradients():
    jax = pytest.importorskip("jax")
    payoffs = np.random.default_rng(1).uniform(-1, 1, (2, 2, 2))
    exact = rqe_gradients(payoffs, 2.0, 1.0)
    with jax.enable_x64(True):
        arguments = [jax.numpy.asarray(v) for v in (payoffs, np.full(2, 2.0), np.full(2, 1.0))]
        slopes = jax.jacrev(lambda *a: differentiable_rqe(*a)[1][0], argnums=(0, 1, 2))(*arguments)
    for k in (0, 1):
        assert np.asarray(slopes[0][k]) == pytest.approx(exact.by_payoff[1][k][0], abs=1e-10)
    assert np.asarray(slopes[1]) == pytest.approx(exact.by_tau[1][0], abs=1e-10)
    assert np.asarray(slopes[2]) == pytest.approx(exact.by_eps[1][0], abs=1e-10)


@pytest.mark.parametrize(("penalty", "regulariser"), PAIRS)
@pytest.mark.parametrize("k", [1, 5, 12])
def test_published_equilibria_are_proved_unique(k, penalty, regulariser):
    game = GAMES[k - 1]
    proof = certify_2x2(game, *game.fits[penalty], penalty=penalty, regulariser=regulariser)
    solved = rqe(game, *game.fits[penalty], penalty=penalty, regulariser=regulariser)
    assert proof.unique
    assert proof.equilibria[0] == pytest.approx([x[0] for x in solved.policies], abs=1e-9)


@pytest.mark.parametrize(("penalty", "regulariser"), [*PAIRS, ("none", "entropy")])
def test_coordination_has_three_equilibria_outside_the_region(penalty, regulariser):
    proof = certify_2x2(COORDINATION, 0.01, 0.5, penalty=penalty, regulariser=regulariser)
    assert (proof.count, proof.undecided, proof.unique) == (3, 0, False)
    assert proof.equilibria[1] == pytest.approx([0.5, 0.5], abs=1e-9)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.3, 3.0), st.sampled_from(PAIRS))
def test_inside_the_region_the_count_is_one(seed, tau, names):
    payoffs = np.random.default_rng(seed).uniform(-1, 1, (2, 2, 2))
    assert certify_2x2(payoffs, tau, 1.02 / tau, penalty=names[0], regulariser=names[1]).unique


def test_nash_lists_pure_and_mixed():
    found = nash_2x2(COORDINATION)
    assert len(found) == 3 and found[-1][0] == pytest.approx([0.5, 0.5])
    with pytest.raises(BadInput):
        nash_2x2(np.zeros((2, 2, 3)))


def test_cross_play_shows_caution_paying_in_the_worst_case():
    table = cross_play(games=300)
    worst = dict(zip(table.concepts, table.worst, strict=True))
    assert worst["rqe"] > worst["logit"]  # risk aversion is what differs
    assert (table.mean.diagonal() >= table.worst - 1e-12).all()


def test_region_map_has_one_point_per_fit():
    region = tractable_region()
    assert len(region.labels) == 24 and (region.condition >= 1 - 1e-12).all()
    assert region.a * region.b == pytest.approx(region.condition)
    assert len(region_figure(region).axes) == 2  # the map and its colour bar


def test_callables_give_the_same_answer_as_names():
    jnp = pytest.importorskip("jax.numpy")
    game = GAMES[6]

    def kl(p, q):
        return (p * jnp.log(p / q)).sum()

    def log_barrier(x):
        return -jnp.log(x).sum()

    with pytest.warns(NoGuarantee, match="kl \\+ log barrier"):
        result = rqe(game, *game.fits["kl"], penalty=kl, regulariser=log_barrier, tol=1e-9)
    exact = rqe(game, *game.fits["kl"])
    assert result.policies[0] == pytest.approx(exact.policies[0], abs=1e-9)
    assert result.values == pytest.approx(exact.values, abs=1e-9)
    assert result.converged and not result.certified
    with pytest.raises(BadInput, match="regulariser"), pytest.warns(NoGuarantee):
        rqe(game, 1.0, 1.0, regulariser=lambda x: "no number")


def test_logit_regret_is_in_payoff_units():
    payoffs = np.random.default_rng(0).uniform(-1, 1, (2, 3, 3))
    assert (1000 * logit_qre(payoffs, 2.0).regret <= 1e-9).all()
    assert logit_qre(1000 * payoffs, 0.002).regret.max() <= 1e-8
