"""The two-player cliff grid of the RQE paper's reference code, as a tabular Markov game.

Two walkers on a grid, each with its own goal; goals and cliffs absorb the walker that enters them, and walkers that
stand close make each other stumble. Mazumdar, Panaganti, Shi, ICLR 2025, experiments; the rules are stated at
`cliff_pair`. Position (x, y) has y = 0 on the bottom row, while the layout is written top row first.
"""

from collections.abc import Sequence

import numpy as np

from palestra.core.errors import BadInput
from palestra.envs.games.forms import MarkovGame

LAYOUT = ("1__", "#__", "#__", "0__")  # digit: goal of that player; #: cliff for both
MOVES = np.array([(1, 0), (0, 1), (-1, 0), (0, -1)])  # actions 0..3 = +x, +y, -x, -y
GOAL_REWARD, CLIFF_REWARD, STEP_REWARD = 1.0, -2.0, 0.1  # per step, from the state before the move
CERTAIN, CROWDED = 0.9, 0.5  # probability of the intended joint move: apart, and when both coordinates differ by <= 1


def cliff_pair(layout: Sequence[str] = LAYOUT) -> MarkovGame:
    """The grid as a MarkovGame with 4 actions per player; a state label is ((x1, y1), (x2, y2)).

    Each step pays 1 on the own goal, -2 on a cliff, else 0.1, by the state before the move. With probability 0.9 (0.5
    when the players' coordinates both differ by at most 1) the intended joint move happens; the rest is spread evenly
    over the product of both players' in-grid neighbour cells. A move off the grid stays. A player on a cliff or on
    its own goal stays for ever, and its neighbour set is its own cell.

    >>> game = cliff_pair()
    >>> game
    MarkovGame('cliff pair', 2 players, 144 states, 4x4 actions)
    >>> game.rewards[:, game.state(((0, 0), (0, 1))), 0, 0]
    array([ 1., -2.])
    """
    grid = _read(layout)  # (width, height) of characters
    width, height = grid.shape
    cells = np.array([(x, y) for x in range(width) for y in range(height)])
    kinds = grid[cells[:, 0], cells[:, 1]]
    steps = [_walker(cells, kinds, (width, height), str(i)) for i in range(2)]
    gap = np.abs(cells[:, None] - cells[None]).max(-1)  # Chebyshev distance between the two positions
    sure = np.where(gap <= 1, CROWDED, CERTAIN)[:, :, None, None, None, None]
    (go0, drift0), (go1, drift1) = steps
    intended = np.einsum("iax,jby->ijabxy", go0, go1)
    stray = np.einsum("ix,jy->ijxy", drift0, drift1)[:, :, None, None]
    count = len(cells)
    transitions = (sure * intended + (1 - sure) * stray).reshape(count**2, 4, 4, count**2)
    pay = [np.where(kinds == str(i), GOAL_REWARD, np.where(kinds == "#", CLIFF_REWARD, STEP_REWARD)) for i in (0, 1)]
    rewards = np.stack([np.repeat(pay[0], count), np.tile(pay[1], count)])
    labels = tuple((tuple(map(int, a)), tuple(map(int, b))) for a in cells for b in cells)
    return MarkovGame(rewards, transitions, name="cliff pair", states=labels)


def _read(layout: Sequence[str]) -> np.ndarray:
    rows = [list(row) for row in layout]
    if not rows or len({len(row) for row in rows}) != 1 or not rows[0]:
        raise BadInput("layout", list(layout), "rows of equal length")
    strange = sorted({mark for row in rows for mark in row} - set("01#_"))
    if strange:
        raise BadInput("layout", strange[0], "marks 0, 1 (goals), # (cliff) and _ (floor)")
    return np.array(rows)[::-1].T  # [x, y] with y = 0 at the bottom


def _walker(cells, kinds, shape, own_goal) -> tuple[np.ndarray, np.ndarray]:
    """One player's one-hot moves (cells, 4, cells) and its even spread over in-grid neighbours (cells, cells)."""
    target = cells[:, None] + MOVES  # (cells, 4, 2)
    inside = ((target >= 0) & (target < np.array(shape))).all(-1)
    stuck = (kinds == own_goal) | (kinds == "#")
    here = np.arange(len(cells))[:, None]
    index = np.where(inside & ~stuck[:, None], target[..., 0] * shape[1] + target[..., 1], here)
    moves = np.eye(len(cells))[index]
    drift = (moves * (inside & ~stuck[:, None])[..., None]).sum(1)
    drift[stuck] = np.eye(len(cells))[stuck]
    alone = drift.sum(1) == 0  # a one-cell grid has no neighbour: stay
    drift[alone] = np.eye(len(cells))[alone]
    return moves, drift / drift.sum(1, keepdims=True)
