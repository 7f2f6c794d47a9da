"""How an RQE moves with payoffs, tau and eps: exact derivatives by implicit differentiation.

At the equilibrium F(y; theta) = 0 (see `stage`), so dy/dtheta = -F_y^{-1} F_theta. `rqe_gradients` returns all of them
in closed form for the named pairs; `differentiable_rqe` is the same map as a JAX function, for use inside a larger
objective (mechanism design, fitting). Inside the tractable region F_y is never singular.
"""

import warnings
from dataclasses import dataclass

import numpy as np

from palestra.core.errors import BadInput
from palestra.envs.games.forms import Payoffs, check_payoffs
from palestra.learn.equilibria.conditions import NoGuarantee, Penalty, Regulariser, Traits, traits
from palestra.learn.equilibria.quantal import response_weights
from palestra.learn.equilibria.risk import adversary_curvature
from palestra.learn.equilibria.rqe import rqe
from palestra.learn.equilibria.solution import RQE
from palestra.learn.equilibria.stage import Stage, linearise


@dataclass(frozen=True)
class Gradients:
    """Derivatives of the policies at an equilibrium.

    Attributes:
        equilibrium: the RQE.
        by_payoff: by_payoff[i][k] has shape (A_i, A_0, ..., A_{n-1}): d policy_i / d payoffs[k], per payoff unit.
        by_tau, by_eps: lists over players i of (A_i, n): d policy_i / d tau_k, d policy_i / d eps_k.
    """

    equilibrium: RQE
    by_payoff: list[list[np.ndarray]]
    by_tau: list[np.ndarray]
    by_eps: list[np.ndarray]


def rqe_gradients(
    payoffs: Payoffs,
    tau: Traits,
    eps: Traits,
    *,
    penalty: str = "kl",
    regulariser: str = "log_barrier",
) -> Gradients:
    """Exact derivatives of every policy with respect to every payoff, tau and eps.

    Args:
        payoffs, tau, eps, penalty, regulariser: as in `rqe`, named pairs only.

    >>> found = rqe_gradients([[[1, -1], [-1, 1]], [[-1, 1], [1, -1]]], 1.0, 1.0)
    >>> bool(abs(found.by_tau[0]).max() < 1e-12)  # matching pennies stays (1/2, 1/2) whatever tau
    True
    """
    if callable(penalty) or callable(regulariser):
        raise BadInput("penalty", "a callable", "named pairs; use differentiable_rqe for callables")
    result = rqe(payoffs, tau, eps, penalty=penalty, regulariser=regulariser)
    tensors = check_payoffs(payoffs)
    stage = Stage.of_game(tensors, *traits(tau, eps, players=len(tensors)), penalty, regulariser)
    y = np.concatenate([np.log(x) for x in result.policies])[None]
    line = linearise(stage, y, np.ones(1), traits=True)
    sizes, n = stage.sizes, len(stage.sizes)
    cuts = np.cumsum(sizes)[:-1]
    x_all = np.exp(y[0])

    def pull(right: np.ndarray) -> list[np.ndarray]:  # (N, ...) -> d policy, cut by player
        flat = -np.linalg.solve(line.jacobian[0], right.reshape(len(x_all), -1))
        return np.split((x_all[:, None] * flat).reshape(right.shape), cuts)

    by_payoff: list[list[np.ndarray]] = [[] for _ in range(n)]
    for k in range(n):
        inner = _by_own_payoff(stage, line.passed, k)  # (A_k, A_k, M_k), own first
        others = tuple(sizes[j] for j in range(n) if j != k)
        inner = np.moveaxis(inner.reshape(sizes[k], sizes[k], *others), 1, 1 + k)
        right = np.zeros((len(x_all), *sizes))
        right[sum(sizes[:k]) : sum(sizes[: k + 1])] = inner
        for i, block in enumerate(pull(right)):
            by_payoff[i].append(block)
    by_tau = pull(line.by_log_tau[0] / stage.tau[0])
    by_eps = pull(line.by_log_eps[0] / stage.eps[0])
    return Gradients(result, by_payoff, by_tau, by_eps)


def _by_own_payoff(stage, passed, k: int) -> np.ndarray:
    """dF_k / dR_k[a, b]: du_c = delta_ca p_b - x_a (R K)_cb, then F = -v (du - s.du)."""
    payoff, p, x = stage.payoffs[k][0], passed["p"][k][0], passed["x"][k][0]
    tau, eps = stage.tau[:, k : k + 1], stage.eps[:, k : k + 1]
    du = np.eye(len(x))[:, :, None] * p
    if stage.penalty != "none":
        curve = adversary_curvature(stage.penalty, passed["w"][k], passed["p"][k], passed["log_q"][k], tau)[0]
        centred = payoff - payoff[:, curve.argmax()][:, None]
        by_w = (centred - (centred @ curve / curve.sum())[:, None]) * curve
        du = du - x[None, :, None] * by_w[:, None, :]
    v, s = (part[0] for part in response_weights(stage.regulariser, passed["reply"][k], eps))
    return -v[:, None, None] * (du - np.tensordot(s, du, axes=1))


def differentiable_rqe(payoffs, tau, eps, *, penalty: Penalty = "kl", regulariser: Regulariser = "log_barrier"):
    """Policies of the RQE as a JAX function that can be jitted, vmapped and differentiated (both modes).

    The forward pass calls the exact solver; derivatives come from one Newton step at the solution. Switch on
    `jax_enable_x64` for full accuracy; under float32 the equilibrium is still solved in float64 and then rounded.

    Args:
        payoffs: JAX array (n, A_1, ..., A_n) in player order. tau, eps: JAX arrays (n,).
        penalty, regulariser: names or JAX-traceable callables, as in `rqe`.

    Returns:
        list of n JAX arrays (A_i,).
    """
    import jax
    import jax.numpy as jnp

    from palestra.learn.equilibria.general import response_pass

    payoffs = jnp.asarray(payoffs)
    sizes, n = payoffs.shape[1:], payoffs.shape[0]
    tau, eps = (jnp.broadcast_to(jnp.asarray(v, payoffs.dtype), (n,)) for v in (tau, eps))
    cuts = np.cumsum(sizes)[:-1]

    def solve(p, t, e):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NoGuarantee)
            found = rqe(np.asarray(p, float), np.asarray(t), np.asarray(e), penalty=penalty, regulariser=regulariser)
        return np.concatenate([np.log(x) for x in found.policies]).astype(payoffs.dtype)

    def equation(y, p, t, e):
        own = [jnp.moveaxis(p[i], i, 0).reshape(sizes[i], -1) for i in range(n)]
        passed = response_pass(y, 1.0, payoffs=own, tau=t, eps=e, sizes=sizes, penalty=penalty, regulariser=regulariser)
        return y - jnp.log(jnp.concatenate(passed["reply"]))

    fixed = jax.lax.stop_gradient((payoffs, tau, eps))
    shape = jax.ShapeDtypeStruct((sum(sizes),), payoffs.dtype)
    y = jax.pure_callback(solve, shape, *fixed, vmap_method="sequential")
    slope = jax.lax.stop_gradient(jax.jacfwd(equation)(y, *fixed))
    y = y - jnp.linalg.solve(slope, equation(y, payoffs, tau, eps))
    return jnp.split(jnp.exp(y), cuts)
