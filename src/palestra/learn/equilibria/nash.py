"""Nash equilibria of 2x2 games in closed form: the risk-neutral, fully rational benchmark."""

import numpy as np

from palestra.core.errors import BadInput
from palestra.envs.games.forms import Payoffs, check_payoffs


def nash_2x2(payoffs: Payoffs) -> list[list[np.ndarray]]:
    """All isolated Nash equilibria of a 2x2 game: pure ones first, then the fully mixed one when it exists.

    Args:
        payoffs: a NormalForm, or two 2x2 tables (row player, column player) in player order.

    Returns:
        A list of profiles, each [policy of row (2,), policy of column (2,)].

    >>> [p.round(4).tolist() for p in nash_2x2([[[10, 0], [9, 10]], [[8, 18], [9, 8]]])[0]]
    [[0.0909, 0.9091], [0.9091, 0.0909]]
    """
    row, col = check_payoffs(payoffs)
    if row.shape != (2, 2):
        raise BadInput("payoffs", row.shape, "two 2x2 tables")
    found = []
    for a in (0, 1):
        for b in (0, 1):
            if row[a, b] >= row[1 - a, b] and col[a, b] >= col[a, 1 - b]:
                found.append([np.eye(2)[a], np.eye(2)[b]])
    # up makes the column player indifferent, left makes the row player indifferent
    spread_col = col[0, 0] - col[0, 1] - col[1, 0] + col[1, 1]
    spread_row = row[0, 0] - row[0, 1] - row[1, 0] + row[1, 1]
    if spread_col != 0 and spread_row != 0:
        up, left = (col[1, 1] - col[1, 0]) / spread_col, (row[1, 1] - row[0, 1]) / spread_row
        if 0 < up < 1 and 0 < left < 1:
            found.append([np.array([up, 1 - up]), np.array([left, 1 - left])])
    return found
