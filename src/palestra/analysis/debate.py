"""Measures of a debate: accuracy by round, diversity, flips, and which methods complement one another.

All take the answers of many debates: `answers[item][round][debater]`, None where a debater had none, and the right
answer of each item. A debate that stopped early keeps its last round to the end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import TypeAlias

import numpy as np
from msgspec import Struct

from palestra.core.errors import BadInput
from palestra.judges.equivalence import equivalent

Answers: TypeAlias = Sequence[Sequence[Sequence[str | None]]]
Same: TypeAlias = Callable[[str | None, str | None], bool]


class Flips(Struct, frozen=True):
    """Changes from one round to the next, over all debaters and items.

    Attributes:
        right_to_wrong, wrong_to_right: how many answers changed so.
        right, wrong: how many answers were right and wrong before.
    """

    right_to_wrong: int
    wrong_to_right: int
    right: int
    wrong: int

    @property
    def harm(self) -> float:
        """Share of right answers that were lost; 0 when there was none."""
        return self.right_to_wrong / self.right if self.right else 0.0

    @property
    def gain(self) -> float:
        """Share of wrong answers that were mended; 0 when there was none."""
        return self.wrong_to_right / self.wrong if self.wrong else 0.0


def round_accuracy(
    decisions: Sequence[Sequence[str | None]], gold: Sequence[str], *, same: Same = equivalent
) -> list[float]:
    """Share of right decisions of each round; `decisions[item][round]`.

    >>> round_accuracy([["1", "2"], ["3", "3"]], ["2", "3"])
    [0.5, 1.0]
    """
    table = _padded(decisions)
    return [
        _mean([same(row[place], right) for row, right in zip(table, gold, strict=True)]) for place in _rounds(table)
    ]


def debater_accuracy(answers: Answers, gold: Sequence[str], *, same: Same = equivalent) -> np.ndarray:
    """Share of right answers by round and debater: float array, shape (rounds, debaters)."""
    return _correct(answers, gold, same).mean(axis=0)


def diversity(answers: Answers, *, same: Same = equivalent) -> list[float]:
    """Pairwise disagreement of each round: the share of pairs of debaters whose answers differ, mean over items.

    No answer counts as an answer of its own: two debaters without one agree.

    >>> diversity([[["1", "1", "2"], ["1", "1", "1"]]])
    [0.6666666666666666, 0.0]
    """
    table = _padded(answers)
    return [_mean([_disagreement(row[place], same) for row in table]) for place in _rounds(table)]


def flips(answers: Answers, gold: Sequence[str], *, same: Same = equivalent) -> list[Flips]:
    """Changes from right to wrong and back, for each step from one round to the next.

    >>> flips([[["1", "2"], ["2", "2"]]], ["2"])
    [Flips(right_to_wrong=0, wrong_to_right=1, right=1, wrong=1)]
    """
    correct = _correct(answers, gold, same)
    found: list[Flips] = []
    for number in range(1, correct.shape[1]):
        before, after = correct[:, number - 1], correct[:, number]
        found.append(
            Flips(
                right_to_wrong=int((before & ~after).sum()),
                wrong_to_right=int((~before & after).sum()),
                right=int(before.sum()),
                wrong=int((~before).sum()),
            )
        )
    return found


def complementarity(correct: Mapping[str, Sequence[float]]) -> dict[tuple[str, str], float]:
    """P(b right | a wrong) for each ordered pair of methods, from their scores on the same items (right: above 0.5).

    NaN where a is never wrong.

    >>> complementarity({"cot": [1, 0, 0], "pot": [0, 1, 0]})
    {('cot', 'pot'): 0.5, ('pot', 'cot'): 0.5}
    """
    table = _table(correct)
    found: dict[tuple[str, str], float] = {}
    for first in table:
        for second in table:
            if first != second:
                wrong = ~table[first]
                found[first, second] = float(table[second][wrong].mean()) if wrong.any() else float("nan")
    return found


def choose_methods(correct: Mapping[str, Sequence[float]], *, n: int = 3) -> tuple[str, ...]:
    """The `n` methods to debate with: the set that together solves most items, ties by mean accuracy, then by order.

    Args:
        correct: each method's scores on the same development items (right: above 0.5).
        n: how many, at least 2.

    >>> choose_methods({"a": [1, 1, 0, 0], "b": [1, 1, 0, 0], "c": [0, 0, 1, 0]}, n=2)
    ('a', 'c')
    """
    table = _table(correct)
    if not 2 <= n <= len(table):
        raise BadInput("n", n, f"a number from 2 to {len(table)}, the number of methods")

    def worth(chosen: tuple[str, ...]) -> tuple[float, float]:
        rows = np.stack([table[name] for name in chosen])
        return float(rows.any(axis=0).mean()), float(rows.mean())

    return max(combinations(table, n), key=worth)  # max keeps the first of equals


def _table(correct: Mapping[str, Sequence[float]]) -> dict[str, np.ndarray]:
    sizes = {len(scores) for scores in correct.values()}
    if len(sizes) != 1 or 0 in sizes:
        raise BadInput("correct", {name: len(scores) for name, scores in correct.items()}, "scores on the same items")
    return {name: np.asarray(scores, dtype=float) > 0.5 for name, scores in correct.items()}


def _correct(answers: Answers, gold: Sequence[str], same: Same) -> np.ndarray:
    """Bool array, shape (items, rounds, debaters)."""
    table = _padded(answers)
    return np.array(
        [
            [[same(answer, right) for answer in turns] for turns in rounds]
            for rounds, right in zip(table, gold, strict=True)
        ],
        dtype=bool,
    )


def _padded(rows: Sequence[Sequence]) -> list[list]:
    """Every row as long as the longest, by repeating its last round."""
    if not rows or not all(rows):
        raise BadInput("answers", rows, "at least one item, with at least one round each")
    longest = max(map(len, rows))
    return [[*row, *[row[-1]] * (longest - len(row))] for row in rows]


def _rounds(table: list[list]) -> range:
    return range(len(table[0]))


def _disagreement(answers: Sequence[str | None], same: Same) -> float:
    pairs = list(combinations(answers, 2))
    return _mean([(a is None) != (b is None) or (a is not None and not same(a, b)) for a, b in pairs])


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
