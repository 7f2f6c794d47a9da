"""Equilibria of games among risk-averse, boundedly rational players: exact, learned, fitted, certified.

Importing this package brings NumPy and SciPy; the parts that compile with JAX
(no-regret play, callables, `differentiable_rqe`) load it on first use.
"""

from palestra.learn.equilibria.batch import BatchRQE, logit_batch, rqe_batch
from palestra.learn.equilibria.certificate import Certificate, certify_2x2
from palestra.learn.equilibria.conditions import NoGuarantee, rqe_condition, spectral_radius
from palestra.learn.equilibria.fit import RQEFit, fit_rqe
from palestra.learn.equilibria.gradients import Gradients, differentiable_rqe, rqe_gradients
from palestra.learn.equilibria.logit import logit_qre
from palestra.learn.equilibria.markov import GenerativeModel, MarkovRQE, RQEValueIteration
from palestra.learn.equilibria.nash import nash_2x2
from palestra.learn.equilibria.risk import entropic_risk
from palestra.learn.equilibria.rqe import rqe
from palestra.learn.equilibria.solution import RQE

__all__ = [
    "RQE",
    "BatchRQE",
    "Certificate",
    "GenerativeModel",
    "Gradients",
    "MarkovRQE",
    "NoGuarantee",
    "RQEFit",
    "RQEValueIteration",
    "certify_2x2",
    "differentiable_rqe",
    "entropic_risk",
    "fit_rqe",
    "logit_batch",
    "logit_qre",
    "nash_2x2",
    "rqe",
    "rqe_batch",
    "rqe_condition",
    "rqe_gradients",
    "spectral_radius",
]
