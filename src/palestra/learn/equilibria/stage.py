"""The fixed-point equation of a batch of games and its exact derivative: what every solver here iterates on.

Unknowns are log-policies y_i. One pass computes beliefs q_i (product of the others), adversaries p_i, payoffs u_i =
R_i p_i and responses x_i; F_i = y_i - log x_i vanishes exactly at an RQE. Payoffs carry a factor t in [0, 1] per game:
t = 0 has the single solution "uniform", and scaling payoffs by t is scaling (tau, eps) by (t, 1/t), so eps*eps*tau*tau
does not change on the way. All arrays lead with a batch axis B.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypedDict

import numpy as np

from palestra.learn.equilibria.conditions import Penalty, Regulariser, Traits
from palestra.learn.equilibria.quantal import regulariser_value, respond, response_weights
from palestra.learn.equilibria.risk import adversary, adversary_curvature, floored, risk_value


class Report(TypedDict):
    """What a solved batch says: policies n x (B, A_i), adversaries n x (B, M_i), values (B, n), residual (B,), regret
    (B, n); see `report`."""

    policies: list[np.ndarray]
    adversaries: list[np.ndarray]
    values: np.ndarray
    residual: np.ndarray
    regret: np.ndarray


class FixedPoint(Protocol):
    """The equation F(y, t) = 0 of a batch of games, as solvers see it; `Stage` explains the parts."""

    @property
    def batch(self) -> int: ...
    @property
    def sizes(self) -> tuple[int, ...]: ...
    @property
    def tau(self) -> np.ndarray: ...
    @property
    def eps(self) -> np.ndarray: ...
    @property
    def penalty(self) -> Penalty: ...
    @property
    def regulariser(self) -> Regulariser: ...

    def take(self, index: Any) -> "FixedPoint":
        """The games at `index` along the batch axis."""
        ...

    def uniform(self) -> np.ndarray:
        """log of the uniform profile, (B, sum A_i)."""
        ...

    def split(self, y: np.ndarray) -> list[np.ndarray]:
        """Cut (B, sum A_i) into n arrays (B, A_i)."""
        ...

    def equation(self, y: np.ndarray, t: np.ndarray) -> np.ndarray:
        """F(y), shape (B, sum A_i), with payoffs times t (B,)."""
        ...

    def linearise(self, y: np.ndarray, t: np.ndarray) -> "Linear":
        """F and its exact derivatives at y."""
        ...

    def report(self, y: np.ndarray) -> Report:
        """Policies, adversaries, values, residual and regret at t = 1."""
        ...


@dataclass(frozen=True)
class Stage:
    """A batch of n-player games of one shape with traits.

    Args:
        payoffs: n arrays (B, A_i, M_i), own action first, the other players' profiles flattened in increasing order.
        sizes: actions per player.
        tau: (B, n), 1/payoff. eps: (B, n), payoff.
        penalty: "kl", "reverse_kl" or "none". regulariser: "log_barrier" or "entropy".
    """

    payoffs: list[np.ndarray]
    sizes: tuple[int, ...]
    tau: np.ndarray
    eps: np.ndarray
    penalty: str
    regulariser: str

    @classmethod
    def build(
        cls,
        payoffs: Sequence[np.ndarray],
        tau: Traits,
        eps: Traits,
        penalty: str,
        regulariser: str,
    ) -> "Stage":
        """From n arrays (B, A_1, ..., A_n) in player order; tau, eps broadcast to (B, n)."""
        n, batch = len(payoffs), payoffs[0].shape[0]
        sizes = payoffs[0].shape[1:]
        flat = [np.moveaxis(p, 1 + i, 1).reshape(batch, sizes[i], -1) for i, p in enumerate(payoffs)]
        shape = (batch, n)
        tau = np.broadcast_to(np.asarray(tau, float), shape)
        eps = np.broadcast_to(np.asarray(eps, float), shape)
        return cls(flat, sizes, tau, eps, penalty, regulariser)

    @classmethod
    def of_game(
        cls, tensors: Sequence[np.ndarray], tau: Traits, eps: Traits, penalty: str, regulariser: str
    ) -> "Stage":
        """A batch of one game, from n arrays (A_1, ..., A_n) in player order."""
        return cls.build([tensor[None] for tensor in tensors], tau, eps, penalty, regulariser)

    @property
    def batch(self) -> int:
        """Number of games."""
        return self.payoffs[0].shape[0]

    def take(self, index) -> "Stage":
        """The games at `index` along the batch axis."""
        return replace(self, payoffs=[r[index] for r in self.payoffs], tau=self.tau[index], eps=self.eps[index])

    def uniform(self) -> np.ndarray:
        """log of the uniform profile, (B, sum A_i)."""
        row = np.concatenate([np.full(a, -np.log(a)) for a in self.sizes])
        return np.broadcast_to(row, (self.batch, len(row))).copy()

    def equation(self, y: np.ndarray, t: np.ndarray) -> np.ndarray:
        """F(y) = y - log reply(y), shape (B, sum A_i), with payoffs times t (B,)."""
        return y - np.concatenate(respond_all(self, y, t)["log_reply"], axis=-1)

    def linearise(self, y: np.ndarray, t: np.ndarray) -> "Linear":
        """F and its exact derivatives at y."""
        return linearise(self, y, t)

    def report(self, y: np.ndarray) -> Report:
        """Policies, adversaries, values, residual and regret at t = 1."""
        return report(self, y)

    def split(self, y: np.ndarray) -> list[np.ndarray]:
        """Cut (B, sum A_i) into n arrays (B, A_i)."""
        return np.split(y, np.cumsum(self.sizes)[:-1], axis=-1)


def log_beliefs(log_x: list[np.ndarray]) -> list[np.ndarray]:
    """log q_i (B, M_i): log of the product policy of everyone but i."""
    out = []
    for i in range(len(log_x)):
        total = np.zeros((log_x[0].shape[0], 1))
        for j, other in enumerate(log_x):
            if j != i:
                total = (total[:, :, None] + other[:, None, :]).reshape(len(total), -1)
        out.append(total)
    return out


def normalise(stage: FixedPoint, y: np.ndarray) -> np.ndarray:
    """Shift each player's log-policy so that it sums to one."""
    parts = []
    for part in stage.split(y):
        top = part.max(-1, keepdims=True)
        parts.append(part - top - np.log(np.exp(part - top).sum(-1, keepdims=True)))
    return np.concatenate(parts, axis=-1)


