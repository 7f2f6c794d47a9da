"""Quantal responses: the boundedly rational best reply argmax_x { x.u - eps nu(x) } (paper, section 2).

nu = negative entropy, sum x log x, gives the logit response with precision lambda = 1/eps; nu = log barrier, -sum log
x, gives x_a = eps / (c - u_a), strictly inside the simplex. eps has the unit of payoffs.
"""

import numpy as np

from palestra.learn.equilibria.roots import namespace, reciprocal_simplex


def respond(regulariser: str, u, eps):
    """(x, log x), each (..., A): the quantal response to expected payoffs u.

    Args:
        regulariser: "entropy" or "log_barrier".
        u: expected payoff of each action, (..., A).
        eps: bounded rationality (..., 1), in payoff units.

    >>> respond("entropy", np.array([0.0, 1.0]), np.array([1.0]))[0].round(4)
    array([0.2689, 0.7311])
    >>> respond("log_barrier", np.array([0.0, 1.0]), np.array([1.0]))[0].round(4)
    array([0.382, 0.618])
    """
    xp = namespace(u)
    if regulariser == "entropy":
        logits = (u - u.max(-1, keepdims=True)) / eps
        logits = logits - xp.log(xp.exp(logits).sum(-1, keepdims=True))
        return xp.exp(logits), logits
    x = reciprocal_simplex(eps, -u)
    return x, xp.log(x)


def regulariser_value(regulariser: str, x, log_x):
    """nu(x) (...,): sum x log x or -sum log x."""
    return (x * log_x).sum(-1) if regulariser == "entropy" else -log_x.sum(-1)


def response_weights(regulariser: str, x, eps):
    """(v, s): d log x = v * (du - s.du) with s on the simplex, v broadcast over actions.

    Entropy: v = 1/eps, s = x. Log barrier: v = x/eps, s ~ x^2.
    """
    if regulariser == "entropy":
        return np.broadcast_to(1 / eps, x.shape), x
    square = x * x
    return x / eps, square / square.sum(-1, keepdims=True)
