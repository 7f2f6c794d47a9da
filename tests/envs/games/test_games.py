"""Game forms check what they are given; importers read what others write."""

import json
from copy import deepcopy

import numpy as np
import pytest

from palestra.core.errors import BadInput
from palestra.envs.games import (
    MarkovGame,
    NormalForm,
    cliff_pair,
    from_arrays,
    from_openspiel,
    from_pettingzoo,
    from_pygambit,
    ghp,
    load_game,
    selten_chmura,
)

ROW, COL = np.array([[1.0, 2, 3], [4, 5, 6]]), np.array([[0.0, 1, 0], [2, 0, 7]])

TREE = """EFG 2 R "tree" { "A" "B" }
p "" 1 1 "" { "l" "r" } 0
p "" 2 1 "" { "L" "R" } 0
t "" 1 "" { 0 0 }
t "" 2 "" { 1 -1 }
p "" 2 1 "" { "L" "R" } 0
t "" 3 "" { 2 -2 }
t "" 4 "" { 3 -3 }
"""


def test_own_first_order_puts_the_own_action_on_axis_0():
    game = NormalForm([ROW, COL])
    assert game.sizes == (2, 3) and game.own_first()[1].shape == (3, 2)
    assert np.array_equal(game.own_first()[1], COL.T)
    back = NormalForm.from_own_first(game.own_first())
    assert np.array_equal(back.payoffs[1], COL)
    three = NormalForm(np.arange(3 * 24.0).reshape(3, 2, 3, 4))
    assert three.own_first()[2].shape == (4, 2, 3)
    assert three.own_first()[2][1, 0, 2] == three.payoffs[2][0, 2, 1]


def test_expected_payoffs():
    game = NormalForm([ROW, COL])
    x, y = np.array([0.25, 0.75]), np.array([0.2, 0.3, 0.5])
    assert game.expected([x, y]) == pytest.approx([x @ ROW @ y, x @ COL @ y])
    assert game.scaled(2.0).expected([x, y]) == pytest.approx(2 * game.expected([x, y]))


@pytest.mark.parametrize(
    ("payoffs", "field"),
    [
        ([ROW], "payoffs"),
        ([ROW, COL.T], r"payoffs\[1\]"),
        ([ROW, np.zeros(3)], r"payoffs\[1\]"),
        ([ROW, np.where(COL == 7, np.nan, COL)], r"payoffs\[1\]\[1, 2\]"),
        ([np.zeros((0, 2))] * 2, r"payoffs\[0\]"),
        (["a", "b"], "payoffs"),
    ],
)
def test_bad_payoffs_are_named(payoffs, field):
    with pytest.raises(BadInput, match=field):
        NormalForm(payoffs)


def test_transition_rows_that_do_not_sum_to_one_are_named():
    rows = np.full((2, 2, 2, 2), 0.5)
    rows[1, 0, 1] = [0.5, 0.4]
    with pytest.raises(BadInput, match=r"transitions\[1, 0, 1\].*0\.9"):
        MarkovGame(np.zeros((2, 2)), rows)
    rows[1, 0, 1] = [1.5, -0.5]
    with pytest.raises(BadInput, match=r"transitions\[1, 0, 1\]"):
        MarkovGame(np.zeros((2, 2)), rows)
    with pytest.raises(BadInput, match="rewards"):
        MarkovGame(np.zeros((3, 2)), np.full((2, 2, 2, 2), 0.5))
    with pytest.raises(BadInput, match="rewards"):
        MarkovGame(np.full((2, 2), np.inf), np.full((2, 2, 2, 2), 0.5))


def test_games_out_of_range():
    for k in (0, 13, 1.5, True):
        with pytest.raises(BadInput, match="1 to 12"):
            selten_chmura(k)
    with pytest.raises(BadInput, match="4"):
        ghp(1)


def test_sample_sizes_of_the_laboratory_games():
    assert selten_chmura(6).decisions == 9600 and selten_chmura(7).decisions == 4800
    assert selten_chmura(7).counts()[1] == pytest.approx([0.564 * 4800, 0.436 * 4800])
    constant = [np.ptp(sum(selten_chmura(k).payoffs)) == 0 for k in range(1, 13)]
    assert constant == [True] * 6 + [False] * 6


def test_cliff_pair_rules():
    game = cliff_pair()
    apart = game.state(((2, 0), (2, 3)))
    row = game.transitions[apart, 1, 3]  # player 0 up, player 1 down
    assert row[game.state(((2, 1), (2, 2)))] == pytest.approx(0.9 + 0.1 / 4)  # two in-grid neighbours each
    near = game.state(((1, 1), (1, 2)))
    row = game.transitions[near, 0, 0]
    assert row[game.state(((2, 1), (2, 2)))] == pytest.approx(0.5 + 0.5 / 16)
    wall = game.transitions[apart, 0, 3]  # +x leaves the grid: player 0 stays
    assert wall[game.state(((2, 0), (2, 2)))] == pytest.approx(0.9)
    home = game.state(((0, 0), (2, 3)))
    assert game.transitions[home, 0, 3][[game.state(((0, 0), c)) for c in ((2, 2), (1, 3))]].sum() == pytest.approx(1)
    assert game.rewards[:, apart, 0, 0] == pytest.approx([0.1, 0.1])
    with pytest.raises(BadInput, match="layout"):
        cliff_pair(["1_", "x_"])


