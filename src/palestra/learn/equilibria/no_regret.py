"""No-regret learning of an RQE: all 2n players run composite mirror descent at the same time.

Mazumdar, Panaganti, Shi (ICLR 2025): each player i minimises J_i(x_i, p_i) = -x_i.R_i p_i - D_i(p_i, x_-i)/tau_i +
eps_i nu(x_i), its adversary Jbar_i = x_i.R_i p_i + D_i(p_i, x_-i)/tau_i; both costs are convex in the own variable.
Only the bilinear payoff is linearised; eps nu and D/tau stay exact, and the Bregman term is the own regulariser's
divergence over the step s. Plain projected gradient bounces off the log barrier; these closed forms do not. The loop
is compiled by JAX in float64 and works for any number of players.
"""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from palestra.core.errors import BadInput, MissingExtra
from palestra.learn.equilibria import conditions
from palestra.learn.equilibria.conditions import Penalty, Regulariser
from palestra.learn.equilibria.quantal import respond
from palestra.learn.equilibria.risk import adversary
from palestra.learn.equilibria.roots import reciprocal_simplex_jax
from palestra.learn.equilibria.solution import RQE, package
from palestra.learn.equilibria.stage import Stage

try:
    import jax
    import jax.numpy as jnp
except ImportError as error:  # pragma: no cover - depends on the installation
    raise MissingExtra("jax", "games") from error

STEP = 0.1  # for payoffs in [-1, 1]; divided by half the payoff range otherwise
CHECK_EVERY = 25  # iterations between two residual checks
ROOT_STEPS = 5  # Newton steps for a normaliser: measured error below 1e-15 for 16 outcomes, 1/s keeps weights alike


def default_step(payoffs: Sequence[np.ndarray]) -> float:
    """0.1 / (half the largest payoff range), in 1/payoff."""
    half = max(float(np.max(p) - np.min(p)) for p in payoffs) / 2
    return STEP / half if half > 0 else STEP


