"""Convex risk measures in dual form: what an imaginary adversary does to a player's beliefs (paper, section 2).

The risk-adjusted value of a lottery w under beliefs q is min_p { p.w + (1/tau) D(p, q) }. D = KL(p||q) gives the
entropic risk; D = KL(q||p) the reverse form. tau -> 0 is risk neutral and tau -> inf is the worst case, so *small tau
is mild* risk aversion (some texts use the inverse). tau has unit 1/payoff. NumPy in, NumPy out; JAX in, JAX out.
"""

import numpy as np

from palestra.core.errors import BadInput
from palestra.learn.equilibria.roots import namespace, reciprocal_simplex

_FLOOR = -690.0  # log of the smallest belief kept: exp(-690) is still a normal float


def entropic_risk(payoffs, probabilities=None, *, tau: float):
    """Entropic certainty equivalent -(1/tau) log E exp(-tau payoff), in payoff units.

    Args:
        payoffs: shape (..., M).
        probabilities: shape (..., M), rows on the simplex; default uniform.
        tau: risk aversion > 0, in 1/payoff; 0 is allowed and gives the mean.

    >>> float(entropic_risk([0.0, 1.0], [0.5, 0.5], tau=1e-9).round(6))
    0.5
    >>> float(entropic_risk([0.0, 1.0], [0.5, 0.5], tau=1e6).round(5))
    0.0
    """
    w = np.asarray(payoffs, float)
    q = np.full(w.shape[-1], 1 / w.shape[-1]) if probabilities is None else np.asarray(probabilities, float)
    if not np.isfinite(w).all():
        raise BadInput("payoffs", "NaN or inf", "finite numbers")
    if q.shape[-1] != w.shape[-1] or (q < 0).any() or (abs(q.sum(-1) - 1) > 1e-9).any():
        raise BadInput("probabilities", q.shape, f"{w.shape[-1]} probabilities that sum to 1")
    if not (np.isfinite(tau) and tau >= 0):
        raise BadInput("tau", tau, "a finite number >= 0")
    if tau == 0:
        return (q * w).sum(-1)
    w, q = np.broadcast_arrays(w, q)
    return risk_value("kl", w, q, np.array([float(tau)]))


def adversary(penalty: str, w, log_q, tau):
    """The minimising belief p (..., M) in min_p { p.w + (1/tau) D(p, q) }.

    KL: p ~ q exp(-tau w). Reverse KL: p_b = q_b / (tau (w_b + c)), c the root that normalises. "none": p = q.

    Args:
        penalty: "kl", "reverse_kl" or "none".
        w: the player's payoff for each opponent profile, R_i^T pi_i, shape (..., M).
        log_q: log of the opponents' product policy (..., M).
        tau: shape (..., 1), in 1/payoff.
    """
    xp = namespace(w)
    if penalty == "none":
        return xp.exp(log_q)
    if penalty == "kl":
        logits = log_q - tau * w
        p = xp.exp(logits - logits.max(-1, keepdims=True))
        return p / p.sum(-1, keepdims=True)
    return _reverse_belief(xp, w, floored(log_q), tau)


def floored(log_q):
    """q = exp(log q), kept above 1e-300: under reverse KL the adversary may put weight on whatever is possible at all."""
    xp = namespace(log_q)
    return xp.exp(xp.maximum(log_q, _FLOOR))


def adversary_curvature(penalty: str, w, p, log_q, tau):
    """k (..., M): dp/dw = -(diag(k) - k k^T / sum k) along the adversary's response.

    KL: k = tau p. Reverse KL: k = tau p^2 / q. "none": 0.
    """
    xp = namespace(w)
    if penalty == "none":
        return xp.zeros_like(p)
    if penalty == "kl":
        return tau * p
    return tau * p * (p / floored(log_q))


def risk_value(penalty: str, w, q, tau):
    """min_p { p.w + (1/tau) D(p, q) } (...,), in payoff units.

    KL: -(1/tau) log E_q exp(-tau w), through expm1/log1p around the smallest w, exact for tiny tau too. Reverse KL:
    p.w + (1/tau) E_q log(q/p), to about 1e-16/tau; p stays within the support of q.
    """
    xp = namespace(w)
    if penalty == "none":
        return (q * w).sum(-1)
    if penalty == "kl":
        low = w.min(-1, keepdims=True) if xp is np else xp.min(w, axis=-1, keepdims=True)
        rest = (q * xp.expm1(-tau * (w - low))).sum(-1)
        rest = xp.maximum(rest, -1 + 1e-300)
        return low[..., 0] - _log1p_sum(xp, rest, q, -tau * (w - low)) / tau[..., 0]
    p = _reverse_belief(xp, w, q, tau)
    ratio = xp.where(q > 0, q / xp.where(p > 0, p, 1.0), 1.0)
    return (p * w).sum(-1) + (q * xp.log(ratio)).sum(-1) / tau[..., 0]


def _reverse_belief(xp, w, q, tau):
    """q_b / (c + tau (w_b - min w)): measured from the worst outcome, so that a tiny q_b with a large p_b is exact."""
    q = xp.where(q > 0, xp.maximum(q, np.exp(_FLOOR)), 0.0)
    inside = xp.where(q > 0, w, xp.max(w, axis=-1, keepdims=True))
    return reciprocal_simplex(q, tau * (inside - xp.min(inside, axis=-1, keepdims=True)))


def _log1p_sum(xp, rest, q, exponents):
    """log(1 + rest), by log-sum-exp when q gives the best outcome almost no weight (rest near -1)."""
    safe = xp.where(q > 0, q, 1.0)
    logits = xp.where(q > 0, xp.log(safe) + exponents, -xp.inf)
    top = logits.max(-1)
    direct = top + xp.log(xp.exp(logits - top[..., None]).sum(-1))
    return xp.where(rest > -0.5, xp.log1p(rest), direct)
