"""Normal-form games and finite-horizon tabular Markov games as validated arrays.

Public arrays keep the *player order*: `payoffs[i][a_0, ..., a_{n-1}]` is what player i earns, axis k being player k's
action, and every player's tensor has the same shape. Solvers want the *own-action-first* order of the paper (player i
on axis 0, the others after it in increasing order); `own_first` gives it. For two players, the column player's
own-first matrix is the transpose of the usual table.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from palestra.core.errors import BadInput

_ROW_SUM_TOLERANCE = 1e-9  # a transition row is a distribution up to rounding


@dataclass(frozen=True)
class NormalForm:
    """A one-shot game of n >= 2 players.

    Args:
        payoffs: n tensors of one shape (A_0, ..., A_{n-1}), axis k = action of player k, in payoff units.
        name: what to call the game in tables.
        actions: one tuple of action names per player; default "0", "1", ...

    >>> NormalForm([[[1, 0], [0, 1]], [[0, 1], [1, 0]]], name="matching pennies")
    NormalForm('matching pennies', 2 players, 2x2 actions)
    """

    payoffs: tuple[np.ndarray, ...]
    name: str = "game"
    actions: tuple[tuple[str, ...], ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "payoffs", check_payoffs(self.payoffs))
        names = self.actions or tuple(tuple(str(a) for a in range(size)) for size in self.sizes)
        names = tuple(tuple(str(a) for a in one) for one in names)
        if tuple(len(one) for one in names) != self.sizes:
            raise BadInput("actions", [len(one) for one in names], f"{list(self.sizes)} names, one list per player")
        object.__setattr__(self, "actions", names)

    @property
    def num_players(self) -> int:
        """How many players."""
        return len(self.payoffs)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of actions of each player."""
        return self.payoffs[0].shape

    def own_first(self) -> list[np.ndarray]:
        """The payoff tensors with the player's own action on axis 0, the others after it in increasing order."""
        return [np.moveaxis(payoff, i, 0) for i, payoff in enumerate(self.payoffs)]

    @classmethod
    def from_own_first(cls, payoffs: Sequence[np.ndarray], *, name: str = "game") -> "NormalForm":
        """Build from tensors that have the own action on axis 0 (the paper's R_i).

        >>> NormalForm.from_own_first([[[1, 2, 3]], [[4], [5], [6]]]).payoffs[1]
        array([[4., 5., 6.]])
        """
        return cls(tuple(np.moveaxis(np.asarray(p, float), 0, i) for i, p in enumerate(payoffs)), name=name)

    def scaled(self, factor: float) -> "NormalForm":
        """The same game with every payoff multiplied by `factor`."""
        return NormalForm(tuple(factor * p for p in self.payoffs), name=self.name, actions=self.actions)

    def expected(self, policies: Sequence[np.ndarray]) -> np.ndarray:
        """Expected payoff of each player, shape (n,), when player k plays the mixed policy `policies[k]`."""
        value = np.stack(self.payoffs)
        for policy in reversed(list(policies)):
            value = value @ np.asarray(policy, float)
        return value

    def __repr__(self) -> str:
        return f"NormalForm({self.name!r}, {self.num_players} players, {'x'.join(map(str, self.sizes))} actions)"


Payoffs: TypeAlias = NormalForm | Sequence[ArrayLike] | np.ndarray  # a game, or a tensor for each player


