"""How many equilibria does a 2x2 game have? A proof by interval arithmetic, inside or outside the tractable region.

With x = P(row plays its first action) and y = P(column plays its first), each player's first-order condition f_i is
strictly decreasing in the own variable, so the row condition defines a monotone curve x = X(y) and equilibria are the
zeros of g(y) = f_2(X(y), y). Intervals of y are discarded when g cannot vanish there; where g' has one sign, the signs
at the two ends decide (the monotone case of the interval Newton test; Moore, Kearfott, Cloud 2009, ch. 8); the rest are
bisected. Intervals are widened by 1e-12 relative, thousands of times the rounding error of these few operations.
"""

from dataclasses import dataclass

import numpy as np

from palestra.core.errors import BadInput
from palestra.envs.games.forms import Payoffs, check_payoffs
from palestra.learn.equilibria import conditions
from palestra.learn.equilibria.conditions import Traits

_WIDEN = 1e-12
_CELLS = 61  # intervals to start with; odd, so that the even profile of symmetric games is no end point
_DEPTH = 40  # bisections before an interval counts as undecided


@dataclass(frozen=True)
class Certificate:
    """Outcome of the proof.

    Attributes:
        count: equilibria proved to exist, each one isolated.
        undecided: intervals that could not be settled (0 means `count` is exact).
        equilibria: (count, 2) array of (P(first row action), P(first column action)).
        unique: count == 1 and nothing undecided.
    """

    count: int
    undecided: int
    equilibria: np.ndarray

    @property
    def unique(self) -> bool:
        """Exactly one equilibrium, proved."""
        return self.count == 1 and self.undecided == 0


def certify_2x2(
    payoffs: Payoffs,
    tau: Traits,
    eps: Traits,
    *,
    penalty: str = "kl",
    regulariser: str = "log_barrier",
) -> Certificate:
    """Count all equilibria of a 2x2 game, with proof. Penalty "none" certifies logit equilibria (tau is ignored).

    Args:
        payoffs, tau, eps, penalty, regulariser: as in `rqe`, named ones only.

    >>> certify_2x2([[[1, -1], [-1, 1]], [[-1, 1], [1, -1]]], 1.0, 1.0).unique
    True
    >>> certify_2x2([[[4, 0], [0, 4]], [[4, 0], [0, 4]]], 0.01, 0.5).count  # a coordination game, sharp players
    3
    """
    conditions.check_pair(penalty, regulariser)
    if callable(penalty) or callable(regulariser):
        raise BadInput("penalty", "a callable", "named penalty and regulariser")
    tensors = check_payoffs(payoffs)
    if tensors[0].shape != (2, 2):
        raise BadInput("payoffs", tensors[0].shape, "two 2x2 tables")
    tau, eps = conditions.traits(tau, eps, players=2)
    row, col = (_Side(r, t, e, penalty, regulariser) for r, t, e in zip((tensors[0], tensors[1].T), tau, eps))
    span = col.reach()
    edges = np.linspace(-span, span, _CELLS + 1)
    low, high = edges[:-1], edges[1:]
    found, undecided = [], 0
    for depth in range(_DEPTH):
        if not len(low):
            break
        keep, roots = _test(row, col, low, high)
        found += list(roots)
        low, high = low[keep], high[keep]
        if depth == _DEPTH - 1:
            undecided = len(low)
            break
        middle = 0.5 * (low + high) + 1e-3 * (high - low)  # not the exact middle: symmetric games have roots there
        low, high = np.concatenate([low, middle]), np.concatenate([middle, high])
        if len(low) > 20_000:
            undecided = len(low) // 2
            break
    return _collect(row, col, found, undecided)


