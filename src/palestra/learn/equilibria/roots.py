"""Normalising constants of reciprocal responses: the scalar roots behind log barrier and reverse KL.

Both responses have the form x_a = w_a / (c + o_a) with c fixed by sum_a x_a = 1. Newton's method is applied to the
weighted harmonic mean h(c) = 1 / sum_a w_a/(c + o_a), which is concave and increasing: started left of the root it
climbs monotonically and needs a handful of steps (bisection needs fifty). Functions take NumPy or JAX arrays.
"""

from typing import Any

import numpy as np

_MAX_STEPS = 200  # a guard; typical need is below 10


def reciprocal_simplex(weights, offsets) -> Any:
    """x (..., A) on the simplex with x_a = weights_a / (c + offsets_a).

    Args:
        weights: positive, shape (..., A) (or broadcastable to offsets).
        offsets: real, shape (..., A); same unit as the weights.

    >>> reciprocal_simplex(np.array([1.0, 1.0]), np.array([0.0, 0.0]))
    array([0.5, 0.5])
    """
    if not isinstance(offsets, np.ndarray):
        return reciprocal_simplex_jax(weights, offsets)
    offsets = offsets - offsets.min(-1, keepdims=True)  # from the smallest: a weight far below them is not rounded away
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


def reciprocal_simplex_jax(weights, offsets, steps: int = 40):
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


def namespace(array) -> Any:
    """NumPy or, for a JAX array, its twin jax.numpy."""
    if isinstance(array, np.ndarray):
        return np
    import jax.numpy as jnp

    return jnp
