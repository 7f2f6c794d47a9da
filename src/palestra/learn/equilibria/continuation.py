"""Newton's method with continuation in the payoff factor t, for whole batches; pseudo-arclength for single games.

Inside the tractable region the path from t = 0 (uniform) to t = 1 is unique and smooth, because scaling payoffs keeps
the condition number: plain adaptive continuation cannot fail there. Outside it the path may fold; `trace` then follows
it by arclength (Allgower, Georg 1990, algorithm of the predictor-corrector type; Turocy 2005 uses it for logit), which
is where tools that step in lambda stall (gambitproject/gambit#492).
"""

import numpy as np

from palestra.learn.equilibria.stage import FixedPoint, normalise

_LONGEST = 3.0  # a Newton step changes no log-probability by more than this
_SETTLED = 1e-13  # relative size of a corrector step at which the point is on the path
_FLAT = 1e-13  # size of F, in log-probability, at which iterating stops


def newton(stage: FixedPoint, y: np.ndarray, t: np.ndarray, *, steps: int = 12, goal: float = _FLAT):
    """Damped Newton on F(., t) for every game; returns (y, error (B,)) with error = max |F|.

    A full step is taken when it lowers max |F|; games where it does not try shorter ones.
    """
    y = normalise(stage, y)
    error = np.full(stage.batch, np.inf)
    live = np.arange(stage.batch)
    history = []
    for _ in range(steps):
        part = stage if len(live) == stage.batch else stage.take(live)
        line = part.linearise(y[live], t[live])
        error[live] = abs(line.value).max(-1)
        history.append(float(error.max()))
        todo = error[live] > goal
        if not todo.any():
            break
        move = _solve(line.jacobian[todo], -line.value[todo])
        move *= np.minimum(1, _LONGEST / np.maximum(abs(move).max(-1, keepdims=True), 1e-300))
        live = live[todo]
        part = stage.take(live)
        before, base = error[live], y[live]
        trial = normalise(part, base + move)
        if (before > 0.1).any():  # far from the root: check that the step helps
            trial = _shorten(part, t[live], base, move, trial, before)
        stuck = abs(trial - base).max(-1) <= 4e-16 * (1 + abs(base).max(-1))
        y[live] = trial
        live = live[~stuck]
        if not len(live):
            break
    error = abs(stage.equation(y, t)).max(-1)
    return y, error, [*history, float(error.max())]


def _shorten(part, t, base, move, trial, before):
    size = np.ones(len(base))
    for _ in range(6):
        after = abs(part.equation(trial, t)).max(-1)
        worse = ~(after < before) & (before > 0.1)
        if not worse.any():
            break
        size[worse] *= 0.4
        trial[worse] = normalise(part.take(worse), base[worse] + size[worse, None] * move[worse])
    return trial


def solve(stage: FixedPoint, start: np.ndarray | None = None, *, accept: float = 1e-9):
    """Solve every game of a batch at t = 1; returns (y, error, history).

    First plain Newton from `start` (default uniform); games that miss are continued in t with adaptive steps, and the
    few whose path folds (only outside the tractable region) are traced by arclength one by one.
    """
    ones = np.ones(stage.batch)
    y, error, history = newton(stage, stage.uniform() if start is None else np.array(start), ones)
    missed = np.flatnonzero(~(error <= accept))
    if len(missed):
        part = stage.take(missed)
        y[missed] = _continue(part)
        again, error_again, more = newton(part, y[missed], ones[missed], steps=30)
        y[missed], error[missed] = again, error_again
        history += more
    for b in np.flatnonzero(~(error <= accept)):
        found, after, _ = trace(stage.take([b]), most=300)
        if after[0] < error[b]:
            y[b], error[b] = found[0], after[0]
    return y, error, history