class _Side:
    """One player's first-order condition, own-first 2x2 payoff R; own variable x, other's y, all as logits."""

    def __init__(self, payoff, tau, eps, penalty, regulariser) -> None:
        (self.a, self.b) = payoff[0, 1] - payoff[1, 1], payoff[0, 0] - payoff[1, 0] - payoff[0, 1] + payoff[1, 1]
        self.c = payoff[1, 0] - payoff[1, 1]  # w_0 - w_1 = c + b x
        self.tau, self.eps, self.penalty, self.regulariser = tau, eps, penalty, regulariser

    def reach(self) -> float:
        """Logits beyond which no response lies, with margin."""
        spread = abs(self.a) + abs(self.b)
        limit = spread / self.eps if self.regulariser == "entropy" else np.log1p(spread / self.eps) + 1
        return float(min(limit + 1e-6 + 1e-9 * limit, 600.0))

    def belief(self, x, y):
        """Adversary's probability of the other's first action, increasing in y, monotone in x through c + b x."""
        q, z = _sigmoid(y), self.tau * (self.c + self.b * _sigmoid(x))
        if self.penalty == "none":
            return q
        if self.penalty == "kl":
            return _sigmoid(y - z)
        size, share = abs(z), np.where(z >= 0, q, _sigmoid(-y))  # t p^2 - (1 + t) p + q = 0 with t = |z|
        p = 2 * share / (1 + size + np.sqrt((1 + size) ** 2 - 4 * size * share))
        return np.where(z >= 0, p, 1 - p)

    def slope_of_regulariser(self, x):
        """-eps nu' along (x, 1 - x): decreasing in the logit x."""
        if self.regulariser == "entropy":
            return -self.eps * x
        return self.eps * (1 / _sigmoid(x) - 1 / _sigmoid(-x))

    def condition(self, x, y):
        """f(x, y) = u_0 - u_1 - eps nu'."""
        return self.a + self.b * self.belief(x, y) + self.slope_of_regulariser(x)

    def reply(self, y):
        """X(y): the logit where the condition vanishes, by bisection (f decreases in x)."""
        low, high = np.full(np.shape(y), -self.reach()), np.full(np.shape(y), self.reach())
        for _ in range(70):
            middle = 0.5 * (low + high)
            positive = self.condition(middle, y) > 0
            low, high = np.where(positive, middle, low), np.where(positive, high, middle)
        return low, high

    def slopes(self, x, y):
        """Interval hulls of df/dx and df/dy (in logits) over boxes x = (lo, hi), y = (lo, hi)."""
        ends = [self.belief(a, b) for a in x for b in y]  # monotone in each: extremes are at corners
        p = _widen(np.min(ends, axis=0), np.max(ends, axis=0))
        p = np.clip(p[0], 1e-300, 1), np.clip(p[1], 1e-300, 1)
        q = _sigmoid(y[0]), _sigmoid(y[1])
        other_q = _sigmoid(-y[1]), _sigmoid(-y[0])
        rest = 1 - p[1], 1 - p[0]
        rest = np.maximum(rest[0], 1e-300), np.maximum(rest[1], 1e-300)
        q_slope = _product_hull(q, other_q)  # dq/dlogit = q (1 - q)
        if self.penalty == "none":
            by_y, by_gap = q_slope, (np.zeros_like(p[0]), np.zeros_like(p[0]))
        elif self.penalty == "kl":
            by_y = _product_hull(p, rest)
            by_gap = -self.tau * by_y[1], -self.tau * by_y[0]
        else:
            # q0/p - q1/(1-p) = tau gap: with D = q0/p^2 + q1/(1-p)^2, dp/dq = 1/(p (1-p) D), dp/dgap = -tau/D
            weight = (
                q[0] / p[1] ** 2 + other_q[0] / rest[1] ** 2,
                q[1] / p[0] ** 2 + other_q[1] / rest[0] ** 2,
            )
            spread = _product_hull(p, rest)
            by_y = q_slope[0] / (spread[1] * weight[1]), q_slope[1] / (spread[0] * weight[0])
            by_gap = -self.tau / weight[0], -self.tau / weight[1]
        own = _product_hull((_sigmoid(x[0]), _sigmoid(x[1])), (_sigmoid(-x[1]), _sigmoid(-x[0])))
        if self.regulariser == "entropy":
            bend = self.eps, self.eps
        else:  # d/dlogit of eps (1/x - 1/(1-x)) is -eps ((1-x)/x + x/(1-x)); smallest at logit 0
            edge = [2 * self.eps * np.cosh(x[0]), 2 * self.eps * np.cosh(x[1])]
            inside = (x[0] <= 0) & (x[1] >= 0)
            bend = np.where(inside, 2 * self.eps, np.minimum(*edge)), np.maximum(*edge)
        square = self.b**2
        by_x = square * by_gap[0] * own[1] - bend[1], square * by_gap[1] * own[0] - bend[0]
        by_y = np.sort([self.b * by_y[0], self.b * by_y[1]], axis=0)
        return _widen(*by_x), _widen(*by_y)


