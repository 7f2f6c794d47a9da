"""RQE for any convex penalty D(p, q) and regulariser nu(x) given as JAX-traceable functions.

The inner problems min_p { p.w + D(p, q)/tau } and max_x { x.u - eps nu(x) } are solved on the simplex by a primal-dual
interior-point method (Nocedal, Wright 2006, ch. 14 and 19), differentiated through their optimality conditions; the
outer equation is the same as for the named pairs, so continuation and arclength work unchanged. No guarantee is known
for arbitrary pairs: `certified` is False and the residual is what to trust.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from palestra.core.errors import BadInput, MissingExtra
from palestra.learn.equilibria.conditions import Penalty, Regulariser, Traits
from palestra.learn.equilibria.continuation import newton, trace
from palestra.learn.equilibria.quantal import regulariser_value, respond
from palestra.learn.equilibria.risk import adversary, risk_value
from palestra.learn.equilibria.solution import RQE, package
from palestra.learn.equilibria.stage import Linear, Report

try:
    import jax
    import jax.numpy as jnp
except ImportError as error:  # pragma: no cover - depends on the installation
    raise MissingExtra("jax", "games") from error

_ROUNDS = 60  # interior-point iterations; the gap falls about tenfold in each


def simplex_argmin(cost: Callable, size: int, *parameters):
    """argmin over the simplex of cost(x, *parameters), shape (size,), for a convex differentiable cost.

    Works when the minimum lies on the boundary (to about 1e-12) and can be differentiated with respect to the
    parameters. Call under float64.
    """
    slope, bend = jax.grad(cost), jax.hessian(cost)
    fixed = jax.lax.stop_gradient(parameters)
    row = jnp.ones((1, size))

    def system(x, s):
        top = jnp.concatenate([bend(x, *fixed) + jnp.diag(s / x), row.T], axis=1)
        return jnp.concatenate([top, jnp.concatenate([row, jnp.zeros((1, 1))], axis=1)])

    def round_(_, state):
        x, s, c = state
        mu = jnp.maximum(0.1 * (x @ s) / size, 1e-16)
        right = -jnp.append(slope(x, *fixed) + c - mu / x, x.sum() - 1)
        move = jnp.linalg.solve(system(x, s), right)
        dx, dc = move[:-1], move[-1]
        ds = mu / x - s - s / x * dx
        size_x, size_s = _inside(x, dx), _inside(s, ds)
        new = x + size_x * dx, s + size_s * ds, c + size_x * dc
        usable = jnp.isfinite(move).all()
        return tuple(jnp.where(usable, a, b) for a, b in zip(new, state, strict=True))

    start = jnp.full(size, 1 / size), jnp.ones(size), jnp.zeros(())
    x, s, c = jax.lax.stop_gradient(jax.lax.fori_loop(0, _ROUNDS, round_, start))
    gap = jnp.append(slope(x, *parameters) + c - s, x.sum() - 1)
    return x - jnp.linalg.solve(system(x, s), gap)[:-1]  # one Newton step carries the implicit derivative


def _inside(value, move):
    return jnp.minimum(1.0, 0.99 / jnp.maximum(jnp.max(-move / value), 1e-12))


class GeneralStage:
    """One game (batch of one) with callables; the face that continuation and reporting expect of a Stage."""

    batch = 1

    def __init__(self, tensors, tau, eps, penalty, regulariser) -> None:
        n = len(tensors)
        self.sizes = tensors[0].shape
        self.tau, self.eps = np.asarray(tau, float)[None], np.asarray(eps, float)[None]
        self.penalty, self.regulariser = penalty, regulariser
        self.payoffs = [np.moveaxis(tensors[i], i, 0).reshape(self.sizes[i], -1) for i in range(n)]
        self._check()
        with jax.enable_x64(True):
            run = partial(response_pass, payoffs=self.payoffs, tau=self.tau[0], eps=self.eps[0], sizes=self.sizes,
                          penalty=penalty, regulariser=regulariser)  # fmt: skip

            def gap(y, t):
                return y - jnp.log(jnp.concatenate(run(y, t)["reply"]))

            self._gap, self._both = jax.jit(gap), jax.jit(lambda y, t: (gap(y, t), jax.jacfwd(gap, (0, 1))(y, t)))
            self._run = jax.jit(lambda y: run(y, 1.0))

    def _check(self) -> None:
        with jax.enable_x64(True):
            probe = jnp.array([0.25, 0.75])
            trials = (("penalty", self.penalty, (probe, probe)), ("regulariser", self.regulariser, (probe,)))
            for name, function, arguments in trials:
                if callable(function):
                    try:
                        slope = np.asarray(jax.grad(function)(*arguments))
                    except Exception as error:
                        line = str(error).splitlines()[0]
                        raise BadInput(name, function, f"a JAX-differentiable function to a scalar ({line})") from None
                    if not np.isfinite(slope).all():
                        raise BadInput(name, function, "a function with a finite gradient inside the simplex")

    def take(self, index) -> "GeneralStage":
        """The stage itself: there is one game."""
        return self

    def uniform(self) -> np.ndarray:
        """log of the uniform profile, (1, sum A_i)."""
        return np.concatenate([np.full(a, -np.log(a)) for a in self.sizes])[None]

    def split(self, y: np.ndarray) -> list[np.ndarray]:
        """Cut (1, sum A_i) into n arrays (1, A_i)."""
        return np.split(y, np.cumsum(self.sizes)[:-1], axis=-1)

    def equation(self, y: np.ndarray, t: np.ndarray) -> np.ndarray:
        """F(y) = y - log reply(y)."""
        with jax.enable_x64(True):
            return np.asarray(self._gap(y[0], t[0]))[None]

    def linearise(self, y: np.ndarray, t: np.ndarray) -> Linear:
        """F with dF/dy and dF/dt by forward-mode differentiation."""
        with jax.enable_x64(True):
            value, (by_y, by_t) = self._both(y[0], t[0])
        none = np.zeros((1, y.shape[1], len(self.sizes)))
        return Linear(np.asarray(value)[None], np.asarray(by_y)[None], np.asarray(by_t)[None], none, none, {})

    def report(self, y: np.ndarray) -> Report:
        """As `stage.report`, for a batch of one."""
        with jax.enable_x64(True):
            state = jax.tree.map(np.asarray, self._run(y[0]))
        x = [np.exp(part[0]) for part in self.split(y)]
        residual = max(abs(r - a).max() for r, a in zip(state["reply"], x, strict=True))
        return {
            "policies": [a[None] for a in x],
            "adversaries": [p[None] for p in state["p"]],
            "values": np.array(state["value"])[None],
            "residual": np.array([residual]),
            "regret": np.maximum(np.array(state["regret"]), 0.0)[None],
        }


def response_pass(y, t, *, payoffs, tau, eps, sizes, penalty, regulariser):
    """One best-response pass from log-policies y (N,) with payoffs times t."""
    y = jnp.asarray(y)
    log_x = [part - jax.nn.logsumexp(part) for part in jnp.split(y, np.cumsum(sizes)[:-1])]
    out = {"p": [], "reply": [], "value": [], "regret": []}
    for i, payoff in enumerate(payoffs):
        log_q = jnp.zeros(1)
        for j, other in enumerate(log_x):
            if j != i:
                log_q = (log_q[:, None] + other[None]).ravel()
        q, x = jnp.exp(log_q), jnp.exp(log_x[i])
        w = t * (x @ payoff)
        if callable(penalty):
            p = simplex_argmin(_belief_cost(penalty), len(q), w, q, tau[i])
            value = p @ w + penalty(p, q) / tau[i]
        else:
            p = adversary(penalty, w, log_q, tau[i : i + 1])
            value = risk_value(penalty, w, q, tau[i : i + 1])
        u = t * (payoff @ p)
        if callable(regulariser):
            reply = simplex_argmin(_policy_cost(regulariser), len(u), u, eps[i])
            reply = jnp.maximum(reply, 1e-300)
            shaped, here = reply @ u - eps[i] * regulariser(reply), x @ u - eps[i] * regulariser(x)
        else:
            reply, log_reply = respond(regulariser, u, eps[i : i + 1])
            shaped = reply @ u - eps[i] * regulariser_value(regulariser, reply, log_reply)
            here = x @ u - eps[i] * regulariser_value(regulariser, x, log_x[i])
        for name, one in (("p", p), ("reply", reply), ("value", value), ("regret", shaped - here)):
            out[name].append(one)
    return out


def _belief_cost(penalty):
    return lambda p, w, q, tau: p @ w + penalty(p, q) / tau


def _policy_cost(regulariser):
    return lambda x, u, eps: eps * regulariser(x) - x @ u


def solve_general(
    tensors: Sequence[np.ndarray],
    tau: Traits,
    eps: Traits,
    *,
    penalty: Penalty,
    regulariser: Regulariser,
    tol: float,
) -> RQE:
    """The RQE for a callable penalty and/or regulariser, traced from uniform play; see `rqe`."""
    stage = GeneralStage(tensors, tau, eps, penalty, regulariser)
    y, error, history = newton(stage, stage.uniform(), np.ones(1), steps=25)
    if not error[0] <= 1e-7:
        y, error, history = trace(stage)
    return package(stage, y, history, tol=tol, method="newton")
