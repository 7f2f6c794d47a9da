"""Equilibria of games among risk-averse, boundedly rational players: exact, learned, fitted, certified.

Importing this package brings NumPy and SciPy; the parts that compile with JAX load it on first use.
"""

from importlib import import_module

from palestra.learn.equilibria.conditions import NoGuarantee, rqe_condition, spectral_radius
from palestra.learn.equilibria.nash import nash_2x2
from palestra.learn.equilibria.quantal import logit_qre
from palestra.learn.equilibria.risk import entropic_risk
from palestra.learn.equilibria.rqe import RQE, rqe

_LATER = {}
__all__ = [
    "RQE",
    "NoGuarantee",
    "entropic_risk",
    "logit_qre",
    "nash_2x2",
    "rqe",
    "rqe_condition",
    "spectral_radius",
    *_LATER,
]


def __getattr__(name: str):
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
