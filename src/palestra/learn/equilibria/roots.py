"""Normalising constants of reciprocal responses: the scalar roots behind log barrier and reverse KL.

Both responses have the form x_a = w_a / (c + o_a) with c fixed by sum_a x_a = 1. Newton's method is applied to the
weighted harmonic mean h(c) = 1 / sum_a w_a/(c + o_a), which is concave and increasing: started left of the root it
climbs monotonically and needs a handful of steps (bisection needs fifty). Functions take NumPy or JAX arrays.
"""

import numpy as np

_MAX_STEPS = 200  # a guard; typical need is below 10
_NOISE = 4e-15  # a Newton step below this share of the payoffs is rounding


def reciprocal_simplex(weights, offsets):
    """x (..., A) on the simplex with x_a = weights_a / (c + offsets_a).

    Args:
        weights: positive, shape (..., A) (or broadcastable to offsets).
        offsets: real, shape (..., A); same unit as the weights.

    >>> reciprocal_simplex(np.array([1.0, 1.0]), np.array([0.0, 0.0]))
    array([0.5, 0.5])
    """
    if not isinstance(offsets, np.ndarray):
        return reciprocal_simplex_jax(weights, offsets)
    floor = np.min(offsets - weights, axis=-1, keepdims=True)  # c >= w_a - o_a because x_a <= 1
    shifted = offsets - floor
    c = np.zeros_like(floor)
    for _ in range(_MAX_STEPS):
        x = weights / (c + shifted)
        total = x.sum(-1, keepdims=True)
        step = total * (total - 1) / (x / (c + shifted)).sum(-1, keepdims=True)
        c = c + step
        if (total - 1).max(initial=0.0) <= 1e-13:
            break
    x = weights / (c + shifted)
    return x / x.sum(-1, keepdims=True)


def reciprocal_simplex_jax(weights, offsets, steps: int = 10):
    """The same root as a fixed number of Newton steps, for compiled learners (weights of comparable size)."""
    import jax
    import jax.numpy as jnp

    weights = jnp.broadcast_to(weights, offsets.shape)
    floor = jax.lax.stop_gradient(jnp.min(offsets - weights, axis=-1, keepdims=True))
    fixed = jax.lax.stop_gradient((weights, offsets - floor))

    def climb(c, weights, shifted):
        x = weights / (c + shifted)
        total = x.sum(-1, keepdims=True)
        return c + total * (total - 1) / (x / (c + shifted)).sum(-1, keepdims=True)

    c = jax.lax.fori_loop(0, steps, lambda _, c: climb(c, *fixed), jnp.zeros_like(floor))
    c = climb(jax.lax.stop_gradient(c), weights, offsets - floor)  # one step at the root: the implicit derivative
    return weights / (c + offsets - floor)


def reverse_kl_shift(w, q, tau):
    """m (..., 1) with sum_b q_b / (1 + tau (w_b - m)) = 1: the certainty equivalent of w under reverse-KL risk.

    Written in m = 1/tau - c so that tau -> 0 loses no digits: the equation is solved as
    sum_b q_b (w_b - m) / (1 + tau (w_b - m)) = 0 with h-Newton steps m += S g / S2, coming from above.

    Args:
        w: opponent-profile payoffs, shape (..., M); q: their probabilities (..., M); tau: (..., 1).

    >>> reverse_kl_shift(np.array([1.0, 3.0]), np.array([0.5, 0.5]), np.array([1e-9])).round(6)
    array([2.])
    """
    if not isinstance(w, np.ndarray):
        return _shift_jax(w, q, tau)
    m = _ceiling(np, w, q, tau)
    scale = _NOISE * np.maximum(abs(w).max(-1, keepdims=True), 1e-300)
    for _ in range(_MAX_STEPS):
        step = _climb(np, m, w, q, tau)
        m = m + step
        if (abs(step) <= scale).all():
            break
    return m


def _ceiling(xp, w, q, tau):
    return xp.min(xp.where(q > 0, w + (1 - q) / tau, xp.inf), axis=-1, keepdims=True)  # because p_b <= 1


def _climb(xp, m, w, q, tau):
    gap = w - m
    p = xp.where(q > 0, q / (1 + tau * gap), 0.0)
    spread = (p * p / xp.where(q > 0, q, 1.0)).sum(-1, keepdims=True)  # S2 = sum p^2/q
    return p.sum(-1, keepdims=True) * (p * gap).sum(-1, keepdims=True) / spread


def _shift_jax(w, q, tau):
    import jax
    import jax.numpy as jnp

    fixed = jax.lax.stop_gradient((w, q, jnp.broadcast_to(tau, w[..., :1].shape)))
    scale = _NOISE * jnp.maximum(abs(fixed[0]).max(-1, keepdims=True), 1e-300)

    def more(state):
        count, _, step = state
        return (count < _MAX_STEPS) & (abs(step) > scale).any()

    def advance(state):
        count, m, _ = state
        step = _climb(jnp, m, *fixed)
        return count + 1, m + step, step

    start = _ceiling(jnp, *fixed)
    m = jax.lax.while_loop(more, advance, (0, start, jnp.full_like(start, jnp.inf)))[1]
    return m + _climb(jnp, jax.lax.stop_gradient(m), w, q, tau)  # one step at the root: the implicit derivative
