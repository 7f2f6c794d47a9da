"""The twelve 2x2 games of Selten and Chmura (2008) with what people did in them.

Source of payoffs and frequencies: R. Selten, T. Chmura, "Stationary concepts for experimental 2x2-games", American
Economic Review 98(3), 938-966 (2008), doi:10.1257/aer.98.3.938. Games 1-6 are constant-sum (12 independent subject
groups each), games 7-12 are not (6 groups each); a group is four row and four column players over 200 periods.
Fitted (tau, eps): Mazumdar, Panaganti, Shi, ICLR 2025 (preprint 2406.14156), as listed for both penalty pairs.
Rows are Up, Down; columns Left, Right. Equal game numbers modulo 6 share their Nash equilibrium.
"""

from dataclasses import dataclass, field

import numpy as np

from palestra.core.errors import BadInput
from palestra.envs.games.forms import NormalForm

_ACTIONS = (("Up", "Down"), ("Left", "Right"))
_ROLE_SIZE, _PERIODS = 4, 200  # players per role in a group; periods played
# (row payoffs, column payoffs, observed (P(Up), P(Left)), (tau1, eps1, tau2, eps2) KL + log barrier,
#  the same for reverse KL + entropy)
_GAMES = (
    ([[10, 0], [9, 10]], [[8, 18], [9, 8]], (0.079, 0.69), (0.1, 0.21, 100, 0.555), (1.15, 1.2, 1, 0.9)),
    ([[9, 0], [6, 8]], [[4, 13], [7, 5]], (0.217, 0.527), (0.08, 0.68, 2, 10), (0.9, 0.5, 1, 15)),
    ([[8, 0], [7, 10]], [[6, 14], [7, 4]], (0.163, 0.793), (0.1, 0.216, 56, 0.837), (0.2, 0.85, 2.8, 2.2)),
    ([[7, 0], [5, 9]], [[4, 11], [6, 2]], (0.286, 0.736), (0.1, 0.35, 30, 1.64), (0.4, 0.4, 2.2, 2.9)),
    ([[7, 0], [4, 8]], [[2, 9], [5, 1]], (0.327, 0.664), (0.1, 0.38, 10, 2.7), (0.5, 0.3, 2, 3.5)),
    ([[7, 1], [3, 8]], [[1, 7], [5, 0]], (0.445, 0.596), (0.1, 0.92, 6, 3.8), (1, 0.9, 2.2, 6)),
    ([[10, 4], [9, 14]], [[12, 22], [9, 8]], (0.141, 0.564), (0.1, 0.49, 11, 1.88), (0.2, 1.15, 2.8, 3.5)),
    ([[9, 3], [6, 11]], [[7, 16], [7, 5]], (0.25, 0.586), (0.1, 0.36, 10, 2.8), (0.2, 0.5, 2.5, 6)),
    ([[8, 3], [7, 13]], [[9, 17], [7, 4]], (0.254, 0.827), (0.1, 0.179, 90, 0.65), (0.067, 0.75, 10, 2)),
    ([[7, 2], [5, 11]], [[6, 13], [6, 2]], (0.366, 0.699), (0.3, 0.1, 20, 2.11), (0.35, 0.7, 1, 4.1)),
    ([[7, 2], [4, 10]], [[4, 11], [5, 1]], (0.331, 0.652), (0.1, 0.172, 25, 2.97), (0.11, 0.88, 1.7, 6.4)),
    ([[7, 3], [3, 10]], [[3, 9], [5, 0]], (0.439, 0.604), (0.04, 0.23, 19, 5.74), (0.1, 0.3, 3, 12)),
)


@dataclass(frozen=True, repr=False)
class ObservedGame(NormalForm):
    """A 2x2 game with observed play and the published trait fits.

    Attributes beyond NormalForm:
        observed: (P(Up), P(Left)) in the laboratory.
        decisions: how many decisions stand behind each frequency (per role), or None when not known.
        fits: {"kl": ((tau1, tau2), (eps1, eps2)), "reverse_kl": ...}: KL goes with the log barrier, reverse KL
            with negative entropy. eps is in payoff units, tau in 1/payoff units.
    """

    observed: tuple[float, float] = (float("nan"), float("nan"))
    decisions: int | None = None
    fits: dict = field(default_factory=dict)

    def counts(self) -> list[np.ndarray]:
        """Observed choices as (near) counts: two arrays of shape (2,), frequency times number of decisions."""
        total = self.decisions or 100
        return [total * np.array([share, 1 - share]) for share in self.observed]


def selten_chmura(k: int) -> ObservedGame:
    """Game k (1 to 12) of Selten and Chmura.

    >>> game = selten_chmura(1)
    >>> game.payoffs[0].tolist(), game.observed, game.decisions
    ([[10.0, 0.0], [9.0, 10.0]], (0.079, 0.69), 9600)
    """
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or not 1 <= k <= len(_GAMES):
        raise BadInput("k", k, "a game number from 1 to 12")
    row, col, observed, kl, reverse = _GAMES[k - 1]
    groups = 12 if k <= 6 else 6
    return observed_game(f"Selten-Chmura {k}", (row, col), observed, kl, reverse, groups * _ROLE_SIZE * _PERIODS)


def observed_game(name, payoffs, observed, kl, reverse, decisions) -> ObservedGame:
    """Assemble an ObservedGame from the flat (tau1, eps1, tau2, eps2) lists of the tables."""
    fits = {"kl": ((kl[0], kl[2]), (kl[1], kl[3])), "reverse_kl": ((reverse[0], reverse[2]), (reverse[1], reverse[3]))}
    return ObservedGame(tuple(payoffs), name, _ACTIONS, observed=observed, decisions=decisions, fits=fits)