def learn(
    payoffs: Sequence[np.ndarray],
    tau: np.ndarray,
    eps: np.ndarray,
    *,
    penalty: Penalty = "kl",
    regulariser: Regulariser = "log_barrier",
    tol: float = 1e-12,
    step: float | None = None,
    iterations: int = 20_000,
    start: Sequence[ArrayLike] | None = None,
    key: int | None = None,
) -> RQE:
    """No-regret play of one game; returns an RQE with last iterates as `policies` and the `averages`.

    Args:
        payoffs: n tensors in player order. tau, eps: (n,).
        step: s in 1/payoff; default 0.1 for payoffs in [-1, 1], scaled by the range.
        iterations: at most this many simultaneous steps; stops early when the residual is within `tol`.
        start: starting policies; default uniform, or random (Dirichlet) when `key`, a seed, is given.
    """
    if callable(penalty) or callable(regulariser) or penalty == "none":
        raise BadInput("method", "no_regret", "named penalties kl or reverse_kl with log_barrier or entropy")
    step = default_step(payoffs) if step is None else step
    if not (np.isfinite(step) and step > 0):
        raise BadInput("step", step, "a finite number > 0")
    if iterations < 1:
        raise BadInput("iterations", iterations, "an integer >= 1")
    stage = Stage.of_game(payoffs, tau, eps, penalty, regulariser)
    first = _first(stage.sizes, start, key)
    final = play(
        [r[0] for r in stage.payoffs], tau, eps, first, step=step, penalty=penalty, regulariser=regulariser,
        iterations=iterations, tol=0.5 * tol,
    )  # fmt: skip
    y = np.concatenate([np.log(np.maximum(x, 1e-300)) for x in final["policies"]])[None]
    count = int(final["iterations"])
    history = np.asarray(final["residuals"])[: max(count // CHECK_EVERY, 1)]
    result = package(stage, y, history, tol=tol, method="no_regret")
    if not result.residual <= tol:
        warnings.warn(
            f"no-regret stopped after {count} iterations at residual {result.residual:.3g} > tol {tol:g}",
            conditions.NoGuarantee,
            stacklevel=3,
        )
    return replace(result, averages=[np.asarray(a) for a in final["averages"]], iterations=count)


def play(payoffs, tau, eps, start, *, step, penalty, regulariser, iterations, tol):
    """Run the compiled loop.

    Args:
        payoffs: n own-first matrices (..., A_i, M_i); leading axes are a batch of independent runs.
        tau, eps: (..., n). start: n arrays (..., A_i). step: scalar.
        iterations, tol: stop rules (residual in probability).

    Returns:
        dict: policies, averages (lists over players, (..., A_i)), residual (...,), iterations (...,), residuals
        (..., iterations // 25) with NaN after the end.
    """
    batch = np.shape(start[0])[:-1]
    payoffs = [np.broadcast_to(np.asarray(r, float), (*batch, *np.shape(r)[-2:])) for r in payoffs]
    n = len(payoffs)
    tau, eps = (np.broadcast_to(np.asarray(v, float), (*batch, n)) for v in (tau, eps))
    step = np.broadcast_to(np.asarray(step, float), (*batch, 1))
    with jax.enable_x64(True):
        arrays = jax.tree.map(jnp.asarray, (payoffs, tau, eps, list(start), step))
        rounds = -(-iterations // CHECK_EVERY)
        final = _loop(*arrays, jnp.asarray(tol), penalty=penalty, regulariser=regulariser, rounds=rounds)
        return jax.tree.map(np.asarray, final)


@partial(jax.jit, static_argnames=("penalty", "regulariser", "rounds"))
def _loop(payoffs, tau, eps, start, step, tol, *, penalty, regulariser, rounds):
    n = len(payoffs)
    batch = start[0].shape[:-1]
    beliefs = _beliefs(start)

    def one(_, state):
        x, p, mean = state
        q = _beliefs(x)
        new_x, new_p = [], []
        for i in range(n):
            u = jnp.einsum("...am,...m->...a", payoffs[i], p[i])
            w = jnp.einsum("...am,...a->...m", payoffs[i], x[i])
            new_x.append(_policy_step(regulariser, x[i], u, eps[..., i : i + 1], step))
            new_p.append(_adversary_step(penalty, p[i], w, q[i], tau[..., i : i + 1], step))
        mean = [m + a for m, a in zip(mean, new_x, strict=True)]
        return new_x, new_p, mean

    def more(carry):
        done, _, _, residual, _ = carry
        return (done < rounds) & (residual > tol).any()

    def chunk(carry):
        done, state, live_count, residual, curve = carry
        live = residual > tol
        moved = jax.lax.fori_loop(0, CHECK_EVERY, one, state)
        state = jax.tree.map(lambda new, old: jnp.where(live[..., None], new, old), moved, state)
        residual = jnp.where(live, _residual(state[0], payoffs, tau, eps, penalty, regulariser), residual)
        curve = jax.lax.dynamic_update_index_in_dim(curve, jnp.where(live, residual, jnp.nan), done, curve.ndim - 1)
        return done + 1, state, live_count + live * CHECK_EVERY, residual, curve

    zero = [jnp.zeros_like(x) for x in start]
    carry = (0, (list(start), beliefs, zero), jnp.zeros(batch, int), jnp.full(batch, jnp.inf),
             jnp.full((*batch, rounds), jnp.nan))  # fmt: skip
    _, (x, _, mean), count, residual, curve = jax.lax.while_loop(more, chunk, carry)
    averages = [m / jnp.maximum(count, 1)[..., None] for m in mean]
    return {"policies": x, "averages": averages, "residual": residual, "iterations": count, "residuals": curve}


def _policy_step(regulariser, x, u, eps, step):
    """argmin -x.u + eps nu(x) + B(x, x_t)/s: log barrier (eps + 1/s)/(c - u + 1/(s x_t)); entropy (e^u x_t^(1/s))^."""
    inverse = 1 / step
    if regulariser == "log_barrier":
        return reciprocal_simplex_jax(eps + inverse, inverse / x - u, steps=ROOT_STEPS)
    return _softmax((u + inverse * jnp.log(jnp.maximum(x, 1e-300))) / (eps + inverse))


def _adversary_step(penalty, p, w, q, tau, step):
    """argmin p.w + D(p, q)/tau + B(p, p_t)/s: KL a geometric mean of q, p_t and e^-w; reverse KL reciprocal."""
    inverse = 1 / step
    if penalty == "kl":
        log_p, log_q = jnp.log(jnp.maximum(p, 1e-300)), jnp.log(jnp.maximum(q, 1e-300))
        return _softmax((log_q / tau + inverse * log_p - w) / (1 / tau + inverse))
    return reciprocal_simplex_jax(q / tau + inverse, w + inverse / p, steps=ROOT_STEPS)


def _residual(x, payoffs, tau, eps, penalty, regulariser):
    """Largest change of one exact best-response pass, per run."""
    q = _beliefs(x)
    worst = 0.0
    for i, payoff in enumerate(payoffs):
        w = jnp.einsum("...am,...a->...m", payoff, x[i])
        p = adversary(penalty, w, jnp.log(jnp.maximum(q[i], 1e-300)), tau[..., i : i + 1])
        reply, _ = respond(regulariser, jnp.einsum("...am,...m->...a", payoff, p), eps[..., i : i + 1])
        worst = jnp.maximum(worst, abs(reply - x[i]).max(-1))
    return worst


def _beliefs(x):
    """Product policy of the others, flattened in increasing player order."""
    out = []
    for i in range(len(x)):
        q = jnp.ones((*x[0].shape[:-1], 1))
        for j, other in enumerate(x):
            if j != i:
                q = (q[..., :, None] * other[..., None, :]).reshape(*q.shape[:-1], -1)
        out.append(q)
    return out


def _softmax(logits):
    z = jnp.exp(logits - logits.max(-1, keepdims=True))
    return z / z.sum(-1, keepdims=True)


def _first(sizes, start, key):
    if start is None:
        if key is None:
            return [np.full(a, 1 / a) for a in sizes]
        rng = np.random.default_rng(key)
        return [rng.dirichlet(np.ones(a)) for a in sizes]
    first = [np.asarray(x, float) for x in start]
    for i, (x, a) in enumerate(zip(first, sizes, strict=False)):
        if x.shape != (a,) or (x <= 0).any() or abs(x.sum() - 1) > 1e-9:
            raise BadInput(f"start[{i}]", x, f"{a} probabilities > 0 that sum to 1")
    if len(first) != len(sizes):
        raise BadInput("start", len(first), f"{len(sizes)} policies")
    return first
