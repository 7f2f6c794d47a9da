"""Maximum likelihood of risk aversion and bounded rationality from observed play.

The choices of each player are independent draws from the RQE policy, so the log-likelihood of counts k is sum k log
pi(tau, eps); its gradient and the Fisher information come from implicit differentiation of the equilibrium, in log tau
and log eps. Many games with common traits are solved as one batch. With one 2x2 game there are two frequencies and
four traits: the maximiser is then a curve, and standard errors in its directions are infinite. The fit says so.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize

from palestra.core.errors import BadInput
from palestra.envs.games.forms import NormalForm, Payoffs, check_payoffs
from palestra.learn.equilibria import conditions
from palestra.learn.equilibria.batch import batch_condition
from palestra.learn.equilibria.continuation import solve
from palestra.learn.equilibria.stage import Stage, linearise

TRAITS = ("per_player", "common")
_STARTS = 48  # random starting traits, screened as one batch
_POLISH = 3  # of them climbed to the top
_SPAN = np.log(1e4)  # traits stay within this factor of the payoff scale
_NULL = 1e-9  # relative eigenvalue of the information below which a direction counts as unidentified


@dataclass(frozen=True)
class RQEFit:
    """A maximum-likelihood fit.

    Attributes:
        tau, eps: (n,) estimates. tau_se, eps_se: standard errors (delta method on the log scale); inf where the data
            do not identify the trait.
        loglik: at the estimate; saturated: of the observed frequencies themselves; deviance = 2 (saturated - loglik).
        predicted: list over games of lists over players of policies (A_i,).
        condition: condition number of the estimate; bounded: whether the tractable-region constraint is active.
        identified: whether every trait has a finite standard error.
        residual: largest equilibrium residual behind the fit. decisions: total counts. parameters: number fitted.
        covariance: of (log tau, log eps) as fitted, with infinite directions removed.
    """

    tau: np.ndarray
    eps: np.ndarray
    tau_se: np.ndarray
    eps_se: np.ndarray
    loglik: float
    saturated: float
    predicted: list[list[np.ndarray]] = field(repr=False)
    condition: float = float("nan")
    bounded: bool = False
    identified: bool = True
    residual: float = 0.0
    decisions: float = 0.0
    parameters: int = 0
    covariance: np.ndarray | None = field(default=None, repr=False)

    @property
    def deviance(self) -> float:
        """Twice the log-likelihood gap to the saturated model."""
        return 2 * (self.saturated - self.loglik)

    def __repr__(self) -> str:
        def show(values, errors):
            return " ".join(f"{v:.4g}({s:.2g})" for v, s in zip(values, errors, strict=True))

        note = "" if self.identified else ", NOT identified: several traits explain the data equally well"
        edge = ", on the edge of the tractable region" if self.bounded else ""
        return (
            f"RQEFit(tau {show(self.tau, self.tau_se)}, eps {show(self.eps, self.eps_se)}, deviance "
            f"{self.deviance:.4g} on {self.parameters} traits, condition {self.condition:.4g}{edge}{note})"
        )


def fit_rqe(
    payoffs: Payoffs | Sequence[NormalForm],
    counts: Sequence[ArrayLike] | Sequence[Sequence[ArrayLike]],
    *,
    penalty: str = "kl",
    regulariser: str = "log_barrier",
    traits: str = "per_player",
    tractable: bool = True,
    seed: int = 0,
) -> RQEFit:
    """Fit (tau, eps) to how often each action was chosen.

    Args:
        payoffs: a NormalForm or n tensors; or a list of NormalForms of one shape, played by the same people.
        counts: n arrays (A_i,) of choice counts (any nonnegative weights); for several games a list of those.
        penalty, regulariser: a named pair.
        traits: "per_player" (tau_i and eps_i for each role) or "common" (one tau, one eps for all).
        tractable: keep the condition number >= 1.
        seed: of the starting points.

    >>> pennies = NormalForm([[[2, 0], [0, 1]], [[0, 1], [1, 0]]])
    >>> fit = fit_rqe(pennies, [[40, 60], [35, 65]], traits="common")
    >>> fit.condition >= 1 - 1e-6
    True
    """
    games, tables = _read(payoffs, counts)
    conditions.check_pair(penalty, regulariser)
    if callable(penalty) or callable(regulariser) or penalty == "none":
        raise BadInput("penalty", penalty, choices=("kl", "reverse_kl"))
    if traits not in TRAITS:
        raise BadInput("traits", traits, choices=TRAITS)
    if (penalty, regulariser) not in conditions.MATCHED:
        warnings.warn(
            f"no guarantee is known for {conditions.pair_name(penalty, regulariser)}",
            conditions.NoGuarantee,
            stacklevel=2,
        )
    problem = _Problem(games, tables, penalty, regulariser, traits)
    starts = problem.starts(np.random.default_rng(seed), tractable)
    best = min((problem.climb(start, tractable) for start in starts), key=lambda found: found.fun)
    return problem.conclude(best.x, tractable)


class _Problem:
    """Likelihood over theta = log of the scaled traits: (log tau * scale..., log eps / scale...)."""

    def __init__(self, games, tables, penalty, regulariser, traits) -> None:
        self.payoffs = [np.stack([g.payoffs[i] for g in games]) for i in range(games[0].num_players)]
        self.n, self.games, self.sizes = games[0].num_players, len(games), games[0].sizes
        self.counts = np.stack([np.concatenate(table) for table in tables])  # (G, N)
        self.total = float(self.counts.sum())
        self.penalty, self.regulariser = penalty, regulariser
        scale = np.mean([np.ptp(p) / 2 for g in games for p in g.payoffs])
        self.log_scale = float(np.log(scale)) if scale > 0 else 0.0
        block = np.eye(self.n) if traits == "per_player" else np.ones((self.n, 1))
        self.expand = np.kron(np.eye(2), block)  # (2n, K): theta -> log traits
        self.offset = np.repeat([-self.log_scale, self.log_scale], self.n)
        self.warm: np.ndarray | None = None

    def traits(self, theta):
        """(tau, eps), each (..., n)."""
        logs = theta @ self.expand.T + self.offset
        return np.exp(logs[..., : self.n]), np.exp(logs[..., self.n :])

    def stage(self, tau, eps) -> Stage:
        return Stage.build(self.payoffs, tau, eps, self.penalty, self.regulariser)

    def starts(self, rng, tractable):
        """The best few of a random batch of traits, all solved at once."""
        count = self.expand.shape[1]
        theta = rng.uniform(-3, 2, (_STARTS, count))
        theta[0] = 0.0
        if tractable:
            low = np.minimum(np.log(batch_condition(*self.traits(theta))), 0)
            theta = theta - 0.5 * low[:, None]  # lift onto the tractable region (the number is scale-free)
        tau, eps = self.traits(theta)
        many = [np.tile(p, (_STARTS, *([1] * self.n))) for p in self.payoffs]
        wide = Stage.build(
            many, np.repeat(tau, self.games, 0), np.repeat(eps, self.games, 0), self.penalty, self.regulariser
        )
        y, error, _ = solve(wide)
        y, error = y.reshape(_STARTS, self.games, -1), error.reshape(_STARTS, -1).max(1)
        score = np.where(error < 1e-6, (self.counts * y).sum((1, 2)), -np.inf)
        return theta[np.argsort(-score)[:_POLISH]]

    def evaluate(self, theta):
        """(y (G, N), dy/dtheta (G, N, K))."""
        stage = self.stage(*self.traits(theta))
        y, error, _ = solve(stage, self.warm)
        if error.max() > 1e-6 and self.warm is not None:
            y, error, _ = solve(stage)
        self.warm = y if error.max() <= 1e-6 else None
        line = linearise(stage, y, np.ones(self.games), traits=True)
        right = np.concatenate([line.by_log_tau, line.by_log_eps], axis=-1) @ self.expand
        return y, -np.linalg.solve(line.jacobian, right)

    def climb(self, start, tractable):
        """Minimise the mean negative log-likelihood from `start` within the box, and the region when asked."""

        def loss(theta):
            y, move = self.evaluate(theta)
            value = -(self.counts * y).sum() / self.total
            slope = -np.einsum("gn,gnk->k", self.counts, move) / self.total
            return (value, slope) if np.isfinite(value) and np.isfinite(slope).all() else (1e6, np.zeros_like(theta))

        def room(theta):
            return float(np.log(batch_condition(*(v[None] for v in self.traits(theta)))[0]))

        self.warm = None
        bounds = [(-_SPAN, _SPAN)] * len(start)
        limits = [{"type": "ineq", "fun": room}] if tractable else []
        return minimize(
            loss, start, jac=True, method="SLSQP", bounds=bounds, constraints=limits,
            options={"ftol": 1e-14, "maxiter": 300},
        )  # fmt: skip

    def conclude(self, theta, tractable) -> RQEFit:
        tau, eps = self.traits(theta)
        self.warm = None
        y, move = self.evaluate(theta)
        x = np.exp(y)
        cuts = np.cumsum(self.sizes)[:-1]
        trials = np.concatenate([np.repeat(part.sum(-1, keepdims=True), part.shape[-1], -1)
                                 for part in np.split(self.counts, cuts, axis=-1)], axis=-1)  # fmt: skip
        information = np.einsum("gn,gnk,gnl->kl", trials * x, move, move)  # Fisher information of log traits
        values, vectors = np.linalg.eigh(information)
        null = values <= _NULL * max(values.max(), 1e-300)
        inverse = (vectors[:, ~null] / values[~null]) @ vectors[:, ~null].T
        wide = self.expand @ inverse @ self.expand.T
        free = (self.expand @ vectors[:, null]) ** 2
        errors = np.sqrt(np.maximum(np.diag(wide), 0))
        errors = np.where(free.sum(1) > 1e-6, np.inf, errors)
        share = np.where(trials > 0, self.counts / np.maximum(trials, 1e-300), 0)
        saturated = float((self.counts * np.log(np.where(share > 0, share, 1))).sum())
        stage = self.stage(tau, eps)
        condition = conditions.rqe_condition(tau, eps)
        return RQEFit(
            tau=tau,
            eps=eps,
            tau_se=tau * errors[: self.n],
            eps_se=eps * errors[self.n :],
            loglik=float((self.counts * y).sum()),
            saturated=saturated,
            predicted=[np.split(row, cuts) for row in x],
            condition=condition,
            bounded=bool(tractable and condition < 1 + 1e-6),
            identified=bool(np.isfinite(errors).all()),
            residual=float(stage.report(y)["residual"].max()),
            decisions=self.total,
            parameters=self.expand.shape[1],
            covariance=inverse,
        )


def _read(payoffs, counts) -> tuple[list[NormalForm], list[list[np.ndarray]]]:
    """Games and count tables, validated and aligned."""
    single = True
    if isinstance(payoffs, NormalForm):
        games, tables = [payoffs], [counts]
    elif not all(isinstance(g, NormalForm) for g in payoffs):
        games, tables = [NormalForm(check_payoffs(payoffs))], [counts]
    else:
        single, games, tables = False, list(payoffs), list(counts)
        if not games or len({g.sizes for g in games}) != 1:
            raise BadInput("payoffs", [g.sizes for g in games], "one or more games of one shape")
        if len(tables) != len(games):
            raise BadInput("counts", f"{len(tables)} tables", f"one table for each of the {len(games)} games")
    out = []
    for k, (game, table) in enumerate(zip(games, tables, strict=True)):
        rows = [np.asarray(row, float) for row in table]
        where = "counts" if single else f"counts[{k}]"
        if [row.shape for row in rows] != [(a,) for a in game.sizes]:
            raise BadInput(
                where, [row.shape for row in rows], f"one count per action, shapes {[(a,) for a in game.sizes]}"
            )
        for i, row in enumerate(rows):
            if not np.isfinite(row).all() or (row < 0).any() or row.sum() <= 0:
                raise BadInput(f"{where}[{i}]", row.tolist(), "finite counts >= 0, at least one positive")
        out.append(rows)
    return games, out