def _continue(stage: FixedPoint, *, smallest: float = 1e-5, rounds: int = 200) -> np.ndarray:
    """Step t from 0 to 1, each game with its own step length; stops early where the path folds."""
    y, t = stage.uniform(), np.zeros(stage.batch)
    step = np.full(stage.batch, 0.25)
    for _ in range(rounds):
        live = np.flatnonzero((t < 1) & (step >= smallest))
        if not len(live):
            break
        part = stage.take(live)
        goal = np.minimum(t[live] + step[live], 1.0)
        line = part.linearise(y[live], t[live])
        guess = y[live] - _solve(line.jacobian, line.by_t) * (goal - t[live])[:, None]
        found, error, _ = newton(part, guess, goal, steps=8, goal=1e-10)
        jump = abs(found - guess).max(-1)
        good = (error <= 1e-8) & (jump <= 1.0)
        y[live[good]], t[live[good]] = found[good], goal[good]
        step[live] *= np.where(good, np.where(jump < 0.1, 3.0, 1.5), 0.3)
    return y


def trace(stage: FixedPoint, *, most: int = 2000, longest: float = 2.0):
    """Follow the path of one game (B = 1) from the uniform profile at t = 0 to its first crossing of t = 1.

    Returns (y (1, N), error (1,), history of t). Folds are passed because arclength, not t, is the parameter.
    """
    y, t = stage.uniform(), np.zeros(1)
    size, tangent, history = 0.1, None, [0.0]
    for _ in range(most):
        line = stage.linearise(y, t)
        ahead = _tangent(line.jacobian[0], line.by_t[0], tangent)
        while True:
            guess_y, guess_t = y + size * ahead[:-1], t + size * ahead[-1]
            found = _correct(stage, guess_y, guess_t, ahead)
            if found is not None and found[2] <= 0.5 * size + 1e-9:
                break
            size *= 0.4
            if size < 1e-9:
                return *newton(stage, y, np.ones(1), steps=50)[:2], history
        new_y, new_t, drift = found
        history.append(float(new_t[0]))
        if new_t[0] >= 1:
            share = (1 - t[0]) / (new_t[0] - t[0])
            end, error, _ = newton(stage, y + share * (new_y - y), np.ones(1), steps=30)
            if abs(end - new_y).max() <= 2 * size + 1e-6 or size < 1e-3:
                return end, error, history
            size *= 0.3
            continue
        y, t, tangent = new_y, new_t, ahead
        if drift < 0.1 * size:
            size = min(1.6 * size, longest)
    return *newton(stage, y, np.ones(1), steps=50)[:2], history


def _correct(stage, y, t, ahead):
    """Newton on F = 0 within the plane through the guess across `ahead`; None when it does not settle."""
    first_y, first_t = y, t
    for _ in range(8):
        if t[0] < 0:
            return None
        line = stage.linearise(y, t)
        if not np.isfinite(line.value).all():
            return None
        matrix = np.block([[line.jacobian[0], line.by_t[0][:, None]], [ahead[None]]])
        gap = np.append(line.value[0], ahead[:-1] @ (y - first_y)[0] + ahead[-1] * (t - first_t)[0])
        if abs(gap).max() <= 1e-11:
            return y, t, float(np.hypot(np.linalg.norm(y - first_y), t[0] - first_t[0]))
        try:
            move = np.linalg.solve(matrix, -gap)
        except np.linalg.LinAlgError:
            return None
        y, t = normalise(stage, y + move[:-1]), t + move[-1]
        if abs(move).max() <= _SETTLED * (1 + abs(y).max()):  # steep F: rounding keeps the gap above its tolerance
            return y, t, float(np.hypot(np.linalg.norm(y - first_y), t[0] - first_t[0]))
    return None


def _tangent(jacobian, by_t, previous):
    """Unit null vector of [dF/dy | dF/dt], pointing the way we were going (first: towards larger t)."""
    wide = np.column_stack([jacobian, by_t])
    vector = np.linalg.svd(wide)[2][-1]
    forward = vector[-1] if previous is None else vector @ previous
    return vector if forward > 0 else -vector


def _solve(matrix: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Batched solve (B, N, N), (B, N); singular games fall back to least squares."""
    try:
        move = np.linalg.solve(matrix, right[..., None])[..., 0]
    except np.linalg.LinAlgError:
        move = np.full_like(right, np.nan)
    bad = ~np.isfinite(move).all(-1)
    for b in np.flatnonzero(bad):  # rare: a singular Jacobian at a fold
        move[b] = np.linalg.lstsq(matrix[b], right[b], rcond=None)[0]
    return move
