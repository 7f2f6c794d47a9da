"""Logit quantal response equilibria: McKelvey and Palfrey, "Quantal Response Equilibria for Normal Form Games" (1995).

They are RQEs without risk aversion, traced from the uniform profile as gambit does, with residual and regret returned.
"""

from numbers import Real

import numpy as np

from palestra.core.errors import BadInput
from palestra.envs.games.forms import Payoffs, check_payoffs
from palestra.learn.equilibria.exact import solve_exact
from palestra.learn.equilibria.solution import RQE


def logit_qre(payoffs: Payoffs, precision: float, *, tol: float = 1e-12) -> RQE:
    """Logit quantal response equilibrium at precision lambda (1/payoff), on the principal branch.

    Follows the branch that starts at the uniform profile for lambda = 0 by pseudo-arclength steps, so folds are
    rounded instead of stalling the trace, and stops at its first crossing of `precision`.

    Args:
        payoffs: a NormalForm, or n tensors in player order.
        precision: lambda >= 0; eps = 1/lambda.
        tol: largest allowed change of one response pass, in probability.

    Returns:
        RQE result (`policies`, `values`, `residual`, `regret`, ...) with tau = 0.

    >>> result = logit_qre([[[1, -1], [-1, 1]], [[-1, 1], [1, -1]]], 2.0)
    >>> result.policies[0].round(6)
    array([0.5, 0.5])
    """
    if not (isinstance(precision, Real) and np.isfinite(precision) and precision >= 0):
        raise BadInput("precision", precision, "a finite number >= 0")
    eps = 1 / max(float(precision), 1e-300)  # precision 0: every action equally likely
    return solve_exact(check_payoffs(payoffs), 1.0, eps, penalty="none", regulariser="entropy", tol=tol, follow=True)
