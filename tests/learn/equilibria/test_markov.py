"""RQE value iteration: the benchmark grid, one-stage games, sampling error, bad input."""

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from palestra.core.errors import BadInput
from palestra.envs.games import MarkovGame, cliff_pair
from palestra.learn.equilibria import GenerativeModel, NoGuarantee, RQEValueIteration, entropic_risk, rqe
from palestra.learn.equilibria.study import random_markov_game, sample_complexity

NUMBERS = Path(__file__).parents[2] / "fixtures" / "rqe" / "markov_and_three_player.json"
CASES = json.loads(NUMBERS.read_text())["gridworld"]["cases"]


@cache
def grid(tau, eps, horizon):
    return RQEValueIteration(cliff_pair(), tau, eps, horizon).solve()


@pytest.mark.filterwarnings("ignore::palestra.learn.equilibria.NoGuarantee")
@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c['tau'][0]}-{c['horizon']}-{c['pos_player1']}")
def test_cliff_pair_values_and_policies(case):
    solution = grid(tuple(case["tau"]), tuple(case["eps"]), case["horizon"])
    values, policies = solution.at((tuple(case["pos_player1"]), tuple(case["pos_player2"])))
    assert values == pytest.approx([case["value1"], case["value2"]], abs=1e-6)
    assert policies[0] == pytest.approx(case["policy1"], abs=1e-6)
    assert policies[1] == pytest.approx(case["policy2"], abs=1e-6)
    assert solution.residual <= 1e-10


def test_one_stage_is_the_matrix_game():
    payoffs = np.random.default_rng(0).uniform(-1, 1, (2, 1, 3, 2))
    game = MarkovGame(payoffs, np.ones((1, 3, 2, 1)))
    solution, single = RQEValueIteration(game, 1.5, 1.0, horizon=1).solve(), rqe(payoffs[:, 0], 1.5, 1.0)
    assert solution.values[0, :, 0] == pytest.approx(single.values, abs=1e-12)
    assert solution.policies[0][0, 0] == pytest.approx(single.policies[0], abs=1e-12)


@pytest.mark.parametrize("pair", [("kl", "log_barrier"), ("reverse_kl", "entropy")])
def test_values_follow_the_bellman_recursion_without_the_eps_term(pair):
    game = random_markov_game(states=3, sizes=(2, 2), seed=4)
    solution = RQEValueIteration(game, 1.0, 1.0, horizon=2, penalty=pair[0], regulariser=pair[1]).solve()
    state = 1
    if pair[0] == "kl":  # Q by hand, entropic risk over next states
        ahead = [entropic_risk(v, game.transitions[state], tau=1.0) for v in solution.values[1]]
        stage = rqe([game.rewards[i, state] + ahead[i] for i in (0, 1)], 1.0, 1.0)
        assert solution.values[0, :, state] == pytest.approx(stage.values, abs=1e-10)
        assert solution.policies[1][0, state] == pytest.approx(stage.policies[1], abs=1e-10)
    neutral = game.rewards[:, state].max() + solution.values[1].max()
    assert (solution.values[0, :, state] <= neutral).all() and solution.certified


def test_sampling_error_falls_as_one_over_root_n():
    found = sample_complexity(random_markov_game(states=4, sizes=(2, 2)), horizon=3, repeats=12)
    assert found.slope == pytest.approx(-0.5, abs=0.1)
    assert found.error[-1] < 0.1 * found.error[0]


def test_generative_model_draws_from_the_transitions():
    game = random_markov_game(states=3, sizes=(2, 2), seed=1)
    model = GenerativeModel(game, rng=0)
    draws = model.sample(2, (1, 0), 20_000)
    assert np.bincount(draws, minlength=3) / 20_000 == pytest.approx(game.transitions[2, 1, 0], abs=0.02)
    rows = model.empirical(50).transitions
    assert rows.sum(-1) == pytest.approx(1) and np.allclose(rows * 50, np.round(rows * 50))


def test_bad_input_names_the_field():
    game = random_markov_game(states=3, sizes=(2, 2))
    with pytest.raises(BadInput, match="horizon=0"):
        RQEValueIteration(game, 1.0, 1.0, horizon=0)
    with pytest.raises(BadInput, match="tau"):
        RQEValueIteration(game, 0.0, 1.0, horizon=1)
    with pytest.raises(BadInput, match="n=0"):
        GenerativeModel(game).empirical(0)
    with pytest.raises(BadInput, match="state=7"):
        GenerativeModel(game).sample(7, (0, 0), 1)
    with pytest.raises(BadInput, match="state"):
        RQEValueIteration(game, 1.0, 1.0, horizon=1).solve().at("nowhere")
    with pytest.warns(NoGuarantee, match=r"condition 0\.01"):
        RQEValueIteration(game, 0.1, 1.0, horizon=1)
