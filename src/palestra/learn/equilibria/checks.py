"""Exact checks of the solvers, as numbers: residuals, invariances, limits, agreement with an independent solver.

Each function returns the largest error over its cases, in probability or payoff units as stated, so that a run can
report it and a test can bound it.
"""

import time
from collections.abc import Iterable
from typing import Any

import numpy as np

from palestra.core.errors import MissingExtra
from palestra.envs.games import ghp, selten_chmura
from palestra.learn.equilibria.batch import logit_batch, rqe_batch
from palestra.learn.equilibria.logit import logit_qre
from palestra.learn.equilibria.rqe import rqe
from palestra.learn.equilibria.solution import RQE
from palestra.learn.equilibria.study import PAIRS

PENNIES = (np.array([[1.0, -1.0], [-1.0, 1.0]]), np.array([[-1.0, 1.0], [1.0, -1.0]]))


def laboratory_residual() -> float:
    """Largest equilibrium residual over the 13 laboratory games and both pairs, in probability."""
    worst = 0.0
    for game in [*(selten_chmura(k) for k in range(1, 13)), ghp(4)]:
        for penalty, regulariser in PAIRS:
            tau, eps = game.fits[penalty]
            worst = max(worst, rqe(game, tau, eps, penalty=penalty, regulariser=regulariser).residual)
    return worst


def pennies_error(rng: np.random.Generator, *, draws: int = 50) -> float:
    """Matching pennies has the uniform equilibrium for every (tau, eps): largest deviation, in probability."""
    tau, eps = np.exp(rng.uniform(-3, 3, (2, draws, 2)))
    payoffs = [np.broadcast_to(matrix, (draws, 2, 2)) for matrix in PENNIES]
    errors = []
    for penalty, regulariser in PAIRS:
        solved = rqe_batch(payoffs, tau, eps, penalty=penalty, regulariser=regulariser)
        errors.extend(abs(policy - 0.5).max() for policy in solved.policies)
    return float(max(errors))


def logit_limit_error(*, tau: float = 1e-8, precision: float = 1.0) -> float:
    """RQE with entropy at a tiny tau against logit equilibria with lambda = 1/eps: largest difference in probability."""
    worst = 0.0
    for k in range(1, 13):
        game = selten_chmura(k)
        exact = logit_qre(game.payoffs, precision).policies
        near = rqe(game, tau, 1 / precision, penalty="reverse_kl", regulariser="entropy").policies
        worst = max(worst, *(float(abs(a - b).max()) for a, b in zip(exact, near, strict=True)))
    return worst


def invariance_error(rng: np.random.Generator, *, games: int = 50, shift: float = 7.3, scale: float = 40.0) -> float:
    """Shifted payoffs move only the values, by the shift; payoffs times s with (tau/s, eps·s) change no policy.

    Returns the largest violation over random 3x4 games and both pairs, in probability or relative value.
    """
    payoffs = rng.uniform(-1, 1, (2, games, 3, 4))
    tau, eps = np.exp(rng.uniform(0, 1, (2, games, 2)))
    worst = 0.0
    for penalty, regulariser in PAIRS:

        def solve(payoffs, tau, eps, pair=(penalty, regulariser)):
            return rqe_batch(payoffs, tau, eps, penalty=pair[0], regulariser=pair[1])

        plain, moved, scaled = solve(payoffs, tau, eps), solve(payoffs + shift, tau, eps), None
        scaled = solve(payoffs * scale, tau / scale, eps * scale)
        for one in (moved, scaled):
            worst = max(worst, *(float(abs(a - b).max()) for a, b in zip(plain.policies, one.policies, strict=True)))
        worst = max(worst, float(abs(moved.values - plain.values - shift).max()) / shift)
        worst = max(worst, float(abs(scaled.values / scale - plain.values).max()))
    return worst


