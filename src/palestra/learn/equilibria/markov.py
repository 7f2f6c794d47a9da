"""Finite-horizon Markov games: RQE value iteration, exact and from samples of a generative model.

Mazumdar, Panaganti, Shi (ICLR 2025), section on Markov games. Backward induction with H rewards: the last stage has
Q = r; before it Q_h(s, a) = r(s, a) + risk_i(V_{h+1,i}(s')) over s' ~ P(.|s, a), with the same risk measure as towards
the opponents, and V_h is the risk-adjusted value of the stage equilibrium *without* the eps term (with it the
recursion would be wrong). All states of a stage are solved as one batch, warm-started from the stage after it.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from palestra.core.errors import BadInput
from palestra.envs.games.forms import MarkovGame
from palestra.learn.equilibria import conditions
from palestra.learn.equilibria.conditions import Traits
from palestra.learn.equilibria.continuation import solve
from palestra.learn.equilibria.risk import risk_value
from palestra.learn.equilibria.stage import Stage


@dataclass(frozen=True)
class MarkovRQE:
    """The solution of a finite-horizon Markov game.

    Attributes:
        values: (H, n, S) risk-adjusted value from stage h on, payoff units, without the eps term.
        policies: n arrays (H, S, A_i).
        residual: largest best-response change over all stages and states, in probability.
        condition, certified: as in `RQE`, the same at every stage.
        game: the game that was solved (an empirical one when samples were used).
    """

    values: np.ndarray
    policies: list[np.ndarray]
    residual: float
    condition: float
    certified: bool
    game: MarkovGame = field(repr=False)

    def at(self, label: object, *, stage: int = 0) -> tuple[np.ndarray, list[np.ndarray]]:
        """(values (n,), policies [(A_i,)]) at the state with this label, at the given stage."""
        s = self.game.state(label)
        return self.values[stage, :, s], [policy[stage, s] for policy in self.policies]

    def __repr__(self) -> str:
        mark = "certified unique" if self.certified else "not certified"
        mean = " ".join(f"{v:.4g}" for v in self.values[0].mean(-1))
        return (
            f"MarkovRQE({self.game.name!r}, horizon {len(self.values)}, {mark}, residual {self.residual:.1e}, "
            f"condition {self.condition:.4g}, mean first-stage values {mean})"
        )


class RQEValueIteration:
    """Backward induction with the stage RQE.

    Args:
        game: a MarkovGame (n players, S states).
        tau, eps: traits > 0, a number or one per player; 1/payoff and payoff units.
        horizon: number of rewards H >= 1.
        penalty, regulariser: "kl" + "log_barrier" or "reverse_kl" + "entropy" (named ones only).
        tol: largest residual accepted, in probability.

    >>> from palestra.envs.games import cliff_pair
    >>> solution = RQEValueIteration(cliff_pair(), 0.1, 10, horizon=2).solve()
    >>> solution.at(((0, 0), (0, 3)))[0].round(6)
    array([2., 2.])
    """

    def __init__(
        self,
        game: MarkovGame,
        tau: Traits,
        eps: Traits,
        horizon: int,
        *,
        penalty: str = "kl",
        regulariser: str = "log_barrier",
        tol: float = 1e-10,
    ) -> None:
        if not isinstance(game, MarkovGame):
            raise BadInput("game", type(game).__name__, "a MarkovGame")
        if isinstance(horizon, bool) or not isinstance(horizon, (int, np.integer)) or horizon < 1:
            raise BadInput("horizon", horizon, "an integer >= 1")
        conditions.check_pair(penalty, regulariser)
        if callable(penalty) or callable(regulariser):
            raise BadInput("penalty", "a callable", "a named penalty and regulariser in Markov games")
        self.game, self.horizon = game, int(horizon)
        self.tau, self.eps = conditions.traits(tau, eps, players=game.num_players)
        self.penalty, self.regulariser, self.tol = penalty, regulariser, tol
        self.condition = conditions.rqe_condition(self.tau, self.eps)
        self.matched = (penalty, regulariser) in conditions.MATCHED
        if not self.matched or not conditions.holds(self.condition):
            reason = "" if self.matched else f", no guarantee for {conditions.pair_name(penalty, regulariser)}"
            warnings.warn(
                f"condition {self.condition:.6g}{reason}: the stage equilibrium may not be unique",
                conditions.NoGuarantee,
                stacklevel=2,
            )

    def solve(self, *, samples: int | None = None, rng: np.random.Generator | int | None = None) -> MarkovRQE:
        """Solve exactly, or with the empirical transitions of `samples` draws for each (state, joint action)."""
        game = self.game if samples is None else GenerativeModel(self.game, rng=rng).empirical(samples)
        n, states, sizes = game.num_players, game.num_states, game.sizes
        values = np.zeros((self.horizon, n, states))
        policies = [np.zeros((self.horizon, states, a)) for a in sizes]
        residual, start = 0.0, None
        for h in reversed(range(self.horizon)):
            q = game.rewards
            if h + 1 < self.horizon:
                q = q + np.stack([self._ahead(game, i, values[h + 1, i]) for i in range(n)])
            stage = Stage.build(list(q), self.tau, self.eps, self.penalty, self.regulariser)
            start, _, _ = solve(stage, start)
            facts = stage.report(start)
            values[h] = facts["values"].T
            residual = max(residual, float(facts["residual"].max()))
            for i in range(n):
                policies[i][h] = facts["policies"][i]
        certified = bool(self.matched and conditions.holds(self.condition) and residual <= self.tol)
        return MarkovRQE(values, policies, residual, self.condition, certified, game)

    def _ahead(self, game: MarkovGame, player: int, value: np.ndarray) -> np.ndarray:
        """Risk-adjusted value of the next state, shape (S, A_1, ..., A_n)."""
        w = np.broadcast_to(value, game.transitions.shape)
        return risk_value(self.penalty, w, game.transitions, self.tau[player : player + 1])


class GenerativeModel:
    """Sampling access to a Markov game: draw next states for any (state, joint action).

    Args:
        game: the MarkovGame behind it.
        rng: a NumPy generator or a seed.

    >>> model = GenerativeModel(MarkovGame(np.zeros((2, 1)), np.ones((1, 2, 2, 1))), rng=0)
    >>> model.sample(0, (1, 0), 3)
    array([0, 0, 0])
    """

    def __init__(self, game: MarkovGame, *, rng: np.random.Generator | int | None = None) -> None:
        self.game, self.rng = game, np.random.default_rng(rng)

    def sample(self, state: int, actions: Sequence[int], n: int) -> np.ndarray:
        """n next states (n,) after `actions` (one per player) in `state`."""
        self._check(n)
        if not 0 <= state < self.game.num_states:
            raise BadInput("state", state, f"0 to {self.game.num_states - 1}")
        if len(actions) != len(self.game.sizes) or any(not 0 <= a < k for a, k in zip(actions, self.game.sizes)):
            raise BadInput("actions", actions, f"one action per player, below {self.game.sizes}")
        return self.rng.choice(self.game.num_states, size=n, p=self.game.transitions[(state, *actions)])

    def empirical(self, n: int) -> MarkovGame:
        """The game with each transition row replaced by the frequencies of n draws from it."""
        self._check(n)
        rows = self.game.transitions / self.game.transitions.sum(-1, keepdims=True)
        counts = self.rng.multinomial(n, rows)
        return MarkovGame(
            self.game.rewards, counts / n, name=f"{self.game.name} ({n} samples)", states=self.game.states
        )

    @staticmethod
    def _check(n: int) -> None:
        if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 1:
            raise BadInput("n", n, "an integer >= 1")
