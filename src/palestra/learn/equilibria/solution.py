"""The answer that every single-game solver returns: policies, beliefs and values, with residual, regret and condition.

`package` judges a point by one exact best-response pass, whichever solver it comes from, so a result never rests on
what its solver believes of itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from palestra.learn.equilibria.conditions import MATCHED, Penalty, Regulariser, holds, pair_name, rqe_condition
from palestra.learn.equilibria.stage import FixedPoint


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
    penalty: Penalty = "kl"
    regulariser: Regulariser = "log_barrier"
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
        head = f"RQE({pair_name(self.penalty, self.regulariser)}, {self.method}, {state}, "
        head += f"residual {self.residual:.1e}, condition {self.condition:.4g})"
        rows = []
        for i, (policy, value) in enumerate(zip(self.policies, self.values, strict=True)):
            shown = " ".join(f"{p:.4f}" for p in policy[:12]) + (" ..." if len(policy) > 12 else "")
            rows.append(f"  player {i}: value {value:.6g}  regret {self.regret[i]:.1e}  policy [{shown}]")
        return "\n".join([head, *rows])


def package(stage: FixedPoint, y: np.ndarray, history: Sequence[float] | np.ndarray, *, tol: float, method: str) -> RQE:
    """The answer for a batch of one game, solved to log-policies y (1, sum A_i) by `method` in `len(history)` steps."""
    facts = stage.report(y)
    neutral = stage.penalty == "none"
    condition = float("nan") if neutral else rqe_condition(stage.tau[0], stage.eps[0])
    residual = float(facts["residual"][0])
    matched = (stage.penalty, stage.regulariser) in MATCHED
    sizes = stage.sizes
    return RQE(
        policies=[x[0] for x in facts["policies"]],
        adversaries=[p[0].reshape(sizes[:i] + sizes[i + 1 :]) for i, p in enumerate(facts["adversaries"])],
        values=facts["values"][0],
        residual=residual,
        regret=facts["regret"][0],
        condition=condition,
        certified=bool(matched and holds(condition) and residual <= tol),
        history=np.asarray(history),
        method=method,
        penalty=stage.penalty,
        regulariser=stage.regulariser,
        tau=np.zeros(len(sizes)) if neutral else stage.tau[0].copy(),
        eps=stage.eps[0].copy(),
        tol=tol,
        iterations=len(history),
    )
