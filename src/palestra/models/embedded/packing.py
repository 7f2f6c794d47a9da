"""Rows of tokens for scoring: a prefix and all its options in one row, each option blind to the others.

The last token of an option predicts nothing that is asked for, so it is left out; options of one token need the prefix
alone. Positions of every option continue those of the prefix, and the mask hides the other options, so the numbers are
those of separate rows, at a fraction of the work when the prefix is long.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct


class Need(Struct, frozen=True):
    """Where a log-probability is read: that of `token` at `place` of the row, for option `option` of item `item`."""

    place: int
    token: int
    item: int
    option: int


class Row(Struct):
    """One row of a batch. `branches` is 0 for the prefix and k for the k-th option in the row."""

    tokens: list[int]
    positions: list[int]
    branches: list[int]
    needs: list[Need]


def pack(prefix: Sequence[int], options: Sequence[Sequence[int]], *, item: int, together: bool) -> list[Row]:
    """The rows that score `options` after `prefix`.

    Args:
        prefix: its tokens, at least one.
        options: the tokens of each, at least one.
        together: all options in one row; False makes a row for each option of several tokens.

    >>> [row.tokens for row in pack([5, 6], [[7], [8, 9]], item=0, together=True)]
    [[5, 6, 8]]
    >>> [row.tokens for row in pack([5, 6], [[7], [8, 9], [8, 4]], item=0, together=False)]
    [[5, 6, 8], [5, 6, 8]]
    """
    rows: list[Row] = []
    first = [Need(len(prefix) - 1, option[0], item, number) for number, option in enumerate(options)]
    for number, option in enumerate(options):
        if len(option) == 1:
            continue
        if not rows or not together:
            rows.append(_row(prefix))
        row = rows[-1]
        start, branch = len(row.tokens), max(row.branches) + 1
        inner = option[:-1]
        row.tokens += inner
        row.positions += range(len(prefix), len(prefix) + len(inner))
        row.branches += [branch] * len(inner)
        row.needs += [Need(start + place, token, item, number) for place, token in enumerate(option[1:])]
    if not rows:
        rows.append(_row(prefix))
    rows[0].needs += first
    return rows


def batches(rows: Sequence[Row], *, tokens: int) -> list[list[Row]]:
    """The rows in batches of similar length, each at most `tokens` with its padding (a longer row comes alone)."""
    made: list[list[Row]] = []
    for row in sorted(rows, key=lambda row: len(row.tokens)):
        if made and (len(made[-1]) + 1) * len(row.tokens) <= tokens:
            made[-1].append(row)
        else:
            made.append([row])
    return made


def mask(rows: Sequence[Row], torch: Any) -> Any | None:
    """Which token may see which: bool, shape (rows, 1, length, length); None when plain causal order says it all.

    Padding is on the right, where causal order hides it from every real token.
    """
    if all(max(row.branches) <= 1 for row in rows):
        return None
    length = max(len(row.tokens) for row in rows)
    branches = torch.tensor([row.branches + [-1] * (length - len(row.tokens)) for row in rows])
    seen, seeing = branches[:, None, :], branches[:, :, None]
    causal = torch.ones(length, length, dtype=torch.bool).tril()
    return (((seen == 0) | (seen == seeing)) & causal)[:, None]


def _row(prefix: Sequence[int]) -> Row:
    return Row(tokens=list(prefix), positions=list(range(len(prefix))), branches=[0] * len(prefix), needs=[])
