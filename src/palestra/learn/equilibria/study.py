"""Measurements behind the claims of the RQE paper: plain functions from settings to numbers, no recording, no printing.

What is measured: the gap between predicted and observed play in the Selten-Chmura games; how often no-regret play
reaches the exact equilibrium as a function of the condition number; how the sampling error of value iteration falls;
how an RQE fares against other partners; where fitted people lie relative to the tractable region.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from palestra.envs.games.forms import MarkovGame
from palestra.envs.games.selten_chmura import ObservedGame, selten_chmura
from palestra.learn.equilibria import conditions
from palestra.learn.equilibria.batch import batch_condition, logit_batch, rqe_batch
from palestra.learn.equilibria.conditions import Traits
from palestra.learn.equilibria.markov import RQEValueIteration
from palestra.learn.equilibria.nash import nash_2x2

PAIRS = (("kl", "log_barrier"), ("reverse_kl", "entropy"))


@dataclass(frozen=True)
class GapTable:
    """Predicted against observed play, all arrays (games, 2) = (P(Up), P(Left)).

    Attributes:
        observed, nash, logit, kl, reverse_kl: frequencies; logit at the one precision that fits best.
        precision: that lambda, 1/payoff.
        residual: largest equilibrium residual behind the table.
    """

    observed: np.ndarray
    nash: np.ndarray
    logit: np.ndarray
    kl: np.ndarray
    reverse_kl: np.ndarray
    precision: float
    residual: float

    def gap(self, concept: str) -> tuple[float, float]:
        """(mean, largest) absolute gap of "nash", "logit", "kl" or "reverse_kl" over all frequencies."""
        gaps = abs(getattr(self, concept) - self.observed)
        return float(gaps.mean()), float(gaps.max())

    def rows(self) -> list[dict[str, float | str]]:
        """One row per concept: concept, mean_gap, max_gap."""
        names = ("nash", "logit", "kl", "reverse_kl")
        return [{"concept": c, "mean_gap": self.gap(c)[0], "max_gap": self.gap(c)[1]} for c in names]


def gap_to_observed(games: Sequence[ObservedGame] | None = None, *, precision: float | None = None) -> GapTable:
    """How far Nash, logit with one lambda for all games, and the two published RQE fits are from observed play.

    Args:
        games: 2x2 games with observed play and fits; default the twelve of Selten and Chmura.
        precision: lambda of the logit column, 1/payoff; default the one with the smallest mean absolute gap.

    >>> table = gap_to_observed()
    >>> [round(table.gap(c)[0], 4) for c in ("nash", "logit", "kl", "reverse_kl")]
    [0.0827, 0.0375, 0.0026, 0.015]
    """
    games = [selten_chmura(k) for k in range(1, 13)] if games is None else list(games)
    payoffs = [np.stack([g.payoffs[i] for g in games]) for i in (0, 1)]
    observed = np.array([g.observed for g in games])
    nash = np.array([[p[0] for p in nash_2x2(g)[-1]] for g in games])

    def at(precision: float):
        return logit_batch(payoffs, precision)

    def loss(log_precision: float) -> float:
        return float(abs(_first(at(np.exp(log_precision))) - observed).mean())

    if precision is None:
        grid = np.linspace(np.log(0.05), np.log(10), 60)
        best = grid[np.argmin([loss(g) for g in grid])]
        width = grid[1] - grid[0]
        nearest: Any = minimize_scalar(loss, bounds=(best - width, best + width), method="bounded")
        precision = float(np.exp(nearest.x))
    logit = at(precision)
    solved = {}
    for penalty, regulariser in PAIRS:
        tau, eps = (np.array([g.fits[penalty][part] for g in games], float) for part in (0, 1))
        solved[penalty] = rqe_batch(payoffs, tau, eps, penalty=penalty, regulariser=regulariser)
    residual = max(float(b.residual.max()) for b in (logit, *solved.values()))
    return GapTable(
        observed, nash, _first(logit), _first(solved["kl"]), _first(solved["reverse_kl"]), precision, residual
    )


def _first(batch) -> np.ndarray:
    return np.stack([x[:, 0] for x in batch.policies], axis=-1)


def random_traits(rng: np.random.Generator, batch: int, players: int, condition) -> tuple[np.ndarray, np.ndarray]:
    """(tau, eps), each (batch, players): log-uniform within a factor e around 1, eps rescaled to the condition given."""
    tau, eps = np.exp(rng.uniform(-1, 1, (2, batch, players)))
    factor = np.sqrt(np.asarray(condition, float) / batch_condition(tau, eps))
    return tau, eps * factor[:, None]


@dataclass(frozen=True)
class Convergence:
    """No-regret play against the exact equilibrium for one shape, pair and condition number.

    Attributes:
        sizes, penalty, regulariser, condition: the setting.
        games, starts: how many random games, and random starts in each.
        reached: share of games in which every start ended within `tolerance` of the exact policies.
        agreed: share of games in which every start ended at an equilibrium (residual within `tolerance`).
        worst: largest distance from the exact policies over all runs, in probability.
        averages_worst: the same for the time-averaged policies.
        iterations: (median, largest) steps until the residual fell to `stop`, or the limit.
        exact_residual: largest residual of the exact solutions that were found.
        solved: share of games whose exact solution was found (residual below 1e-9); the others, possible only far
            outside the tractable region, are left out of `reached` and `worst`.
    """

    sizes: tuple[int, ...]
    penalty: str
    regulariser: str
    condition: float
    games: int
    starts: int
    reached: float
    agreed: float
    worst: float
    averages_worst: float
    iterations: tuple[int, int]
    exact_residual: float
    solved: float = 1.0


def no_regret_map(
    *,
    sizes: Sequence[int] = (3, 3),
    pair: tuple[str, str] = PAIRS[0],
    levels: Sequence[float] = (1.0, 1.2, 2.0),
    games: int = 200,
    starts: int = 5,
    iterations: int = 4000,
    step: float = 0.1,
    tolerance: float = 1e-3,
    stop: float = 1e-6,
    seed: int = 0,
) -> list[Convergence]:
    """How often no-regret play from random starts ends at the exact equilibrium, for each condition number.

    Payoffs are uniform on [-1, 1], traits from `random_traits`, starts uniform on the simplex (Dirichlet(1)).

    Args:
        sizes: actions of each player; levels: condition numbers; games, starts: per level.
        iterations: limit per run; stop: residual at which a run ends early; tolerance: what counts as reached.

    >>> no_regret_map(levels=(1.2,), games=4, starts=2)[0].reached
    1.0
    """
    from palestra.learn.equilibria.no_regret import play

    penalty, regulariser = pair
    n, rng, out = len(sizes), np.random.default_rng(seed), []
    for level in levels:
        payoffs = rng.uniform(-1, 1, (n, games, *sizes))
        tau, eps = random_traits(rng, games, n, np.full(games, float(level)))
        exact = rqe_batch(payoffs, tau, eps, penalty=penalty, regulariser=regulariser)
        own = [np.moveaxis(p, 1 + i, 1).reshape(games, 1, sizes[i], -1) for i, p in enumerate(payoffs)]
        start = [rng.dirichlet(np.ones(a), (games, starts)) for a in sizes]
        final = play(
            own, tau[:, None], eps[:, None], start, step=step, penalty=penalty, regulariser=regulariser,
            iterations=iterations, tol=stop,
        )  # fmt: skip
        solved = exact.residual <= 1e-9
        distance = _distance(final["policies"], exact.policies)[solved]
        out.append(
            Convergence(
                sizes=tuple(sizes),
                penalty=penalty,
                regulariser=regulariser,
                condition=float(level),
                games=games,
                starts=starts,
                reached=float((distance.max(1) <= tolerance).mean()),
                agreed=float((final["residual"].max(1) <= tolerance).mean()),
                worst=float(distance.max(initial=0.0)),
                averages_worst=float(_distance(final["averages"], exact.policies)[solved].max(initial=0.0)),
                iterations=(int(np.median(final["iterations"])), int(final["iterations"].max())),
                exact_residual=float(exact.residual[solved].max(initial=0.0)),
                solved=float(solved.mean()),
            )
        )
    return out


def _distance(runs, exact) -> np.ndarray:
    """(games, starts): largest policy difference."""
    return np.max([abs(x - e[:, None]).max(-1) for x, e in zip(runs, exact, strict=True)], axis=0)


@dataclass(frozen=True)
class SampleError:
    """Sampling error of value iteration: samples (K,), error (K,) = mean over repeats of max |V_0 - V_0 exact|, slope
    of log error on log samples (theory: -1/2) with its standard error."""

    samples: np.ndarray
    error: np.ndarray
    slope: float
    slope_error: float


def sample_complexity(
    game: MarkovGame | None = None,
    *,
    tau: Traits = 1.0,
    eps: Traits = 1.0,
    horizon: int = 4,
    samples: Sequence[int] = (16, 64, 256, 1024, 4096),
    repeats: int = 8,
    seed: int = 0,
) -> SampleError:
    """Error of RQE value iteration with N draws per (state, joint action); default game: `random_markov_game`."""
    game = random_markov_game(seed=seed) if game is None else game
    solver = RQEValueIteration(game, tau, eps, horizon)
    exact = solver.solve().values[0]
    rng = np.random.default_rng(seed)
    errors = np.array(
        [[abs(solver.solve(samples=n, rng=rng).values[0] - exact).max() for _ in range(repeats)] for n in samples]
    )
    x, y = np.repeat(np.log(samples), repeats), np.log(errors).ravel()
    fit, covariance = np.polyfit(x, y, 1, cov=True)
    return SampleError(np.asarray(samples), errors.mean(1), float(fit[0]), float(np.sqrt(covariance[0, 0])))


def random_markov_game(*, states: int = 8, sizes: Sequence[int] = (3, 3), seed: int = 0) -> MarkovGame:
    """Rewards uniform on [-1, 1], transition rows Dirichlet(1)."""
    rng = np.random.default_rng(seed)
    rewards = rng.uniform(-1, 1, (len(sizes), states, *sizes))
    return MarkovGame(rewards, rng.dirichlet(np.ones(states), (states, *sizes)), name="random")


@dataclass(frozen=True)
class CrossPlay:
    """Row player's payoff when concept a (rows) meets concept b (columns), payoff units scaled to range 1.

    Attributes:
        concepts: names. mean (C, C): mean over games of the expected payoff. worst (C,): mean over games of the
        payoff against the column policy that hurts most. drift (C,): mean payoff lost when the partner's policy moves
        from what the concept expects to the worst within total-variation `radius`.
    """

    concepts: tuple[str, ...]
    mean: np.ndarray
    worst: np.ndarray
    drift: np.ndarray
    radius: float
    games: int


def cross_play(
    *, games: int = 500, tau: float = 10.0, eps: float = 0.1, radius: float = 0.1, seed: int = 0
) -> CrossPlay:
    """Robust cross-play on random 2x2 games with one Nash equilibrium: RQE, Nash and logit partners.

    Payoffs are uniform on [0, 1]; both players of a concept use that concept's policies. RQE is reverse KL + entropy,
    so it differs from logit at precision 1/eps by risk aversion alone.
    """
    rng = np.random.default_rng(seed)
    nash, kept = [], []
    while len(kept) < games:
        game = rng.uniform(0, 1, (2, 2, 2))
        found = nash_2x2(game)
        if len(found) == 1:
            kept.append(game)
            nash.append(found[0])
    row, col = np.array(kept)[:, 0], np.array(kept)[:, 1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", conditions.NoGuarantee)
        rqe = rqe_batch([row, col], tau, eps, penalty="reverse_kl", regulariser="entropy").policies
    logit = logit_batch([row, col], 1 / eps).policies
    nash = [np.array([profile[i] for profile in nash]) for i in (0, 1)]
    policies = {"rqe": rqe, "nash": nash, "logit": logit}
    concepts = tuple(policies)
    mean = np.array(
        [[np.einsum("bi,bij,bj->b", policies[a][0], row, policies[b][1]).mean() for b in concepts] for a in concepts]
    )
    by_column = {c: np.einsum("bi,bij->bj", policies[c][0], row) for c in concepts}
    worst = np.array([by_column[c].min(-1).mean() for c in concepts])
    drift = []
    for c in concepts:
        expected = policies[c][1]
        good, bad = by_column[c].max(-1), by_column[c].min(-1)
        best = by_column[c].argmax(-1)
        moved = np.minimum(radius, expected[np.arange(games), best])
        drift.append(((good - bad) * moved).mean())
    return CrossPlay(concepts, mean, worst, np.array(drift), radius, games)


@dataclass(frozen=True)
class Region:
    """Points of people or settings relative to the tractable region of two-player games.

    Attributes:
        a, b: (K,) eps1*tau2 and eps2*tau1 of each point: the region is a*b >= 1. label (K,) names.
        condition: (K,) the product.
    """

    a: np.ndarray
    b: np.ndarray
    condition: np.ndarray
    labels: tuple[str, ...]


def tractable_region(traits: Sequence[tuple[Traits, Traits]] | None = None, labels=None) -> Region:
    """Place ((tau1, tau2), (eps1, eps2)) pairs, default the published Selten-Chmura fits, on the map of the region."""
    if traits is None:
        games = [selten_chmura(k) for k in range(1, 13)]
        traits = [g.fits[p] for p, _ in PAIRS for g in games]
        labels = [f"{k} {p.replace('_', ' ')}" for p, _ in PAIRS for k in range(1, 13)]
    pairs = [conditions.traits(tau, eps, players=2) for tau, eps in traits]
    tau, eps = np.array([t for t, _ in pairs]), np.array([e for _, e in pairs])
    names = tuple(labels) if labels is not None else tuple(str(k) for k in range(len(pairs)))
    return Region(eps[:, 0] * tau[:, 1], eps[:, 1] * tau[:, 0], batch_condition(tau, eps), names)


def region_figure(region: Region, convergence: Sequence[Convergence] = ()):
    """Matplotlib figure: heat map of log10 condition with the points of `region`; beside it the convergence map."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.5 if convergence else 5, 4.2), layout="constrained")
    axes = figure.subplots(1, 2 if convergence else 1, squeeze=False)[0]
    span = np.linspace(-3, 3, 121)
    heat = np.add.outer(span, span)
    image = axes[0].pcolormesh(10**span, 10**span, heat, cmap="RdYlBu", vmin=-4, vmax=4, shading="nearest")
    axes[0].plot(10**span, 10**-span, color="black", lw=1)
    axes[0].scatter(region.a, region.b, s=18, color="black", zorder=3)
    for a, b, name in zip(region.a, region.b, region.labels, strict=True):
        axes[0].annotate(name.split()[0], (a, b), xytext=(3, 3), textcoords="offset points", fontsize=6)
    axes[0].set(
        xscale="log", yscale="log", xlabel="eps1 * tau2", ylabel="eps2 * tau1", title="tractable: above the line"
    )
    axes[0].set(xlim=(1e-3, 1e3), ylim=(1e-3, 1e3))
    figure.colorbar(image, ax=axes[0], label="log10 condition")
    groups: dict[str, list[Convergence]] = {}
    for one in convergence:
        name = f"{conditions.pair_name(one.penalty, one.regulariser)} {'x'.join(map(str, one.sizes))}"
        groups.setdefault(name, []).append(one)
    for name, points in groups.items():
        points = sorted(points, key=lambda c: c.condition)
        axes[1].semilogx([c.condition for c in points], [c.reached for c in points], "o-", ms=3, label=name)
    if convergence:
        axes[1].axvline(1, color="black", lw=1)
        axes[1].set(xlabel="condition number", ylabel="share of games reached", ylim=(-0.03, 1.03))
        axes[1].legend(fontsize=6)
    return figure
