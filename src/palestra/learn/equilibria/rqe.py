"""Risk-averse quantal response equilibria: the solver a user calls, and what it returns.

Mazumdar, Panaganti, Shi, "Tractable Multi-Agent Reinforcement Learning through Behavioral Economics", ICLR 2025
(preprint 2406.14156). Player i maximises V_i(pi) - eps_i nu(pi_i) with V_i = min_p { pi_i.R_i p + D_i(p, pi_-i)/tau_i }.
Every answer carries its residual, its regret in payoff units and the condition number; small tau is mild risk aversion.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from palestra.core.errors import BadInput
from palestra.envs.games.forms import NormalForm, check_payoffs
from palestra.learn.equilibria import conditions
from palestra.learn.equilibria.conditions import NoGuarantee
from palestra.learn.equilibria.continuation import newton, solve
from palestra.learn.equilibria.continuation import trace as follow
from palestra.learn.equilibria.stage import Stage, normalise, respond_all

METHODS = ("newton", "fixed_point", "no_regret")


@dataclass(frozen=True)
class RQE:
    """A solved game.

    Attributes:
        policies: mixed policy of each player, n arrays (A_i,).
        adversaries: worst belief of each player over the opponents' joint actions, n arrays (A_j for j != i).
        values: risk-adjusted value of each player without the eps term, (n,), payoff units.
        residual: largest change of one exact best-response pass, in probability.
        regret: per player, bound on what is still to be gained in the regularised risk-adjusted payoff, payoff units.
        condition: the condition number; >= 1 is the tractable region (see `rqe_condition`). NaN for logit.
        certified: condition holds, the pair is one with a guarantee, and the residual is within `tol`.
        history: error after each step of the solver (Newton: |F|; no-regret: residual at each check).
        method, penalty, regulariser, tau, eps, tol: how it was obtained.
        averages: time-averaged policies (no-regret only).
        iterations: steps taken.
    """

    policies: list[np.ndarray]
    adversaries: list[np.ndarray]
    values: np.ndarray
    residual: float
    regret: np.ndarray
    condition: float
    certified: bool
    history: np.ndarray = field(repr=False)
    method: str = "newton"
    penalty: object = "kl"
    regulariser: object = "log_barrier"
    tau: np.ndarray | None = None
    eps: np.ndarray | None = None
    tol: float = 1e-12
    averages: list[np.ndarray] | None = field(default=None, repr=False)
    iterations: int = 0

    @property
    def converged(self) -> bool:
        """Whether the residual is within the tolerance asked for."""
        return bool(self.residual <= self.tol)

    def __repr__(self) -> str:
        state = "certified unique" if self.certified else ("converged" if self.converged else "NOT converged")
        head = f"RQE({conditions.pair_name(self.penalty, self.regulariser)}, {self.method}, {state}, "
        head += f"residual {self.residual:.1e}, condition {self.condition:.4g})"
        rows = []
        for i, (policy, value) in enumerate(zip(self.policies, self.values, strict=True)):
            shown = " ".join(f"{p:.4f}" for p in policy[:12]) + (" ..." if len(policy) > 12 else "")
            rows.append(f"  player {i}: value {value:.6g}  regret {self.regret[i]:.1e}  policy [{shown}]")
        return "\n".join([head, *rows])


def rqe(
    payoffs: NormalForm | Sequence[np.ndarray],
    tau: float | Sequence[float],
    eps: float | Sequence[float],
    *,
    penalty: str | Callable = "kl",
    regulariser: str | Callable = "log_barrier",
    method: str = "newton",
    tol: float = 1e-12,
    **options: object,
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
        **options: for "no_regret": step, iterations, start, key; for "fixed_point": iterations.

    >>> pennies = [[[1, -1], [-1, 1]], [[-1, 1], [1, -1]]]
    >>> rqe(pennies, 1.0, 1.0)
    RQE(kl + log barrier, newton, certified unique, residual 0.0e+00, condition 1)
      player 0: value 0  regret 0.0e+00  policy [0.5000 0.5000]
      player 1: value 0  regret 0.0e+00  policy [0.5000 0.5000]
    """
    conditions.check_pair(penalty, regulariser)
    if method not in METHODS:
        raise BadInput("method", method, choices=METHODS)
    if not (np.isfinite(tol) and tol > 0):
        raise BadInput("tol", tol, "a finite number > 0")
    tensors = payoffs.payoffs if isinstance(payoffs, NormalForm) else check_payoffs(payoffs)
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
        from palestra.learn.equilibria.no_regret import learn

        return learn(tensors, tau, eps, penalty=penalty, regulariser=regulariser, tol=tol, **options)
    if callable(penalty) or callable(regulariser):
        from palestra.learn.equilibria.general import solve_general

        _known(options, ())
        return solve_general(tensors, tau, eps, penalty=penalty, regulariser=regulariser, tol=tol)
    if method == "fixed_point":
        _known(options, ("iterations",))
        stage = stage_of(tensors, tau, eps, penalty, regulariser)
        y, history = _iterate(stage, tol, int(options.get("iterations", 20_000)))
        return package(stage, y, history, tol=tol, method=method)
    _known(options, ())
    unsafe = not (matched and conditions.holds(condition))
    return solve_stage(tensors, tau, eps, penalty=penalty, regulariser=regulariser, tol=tol, trace=unsafe)


