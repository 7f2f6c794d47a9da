"""Risk-averse quantal response equilibria: the solver a user calls.

Mazumdar, Panaganti, Shi, "Tractable Multi-Agent Reinforcement Learning through Behavioral Economics", ICLR 2025
(preprint 2406.14156). Player i maximises V_i(pi) - eps_i nu(pi_i) with V_i = min_p { pi_i.R_i p + D_i(p, pi_-i)/tau_i }.
Every answer carries its residual, its regret in payoff units and the condition number; small tau is mild risk aversion.
"""

import warnings
from collections.abc import Sequence
from typing import TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike

from palestra.core.errors import BadInput
from palestra.envs.games.forms import Payoffs, check_payoffs
from palestra.learn.equilibria import conditions
from palestra.learn.equilibria.conditions import NoGuarantee, Penalty, Regulariser, Traits
from palestra.learn.equilibria.exact import solve_exact, solve_fixed_point
from palestra.learn.equilibria.solution import RQE

METHODS = {  # and the options each one takes
    "newton": (),
    "fixed_point": ("iterations",),
    "no_regret": ("iterations", "step", "start", "key"),
}


class Options(TypedDict, total=False):
    """Options of the iterative methods."""

    iterations: int
    step: float | None
    start: Sequence[ArrayLike] | None
    key: int | None


def rqe(
    payoffs: Payoffs,
    tau: Traits,
    eps: Traits,
    *,
    penalty: Penalty = "kl",
    regulariser: Regulariser = "log_barrier",
    method: str = "newton",
    tol: float = 1e-12,
    **options: Unpack[Options],
) -> RQE:
    """Solve an n-player matrix game for its risk-averse quantal response equilibrium.

    Args:
        payoffs: a NormalForm, or n tensors (A_0, ..., A_{n-1}) in player order (both players' tables look the same
            way round); payoff units.
        tau: risk aversion > 0 per player, 1/payoff; small is mild.
        eps: bounded rationality > 0 per player, payoff units; small is sharp.
        penalty: "kl" (entropic risk), "reverse_kl", "none" (risk neutral), or a JAX-traceable D(p, q) -> scalar that
            is convex in p and zero at p = q.
        regulariser: "log_barrier", "entropy", or a JAX-traceable strictly convex nu(x) -> scalar.
        method: "newton" (exact; continuation, and arclength where the path folds), "fixed_point" (damped best
            responses), "no_regret" (all 2n players learn by composite mirror descent).
        tol: largest residual accepted, in probability.
        **options: for "no_regret": iterations, step, start, key (see `no_regret.learn`); for "fixed_point": iterations.

    Raises:
        BadInput: payoffs, traits, a name or an option is not what it should be.

    >>> pennies = [[[1, -1], [-1, 1]], [[-1, 1], [1, -1]]]
    >>> rqe(pennies, 1.0, 1.0)
    RQE(kl + log barrier, newton, certified unique, residual 0.0e+00, condition 1)
      player 0: value 0  regret 0.0e+00  policy [0.5000 0.5000]
      player 1: value 0  regret 0.0e+00  policy [0.5000 0.5000]
    """
    conditions.check_pair(penalty, regulariser)
    if method not in METHODS:
        raise BadInput("method", method, choices=tuple(METHODS))
    for name in options:
        if name not in METHODS[method]:
            raise BadInput("options", name, f"options of {method}: {', '.join(METHODS[method]) or 'none'}")
    if not (np.isfinite(tol) and tol > 0):
        raise BadInput("tol", tol, "a finite number > 0")
    tensors = check_payoffs(payoffs)
    tau, eps = conditions.traits(tau, eps, players=len(tensors))
    condition = conditions.rqe_condition(tau, eps)
    matched = (penalty, regulariser) in conditions.MATCHED
    if not matched:
        warnings.warn(
            f"no guarantee is known for {conditions.pair_name(penalty, regulariser)}: matched pairs are "
            "kl + log barrier and reverse kl + entropy",
            NoGuarantee,
            stacklevel=2,
        )
    elif method == "no_regret" and not conditions.holds(condition):
        warnings.warn(
            f"condition {condition:.6g} is below 1: no-regret play may not reach an equilibrium",
            NoGuarantee,
            stacklevel=2,
        )
    if method == "no_regret":
        from palestra.learn.equilibria.no_regret import learn  # brings JAX

        return learn(tensors, tau, eps, penalty=penalty, regulariser=regulariser, tol=tol, **options)
    if callable(penalty) or callable(regulariser):
        from palestra.learn.equilibria.general import solve_general  # brings JAX

        return solve_general(tensors, tau, eps, penalty=penalty, regulariser=regulariser, tol=tol)
    if method == "fixed_point":
        iterations = options.get("iterations", 20_000)
        return solve_fixed_point(
            tensors, tau, eps, penalty=penalty, regulariser=regulariser, tol=tol, iterations=iterations
        )
    several = not (matched and conditions.holds(condition))
    return solve_exact(tensors, tau, eps, penalty=penalty, regulariser=regulariser, tol=tol, follow=several)