def _test(row, col, low, high):
    """(mask of intervals to bisect, logits of y at proved roots)."""
    left, right = row.reply(low), row.reply(high)
    x = _widen(np.minimum(left[0], right[0]), np.maximum(left[1], right[1]))
    y = low, high
    ends = np.array([col.belief(b, a) for a in x for b in y])  # column's own variable is y
    pull = np.sort([col.a + col.b * ends.min(0), col.a + col.b * ends.max(0)], axis=0)
    bend = col.slope_of_regulariser(high), col.slope_of_regulariser(low)
    size = abs(pull).max(0) + np.maximum(abs(bend[0]), abs(bend[1])) + abs(col.a) + abs(col.b)
    apart = (pull[0] + bend[0] > _WIDEN * size) | (pull[1] + bend[1] < -_WIDEN * size)
    row_x, row_y = row.slopes(x, y)
    col_y, col_x = col.slopes(y, x)
    # g' = df2/dy - df2/dx (df1/dy)/(df1/dx); df1/dx < 0
    ratio = _product_hull(row_y, (1 / row_x[1], 1 / row_x[0]))
    turn = _product_hull(col_x, ratio)
    slope = _widen(col_y[0] - turn[1], col_y[1] - turn[0])
    monotone = (slope[0] > 0) | (slope[1] < 0)
    first, last = col.condition(low, 0.5 * (left[0] + left[1])), col.condition(high, 0.5 * (right[0] + right[1]))
    clear = (abs(first) > _WIDEN * size) & (abs(last) > _WIDEN * size)
    settled = ~apart & monotone & clear
    rooted = settled & (np.sign(first) != np.sign(last))
    roots = _bisect(row, col, low[rooted], high[rooted])
    return ~(apart | settled), roots


def _bisect(row, col, low, high):
    """The root of g in intervals with a sign change."""
    start = np.sign(col.condition(low, row.reply(low)[0]))
    for _ in range(60):
        middle = 0.5 * (low + high)
        same = np.sign(col.condition(middle, row.reply(middle)[0])) == start
        low, high = np.where(same, middle, low), np.where(same, high, middle)
    return 0.5 * (low + high)


def _collect(row, col, found, undecided) -> Certificate:
    y = np.sort(np.asarray(found, float))
    x = row.reply(y)[0] if len(y) else y
    points = np.stack([_sigmoid(x), _sigmoid(y)], axis=-1) if len(y) else np.zeros((0, 2))
    return Certificate(len(y), int(undecided), points)


def _product_hull(a, b):
    """Hull of the product of two intervals given as (low, high)."""
    corners = np.array([a[0] * b[0], a[0] * b[1], a[1] * b[0], a[1] * b[1]])
    return corners.min(0), corners.max(0)


def _widen(low, high):
    return low - _WIDEN * abs(low) - 1e-300, high + _WIDEN * abs(high) + 1e-300


def _sigmoid(z):
    z = np.asarray(z, float)
    e = np.exp(-abs(z))
    return np.where(z >= 0, 1 / (1 + e), e / (1 + e))
