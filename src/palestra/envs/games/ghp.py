"""Game 4 of Goeree, Holt and Palfrey (2003): generalised matching pennies with a large payoff spread.

Source: J. Goeree, C. Holt, T. Palfrey, "Risk averse behavior in generalized matching pennies games", Games and
Economic Behavior 45(1), 97-113 (2003). Fitted (tau, eps) from Mazumdar, Panaganti, Shi, ICLR 2025. Only game 4 is
carried here: it is the one the RQE study uses.
"""

from palestra.core.errors import BadInput
from palestra.envs.games.selten_chmura import ObservedGame, observed_game

_ROW = ((200.0, 160.0), (370.0, 10.0))
_COL = ((160.0, 10.0), (200.0, 370.0))


def ghp(k: int = 4) -> ObservedGame:
    """Goeree-Holt-Palfrey game k; only k = 4 is available. Payoffs as published.

    >>> ghp(4).observed
    (0.47, 0.65)
    """
    if k != 4:
        raise BadInput("k", k, "4, the only Goeree-Holt-Palfrey game with payoffs and fits here")
    kl, reverse = (0.001, 170, 0.06, 110), (0.001, 110, 0.1, 355)
    return observed_game("Goeree-Holt-Palfrey 4", (_ROW, _COL), (0.47, 0.65), kl, reverse, None)