def three_player_game(rng: np.random.Generator) -> tuple[list[np.ndarray], tuple[float, ...], tuple[float, ...]]:
    """A random 2x2x2 game with traits inside the tractable region: payoffs, tau, eps."""
    return list(rng.uniform(-1, 1, (3, 2, 2, 2))), (2.0, 1.5, 2.5), (1.2, 1.4, 1.1)


def three_player_error(rng: np.random.Generator) -> tuple[float, RQE]:
    """Exact against learned equilibrium of one three-player game: largest difference, and the exact solution."""
    payoffs, tau, eps = three_player_game(rng)
    exact = rqe(payoffs, tau, eps)
    learned = rqe(payoffs, tau, eps, method="no_regret", tol=1e-10)
    errors = (abs(a - b).max() for a, b in zip(exact.policies, learned.policies, strict=True))
    return float(max(errors)), exact


def peer_error(precision: float = 1.0) -> float:
    """Logit equilibria against pygambit's path follower at the same lambda: largest difference in probability, 12 games.

    Raises:
        MissingExtra: pygambit is not installed.
    """
    games = [selten_chmura(k).payoffs for k in range(1, 13)]
    worst = 0.0
    for payoffs in games:
        ours, theirs = logit_qre(payoffs, precision).policies, _policies(_trace(_table(payoffs), precision))
        worst = max(worst, *(float(abs(a - b).max()) for a, b in zip(ours, theirs, strict=True)))
    return worst


def speed(
    rng: np.random.Generator,
    *,
    games: int = 10_000,
    peer_games: int = 200,
    actions: int = 5,
    precision: float = 1.0,
) -> dict[str, float]:
    """Logit equilibria of random two-player games: ours in one batch, pygambit's in a loop over the first few.

    Payoffs are uniform on [-1, 1]. Both sides are warm, and pygambit's game objects are built before the clock starts.

    Args:
        games: in the batch. peer_games: of them given to pygambit, at most `games`. actions: of each player.
        precision: lambda, 1/payoff.

    Returns:
        ours, peer: seconds a game; ratio = peer / ours; residual: our largest; disagreement: largest difference between
        the two sides, in probability.

    Raises:
        MissingExtra: pygambit is not installed.
    """
    payoffs = rng.uniform(-1, 1, (2, games, actions, actions))
    tables = [_table(payoffs[:, k]) for k in range(min(peer_games, games))]
    logit_batch(payoffs[:, :10], precision)
    _trace(tables[0], precision)
    started = time.perf_counter()
    solved = logit_batch(payoffs, precision)
    ours = (time.perf_counter() - started) / games
    started = time.perf_counter()
    profiles = [_trace(table, precision) for table in tables]
    peer = (time.perf_counter() - started) / len(tables)
    pairs = ((solved.policies[i][k], x) for k, profile in enumerate(profiles) for i, x in enumerate(_policies(profile)))
    return {
        "ours": ours,
        "peer": peer,
        "ratio": peer / ours,
        "residual": float(solved.residual.max()),
        "disagreement": max(float(abs(a - b).max()) for a, b in pairs),
    }


def _table(payoffs: Iterable[np.ndarray]) -> Any:
    """The game as pygambit's own object."""
    try:
        import pygambit
    except ImportError as error:
        raise MissingExtra("pygambit", "games") from error
    game: Any = pygambit.Game  # pyright: ignore[reportAttributeAccessIssue]  # compiled, without stubs
    return game.from_arrays(*(np.asarray(matrix, float) for matrix in payoffs))


def _trace(table: Any, precision: float) -> Any:
    """pygambit's mixed strategy profile at lambda = `precision`, by its path follower."""
    import pygambit

    return pygambit.qre.logit_solve_lambda(table, lam=[precision])[0].profile


def _policies(profile: Any) -> list[np.ndarray]:
    """One array (A_i,) for each player of a pygambit profile."""
    return [np.array([float(profile[s]) for s in player.strategies]) for player in profile.game.players]
