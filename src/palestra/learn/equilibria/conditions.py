"""When is a risk-averse quantal response equilibrium unique and learnable? Input checks live here too.

Mazumdar, Panaganti, Shi (ICLR 2025): for matched pairs (KL with log barrier, reverse KL with negative entropy) two
players need eps1*eps2*tau1*tau2 >= 1. For n players the rule used is spectral radius(M) <= 1 with M_ij = 1/(eps_i
tau_j), i != j: weights w > 0 with w_i eps_i >= sum_{j != i} w_j / tau_j exist exactly then (Perron-Frobenius). That
n-player form is derived here, not quoted; it reduces to the two-player rule.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from palestra.core.errors import BadInput

Traits: TypeAlias = float | Sequence[float] | np.ndarray  # tau or eps: one number for all players, or one each
Penalty: TypeAlias = str | Callable[..., Any]  # a name of PENALTIES, or a JAX-traceable D(p, q) -> scalar
Regulariser: TypeAlias = str | Callable[..., Any]  # a name of REGULARISERS, or a JAX-traceable nu(x) -> scalar

PENALTIES = ("kl", "reverse_kl", "none")
REGULARISERS = ("log_barrier", "entropy")
MATCHED = {("kl", "log_barrier"), ("reverse_kl", "entropy")}  # pairs with a guarantee
_ROUNDING = 1e-12  # a condition that equals 1 up to rounding holds


class NoGuarantee(UserWarning):
    """The chosen traits or pair are outside what the theory covers; the answer is still checked by its residual."""


def rqe_condition(tau: Traits, eps: Traits) -> float:
    """The condition number: the equilibrium is unique and no-regret learning reaches it when this is >= 1.

    Two players: eps1*eps2*tau1*tau2. In general 1/rho(M)^2 with M_ij = 1/(eps_i tau_j) for i != j. No unit.

    >>> rqe_condition([0.1, 0.1], [10, 10])
    1.0
    >>> round(rqe_condition([0.5, 0.8, 1.0], [3, 4, 3.0]), 4)
    1.4272
    """
    tau, eps = traits(tau, eps)
    if len(tau) == 2:
        return float((tau[0] * eps[0]) * (tau[1] * eps[1]))
    return float(spectral_radius(tau, eps) ** -2)


def spectral_radius(tau: Traits, eps: Traits) -> float:
    """rho(M), M_ij = 1/(eps_i tau_j) for i != j: at most 1 inside the tractable region (derived here).

    >>> round(spectral_radius([0.5, 0.8, 1.0], [3, 4, 3.0]), 10)
    0.8370479457
    """
    tau, eps = traits(tau, eps)
    coupling = 1 / (eps[:, None] * tau[None])
    np.fill_diagonal(coupling, 0.0)
    return float(np.abs(np.linalg.eigvals(coupling)).max())


def holds(condition: float) -> bool:
    """Whether a condition number is inside the tractable region, up to rounding."""
    return condition >= 1 - _ROUNDING


def traits(tau: Traits, eps: Traits, *, players: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Validated float vectors (n,) of risk aversion tau (1/payoff) and bounded rationality eps (payoff).

    A scalar serves all players when `players` is given.
    """
    out = []
    for name, value in (("tau", tau), ("eps", eps)):
        try:
            vector = np.asarray(value, float)
        except (TypeError, ValueError):
            raise BadInput(name, value, "numbers > 0, one per player") from None
        if vector.ndim == 0 and players is not None:
            vector = np.full(players, float(vector))
        if vector.ndim != 1 or len(vector) < 2 or (players is not None and len(vector) != players):
            raise BadInput(name, value, f"one number > 0 for each of the {players or 'two or more'} players")
        if not (np.isfinite(vector).all() and (vector > 0).all()):
            raise BadInput(name, value, "finite numbers > 0")
        out.append(vector)
    if len(out[0]) != len(out[1]):
        raise BadInput("eps", eps, f"{len(out[0])} numbers, as many as tau")
    return out[0], out[1]


def check_pair(penalty: Penalty, regulariser: Regulariser) -> None:
    """Raise BadInput when a penalty or regulariser name is unknown."""
    if not callable(penalty) and penalty not in PENALTIES:
        raise BadInput("penalty", penalty, choices=(*PENALTIES, "a callable D(p, q)"))
    if not callable(regulariser) and regulariser not in REGULARISERS:
        raise BadInput("regulariser", regulariser, choices=(*REGULARISERS, "a callable nu(x)"))


def pair_name(penalty: Penalty, regulariser: Regulariser) -> str:
    """The pair in words, for messages and tables."""
    parts = [p if isinstance(p, str) else getattr(p, "__name__", "callable") for p in (penalty, regulariser)]
    return " + ".join(part.replace("_", " ") for part in parts)