@dataclass(frozen=True)
class MarkovGame:
    """A tabular Markov game: finite states, simultaneous moves; the horizon is chosen by the solver.

    Args:
        rewards: shape (n, S, A_1, ..., A_n), or (n, S) when the reward depends on the state only (before the move).
        transitions: shape (S, A_1, ..., A_n, S), last axis a distribution over next states.
        name: what to call the game.
        states: a label per state, for `state(label)`; default 0, 1, ...

    >>> game = MarkovGame(np.zeros((2, 1)), np.ones((1, 2, 2, 1)))
    >>> game.sizes, game.num_states
    ((2, 2), 1)
    """

    rewards: np.ndarray
    transitions: np.ndarray
    name: str = "markov game"
    states: tuple = field(default=(), repr=False)

    def __post_init__(self) -> None:
        transitions = np.asarray(self.transitions, float)
        rewards = np.asarray(self.rewards, float)
        if transitions.ndim < 4 or transitions.shape[0] != transitions.shape[-1]:
            raise BadInput("transitions", transitions.shape, "shape (S, A_1, ..., A_n, S) with n >= 2 players")
        n, num_states = transitions.ndim - 2, transitions.shape[0]
        if rewards.shape == (n, num_states):
            rewards = np.broadcast_to(rewards.reshape((n, num_states) + (1,) * n), (n, *transitions.shape[:-1]))
        if rewards.shape != (n, *transitions.shape[:-1]):
            raise BadInput("rewards", rewards.shape, f"shape {(n, *transitions.shape[:-1])} or {(n, num_states)}")
        if not np.isfinite(rewards).all():
            raise BadInput("rewards", "NaN or inf", "finite numbers")
        check_transitions(transitions)
        states = tuple(self.states) or tuple(range(num_states))
        if len(states) != num_states:
            raise BadInput("states", len(states), f"{num_states} labels, one per state")
        object.__setattr__(self, "transitions", transitions)
        object.__setattr__(self, "rewards", rewards)
        object.__setattr__(self, "states", states)

    @property
    def num_players(self) -> int:
        """How many players."""
        return self.rewards.shape[0]

    @property
    def num_states(self) -> int:
        """How many states."""
        return self.transitions.shape[0]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of actions of each player."""
        return self.transitions.shape[1:-1]

    def state(self, label: object) -> int:
        """Index of the state with this label."""
        try:
            return self.states.index(label)
        except ValueError:
            raise BadInput("state", label, f"one of the {self.num_states} labels in `states`") from None

    def __repr__(self) -> str:
        sizes = "x".join(map(str, self.sizes))
        return f"MarkovGame({self.name!r}, {self.num_players} players, {self.num_states} states, {sizes} actions)"


def check_payoffs(payoffs: Payoffs) -> tuple[np.ndarray, ...]:
    """Validated float64 payoff tensors in player order; raises BadInput with the player's index."""
    if isinstance(payoffs, NormalForm):
        return payoffs.payoffs
    try:
        tensors = tuple(np.asarray(payoff, float) for payoff in payoffs)
    except (TypeError, ValueError):
        raise BadInput("payoffs", payoffs, "one numeric array per player") from None
    n = len(tensors)
    if n < 2:
        raise BadInput("payoffs", f"{n} tensor(s)", "one tensor per player, at least two players")
    for i, tensor in enumerate(tensors):
        if tensor.ndim != n:
            raise BadInput(f"payoffs[{i}]", tensor.shape, f"{n} axes, one per player")
        if tensor.shape != tensors[0].shape:
            raise BadInput(f"payoffs[{i}]", tensor.shape, f"the shape of payoffs[0], {tensors[0].shape}")
        if 0 in tensor.shape:
            raise BadInput(f"payoffs[{i}]", tensor.shape, "at least one action per player")
        if not np.isfinite(tensor).all():
            where = tuple(int(k) for k in np.argwhere(~np.isfinite(tensor))[0])
            raise BadInput(f"payoffs[{i}]{list(where)}", tensor[where].item(), "a finite number")
    return tensors


def check_transitions(transitions: np.ndarray) -> None:
    """Raise BadInput naming the first (state, action, ...) row that is not a distribution."""
    bad = ~np.isfinite(transitions).all(-1) | (transitions < 0).any(-1)
    if bad.any():
        where = tuple(int(k) for k in np.argwhere(bad)[0])
        raise BadInput(f"transitions{list(where)}", transitions[where].tolist(), "finite probabilities >= 0")
    total = transitions.sum(-1)
    bad = np.abs(total - 1) > _ROW_SUM_TOLERANCE
    if bad.any():
        where = tuple(int(k) for k in np.argwhere(bad)[0])
        raise BadInput(f"transitions{list(where)}", f"row sum {total[where]:.6g}", "a row that sums to 1")