def solve_stage(payoffs, tau, eps, *, penalty: str, regulariser: str, tol: float, trace: bool) -> RQE:
    """Exact solution of one game with named penalty and regulariser; `trace` follows the path from uniform play."""
    tensors = payoffs.payoffs if isinstance(payoffs, NormalForm) else check_payoffs(payoffs)
    stage = stage_of(tensors, 1.0 if tau is None else tau, eps, penalty, regulariser)
    y, error, history = follow(stage) if trace else solve(stage)
    if not error[0] <= 1e-9:  # last resort: damped responses, then Newton from there
        y, more = _iterate(stage, 1e-10, 5000)
        polished, after, _ = newton(stage, y, np.ones(1), steps=30)
        if after[0] < 1e-9:
            y, history = polished, [*history, *more]
    return package(stage, y, history, tol=tol, method="newton")


def stage_of(tensors, tau, eps, penalty, regulariser) -> Stage:
    """A batch of one game."""
    return Stage.build([t[None] for t in tensors], tau, eps, penalty, regulariser)


def package(stage: Stage, y: np.ndarray, history, *, tol: float, method: str) -> RQE:
    """The RQE object of a batch of one."""
    facts = stage.report(y)
    neutral = stage.penalty == "none"
    condition = float("nan") if neutral else conditions.rqe_condition(stage.tau[0], stage.eps[0])
    residual = float(facts["residual"][0])
    matched = (stage.penalty, stage.regulariser) in conditions.MATCHED
    sizes = stage.sizes
    return RQE(
        policies=[x[0] for x in facts["policies"]],
        adversaries=[p[0].reshape(sizes[:i] + sizes[i + 1 :]) for i, p in enumerate(facts["adversaries"])],
        values=facts["values"][0],
        residual=residual,
        regret=facts["regret"][0],
        condition=condition,
        certified=bool(matched and conditions.holds(condition) and residual <= tol),
        history=np.asarray(history),
        method=method,
        penalty=stage.penalty,
        regulariser=stage.regulariser,
        tau=np.zeros(len(sizes)) if neutral else stage.tau[0].copy(),
        eps=stage.eps[0].copy(),
        tol=tol,
        iterations=len(history),
    )


def _iterate(stage: Stage, tol: float, iterations: int):
    """Damped best responses in log-policies; the damping halves whenever the error stops falling."""
    y, share = stage.uniform(), np.full(stage.batch, 1.0)
    ones = np.ones(stage.batch)
    gap = -stage.equation(y, ones)
    history, last = [], abs(gap).max(-1)
    for _ in range(iterations):
        trial = normalise(stage, y + share[:, None] * gap)
        gap_trial = -stage.equation(trial, ones)
        error = abs(gap_trial).max(-1)
        worse = error > last
        share = np.where(worse, np.maximum(0.5 * share, 1e-4), np.minimum(1.02 * share, 1.0))
        accept = ~worse | (share <= 1e-4)
        y, gap = np.where(accept[:, None], trial, y), np.where(accept[:, None], gap_trial, gap)
        last = np.where(accept, error, last)
        history.append(float(last.max()))
        state = respond_all(stage, y, ones)
        moved = max(abs(r - x).max() for r, x in zip(state["reply"], state["x"], strict=True))
        if moved <= 0.5 * tol:
            break
    return y, history


def _known(options: dict, names: tuple[str, ...]) -> None:
    for name in options:
        if name not in names:
            raise BadInput("options", name, f"options of this method: {', '.join(names) or 'none'}")