def respond_all(stage: Stage, y: np.ndarray, t: np.ndarray) -> dict[str, list[np.ndarray]]:
    """One exact best-response pass at log-policies y (B, sum A_i) with payoff factor t (B,).

    Returns lists over players: x, log_x (current), log_q, w = t R^T x, p, u = t R p, reply, log_reply.
    """
    log_x = stage.split(y)
    out: dict[str, list[np.ndarray]] = {"log_x": log_x, "x": [np.exp(part) for part in log_x]}
    out["log_q"] = log_beliefs(log_x)
    out.update(w=[], p=[], u=[], reply=[], log_reply=[])
    for i, payoff in enumerate(stage.payoffs):
        w = t[:, None] * (out["x"][i][:, None] @ payoff)[:, 0]
        p = adversary(stage.penalty, w, out["log_q"][i], stage.tau[:, i : i + 1])
        u = t[:, None] * (payoff @ p[..., None])[..., 0]
        reply, log_reply = respond(stage.regulariser, u, stage.eps[:, i : i + 1])
        for name, value in (("w", w), ("p", p), ("u", u), ("reply", reply), ("log_reply", log_reply)):
            out[name].append(value)
    return out


@dataclass(frozen=True)
class Linear:
    """F and its derivatives at a point: jacobian (B, N, N); by_t, by_log_tau, by_log_eps lists or arrays."""

    value: np.ndarray
    jacobian: np.ndarray
    by_t: np.ndarray  # (B, N)
    by_log_tau: np.ndarray  # (B, N, n)
    by_log_eps: np.ndarray  # (B, N, n)
    passed: dict