def test_gambit_files(tmp_path):
    gambit = pytest.importorskip("pygambit")
    game = gambit.Game.from_arrays(ROW, COL, title="mine")
    assert np.array_equal(from_pygambit(game).payoffs[1], COL)
    path = tmp_path / "game.nfg"
    path.write_text(game.to_nfg())
    assert np.array_equal(load_game(path).payoffs[0], ROW) and load_game(path).name == "mine"
    path = tmp_path / "game.efg"
    path.write_text(TREE)
    assert load_game(path).payoffs[0].tolist() == [[0, 1], [2, 3]]
    broken = tmp_path / "broken.nfg"
    broken.write_text("NFG 1 R nonsense")
    with pytest.raises(BadInput, match=r"broken\.nfg"):
        load_game(broken)


def test_array_files(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps({"payoffs": [ROW.tolist(), COL.tolist()], "name": "json game"}))
    np.savez(tmp_path / "b.npz", payoffs=np.stack([ROW, COL]))
    np.savez(tmp_path / "c.npz", rewards=np.zeros((2, 1)), transitions=np.ones((1, 2, 2, 1)))
    np.save(tmp_path / "d.npy", np.stack([ROW, COL]))
    assert load_game(tmp_path / "a.json").name == "json game"
    assert np.array_equal(load_game(tmp_path / "b.npz").payoffs[1], COL)
    assert isinstance(load_game(tmp_path / "c.npz"), MarkovGame)
    assert np.array_equal(load_game(tmp_path / "d.npy").payoffs[0], ROW)
    (tmp_path / "e.json").write_text('{"payoff": 1}')
    (tmp_path / "f.json").write_text("{")
    for name, match in (("e.json", "payoffs"), ("f.json", r"f\.json"), ("g.json", "existing"), ("h.txt", ".nfg")):
        with pytest.raises(BadInput, match=match):
            load_game(tmp_path / name)


def test_one_matrix_is_zero_sum():
    assert np.array_equal(from_arrays(ROW).payoffs[1], -ROW)


def test_openspiel_games():
    pytest.importorskip("pyspiel")
    game = from_openspiel("matrix_pd")
    assert game.payoffs[0].tolist() == [[5, 0], [10, 1]] and game.actions[0] == ("Cooperate", "Defect")
    with pytest.raises(BadInput, match="one-shot"):
        from_openspiel("kuhn_poker")


class Discrete:
    """The part of gymnasium.spaces.Discrete that the importer reads."""

    def __init__(self, n, start=0):
        self.n, self.start = n, start


class Walk:
    """A PettingZoo-shaped parallel game: two players push a token on cells 0..2; the episode ends after `last` steps."""

    possible_agents = ("a", "b")
    metadata = {"name": "walk"}

    def __init__(self, last, slip=0.0):
        self.last, self.slip, self.np_random = last, slip, np.random.default_rng(0)

    def action_space(self, agent):
        return Discrete(2, start=1 if agent == "b" else 0)

    def reset(self, seed=None):
        self.agents, self.cell, self.time = list(self.possible_agents), 1, 0
        return self.see(), {}

    def see(self):
        return {agent: np.array([self.cell, self.time]) for agent in self.possible_agents}

    def step(self, actions):
        assert actions["b"] in (1, 2)
        push = actions["a"] - (actions["b"] - 1)
        if self.np_random.random() < self.slip:
            push = 0
        self.cell, self.time = int(np.clip(self.cell + push, 0, 2)), self.time + 1
        over = self.time >= self.last
        flags = dict.fromkeys(self.possible_agents, over)
        if over:
            self.agents = []
        return self.see(), {"a": float(self.cell), "b": -float(self.cell)}, flags, dict.fromkeys(flags, False), {}

    def __deepcopy__(self, memo):
        other = Walk(self.last, self.slip)
        other.agents, other.cell, other.time = list(self.agents), self.cell, self.time
        other.np_random = deepcopy(self.np_random, memo)
        return other


def test_pettingzoo_one_step_environment_is_a_normal_form():
    game = from_pettingzoo(Walk(last=1))
    assert isinstance(game, NormalForm) and game.payoffs[0].tolist() == [[1, 0], [2, 1]]


def test_pettingzoo_environment_is_enumerated():
    game = from_pettingzoo(Walk(last=2))
    assert isinstance(game, MarkovGame) and game.num_states == 1 + 3 + 1  # start, three cells at time 1, the end
    assert game.transitions[-1, ..., -1].min() == 1 and not game.rewards[:, -1].any()
    assert game.rewards[0, 0].tolist() == [[1, 0], [2, 1]]
    with pytest.raises(BadInput, match="max_states"):
        from_pettingzoo(Walk(last=50), max_states=10)


def test_pettingzoo_random_dynamics_are_sampled():
    game = from_pettingzoo(Walk(last=1, slip=0.5), samples=400)
    assert game.payoffs[0] == pytest.approx(np.array([[1, 0.5], [1.5, 1]]), abs=0.1)


class Forgetful(Walk):
    """Like many PettingZoo environments: a deep copy is a new environment that was never reset."""

    _ezpickle_args = ()

    def __deepcopy__(self, memo):
        return Forgetful(self.last, self.slip)


def test_pettingzoo_environments_whose_copies_start_afresh_are_replayed():
    plain, replayed = (from_pettingzoo(kind(last=3)) for kind in (Walk, Forgetful))
    assert np.array_equal(plain.transitions, replayed.transitions) and np.array_equal(plain.rewards, replayed.rewards)
