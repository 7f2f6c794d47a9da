"""One game with a named penalty and regulariser, solved to rounding: along the path from uniform play, or by iteration.

`solve_exact` is Newton's method with continuation, `solve_fixed_point` damped best responses; the first falls back on
the second where the path leads nowhere.
"""

from collections.abc import Sequence

import numpy as np

from palestra.learn.equilibria.conditions import Traits
from palestra.learn.equilibria.continuation import newton, solve, trace
from palestra.learn.equilibria.solution import RQE, package
from palestra.learn.equilibria.stage import Stage, normalise, respond_all

_SOLVED = 1e-9  # |F|, in log-probability, below which a solver has arrived


def solve_exact(
    tensors: Sequence[np.ndarray],
    tau: Traits,
    eps: Traits,
    *,
    penalty: str,
    regulariser: str,
    tol: float,
    follow: bool,
) -> RQE:
    """The equilibrium by Newton's method; `follow` keeps to the path from uniform play, where several may exist."""
    stage = Stage.of_game(tensors, tau, eps, penalty, regulariser)
    y, error, history = trace(stage) if follow else solve(stage)
    if not error[0] <= _SOLVED:  # last resort: damped responses, then Newton from there
        y, more = damped_responses(stage, 1e-10, 5000)
        polished, after, _ = newton(stage, y, np.ones(1), steps=30)
        if after[0] < _SOLVED:
            y, history = polished, [*history, *more]
    return package(stage, y, history, tol=tol, method="newton")


def solve_fixed_point(
    tensors: Sequence[np.ndarray],
    tau: Traits,
    eps: Traits,
    *,
    penalty: str,
    regulariser: str,
    tol: float,
    iterations: int,
) -> RQE:
    """The equilibrium by at most `iterations` damped best responses."""
    stage = Stage.of_game(tensors, tau, eps, penalty, regulariser)
    y, history = damped_responses(stage, tol, iterations)
    return package(stage, y, history, tol=tol, method="fixed_point")


def damped_responses(stage: Stage, tol: float, iterations: int) -> tuple[np.ndarray, list[float]]:
    """Best responses in log-policies from uniform play; the step halves whenever the error stops falling.

    Returns log-policies (1, sum A_i) and the error |F| after each step; stops when a full pass moves no probability by
    more than `tol` / 2.
    """
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