def linearise(stage: Stage, y: np.ndarray, t: np.ndarray, *, traits: bool = False) -> Linear:
    """F and dF/dy, dF/dt (and dF/dlog tau, dF/dlog eps when `traits`) in closed form.

    Adversary: dp = B dlog q - K dw with K = diag(k) - kk^T/sum k; B = diag(p) - p p^T for KL, diag(p) - k p^T/sum k
    for reverse KL, diag(p) for none. Response: dlog x = v (du - s.du). Then du = t R dp and dw = t R^T dx.
    """
    state = respond_all(stage, y, t)
    n, sizes, batch = len(stage.sizes), stage.sizes, stage.batch
    start = np.concatenate([[0], np.cumsum(sizes)])
    total = start[-1]
    jacobian = np.zeros((batch, total, total))
    by_t = np.zeros((batch, total))
    by_tau, by_eps = np.zeros((batch, total, n)), np.zeros((batch, total, n))
    factor = t[:, None, None]
    for i, payoff in enumerate(stage.payoffs):
        rows = slice(start[i], start[i + 1])
        p, log_q, w, x = state["p"][i], state["log_q"][i], state["w"][i], state["x"][i]
        tau, eps = stage.tau[:, i : i + 1], stage.eps[:, i : i + 1]
        v, s = response_weights(stage.regulariser, state["reply"][i], eps)
        scaled = factor * payoff
        drift = np.zeros_like(v)
        if stage.penalty == "none":
            by_belief = scaled * p[:, None]  # R B: (B, A_i, M_i)
        else:
            k = adversary_curvature(stage.penalty, w, p, log_q, tau)
            peak = k.argmax(-1)  # B and K ignore constants: measure from the heaviest outcome to lose no digits
            scaled = scaled - np.take_along_axis(scaled, peak[:, None, None], -1)
            pull = (scaled @ k[..., None]) / k.sum(-1)[:, None, None]  # R k / sum k
            by_belief = (scaled - pull) * p[:, None]
            by_w = (scaled - pull) * k[:, None]  # R K
            jacobian[:, rows, rows] = _response(v, s, (by_w @ scaled.swapaxes(1, 2)) * x[:, None])
            drift = (by_w @ (w - np.take_along_axis(w, peak[:, None], -1))[..., None])[..., 0]  # R K w
        others = [j for j in range(n) if j != i]
        grid = by_belief.reshape(batch, sizes[i], *(sizes[j] for j in others))
        for place, j in enumerate(others):
            axes = tuple(2 + k for k in range(len(others)) if k != place)
            effect = grid.sum(axes) if axes else grid
            jacobian[:, rows, start[j] : start[j + 1]] = -_response(v, s, effect)
        if traits:
            by_tau[:, rows, i] = -_response(v, s, -drift[..., None])[..., 0]
            by_eps[:, rows, i] = -_response(v, s, -state["u"][i][..., None])[..., 0]
        raw = np.where(t[:, None] > 0, (state["u"][i] - drift) / np.where(t > 0, t, 1)[:, None], payoff.mean(-1))
        by_t[:, rows] = -_response(v, s, raw[..., None])[..., 0]
    for j in range(n):  # policies are normalised: dlog x_j = dy_j - x_j . dy_j
        columns = slice(start[j], start[j + 1])
        block = jacobian[:, :, columns]
        block -= block.sum(-1, keepdims=True) * state["x"][j][:, None]
    index = np.arange(total)
    jacobian[:, index, index] += 1
    value = y - np.concatenate(state["log_reply"], axis=-1)
    return Linear(value, jacobian, by_t, by_tau, by_eps, state)


def _response(v: np.ndarray, s: np.ndarray, du: np.ndarray) -> np.ndarray:
    """v * (du - s.du) for du (B, A, K)."""
    return v[..., None] * (du - (s[:, None] @ du))


def report(stage: Stage, y: np.ndarray) -> Report:
    """Policies, adversaries, values, residual and regret of a batch at t = 1.

    values (B, n): risk-adjusted value without the eps term, in payoff units. residual (B,): largest change of one
    exact best-response pass, in probability. regret (B, n): upper bound, by duality, on what a player could still
    gain in its regularised risk-adjusted payoff, in payoff units.
    """
    state = respond_all(stage, y, np.ones(stage.batch))
    values, regret = [], []
    residual = np.zeros(stage.batch)
    for i in range(len(stage.sizes)):
        tau, eps = stage.tau[:, i : i + 1], stage.eps[:, i]
        x, reply, u = state["x"][i], state["reply"][i], state["u"][i]
        values.append(risk_value(stage.penalty, state["w"][i], floored(state["log_q"][i]), tau))
        residual = np.maximum(residual, abs(reply - x).max(-1))
        shaped = (reply * u).sum(-1) - eps * regulariser_value(stage.regulariser, reply, state["log_reply"][i])
        here = (x * u).sum(-1) - eps * regulariser_value(stage.regulariser, x, state["log_x"][i])
        regret.append(np.maximum(shaped - here, 0.0))
    return {
        "policies": state["x"],
        "adversaries": state["p"],
        "values": np.stack(values, -1),
        "residual": residual,
        "regret": np.stack(regret, -1),
    }
