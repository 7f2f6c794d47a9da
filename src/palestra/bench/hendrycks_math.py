"""MATH (Hendrycks et al. 2021): competition problems {problem, level, type, solution}, the answer in `\\boxed{}`."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

from palestra.bench.files import read_rows, sample
from palestra.bench.scorers import same_answer
from palestra.core.errors import BadInput
from palestra.core.tasks import Benchmark, Item
from palestra.judges.answers import boxed


def load_math(
    source: str | Path,
    *,
    n: int | None = None,
    seed: int = 0,
    levels: Collection[int] | None = None,
    split: str = "test",
    config: str | None = None,
) -> Benchmark:
    """MATH from its folder of JSON files, one file of rows, or a hub id.

    Args:
        source: see `palestra.bench.files.read_rows`.
        n: how many problems, drawn from `seed`; all when None.
        seed: of the draw.
        levels: which difficulties (1 to 5) to keep; all when None.
        split, config: of a hub data set.

    Raises:
        BadInput: a malformed row, named by file, row and field.
    """
    items: list[Item] = []
    for row in read_rows(source, split=split, config=config):
        answer = boxed(row.text("solution"))
        if answer is None:
            raise row.bad("solution", "a text with the answer in \\boxed{}")
        level = re.fullmatch(r"(?:Level )?([1-5?])", str(row.values.get("level", "?")))
        if level is None:
            raise row.bad("level", '"Level 1" to "Level 5", or "Level ?"')
        difficulty = None if level[1] == "?" else int(level[1])
        if levels is not None and difficulty not in levels:
            continue
        info = {"kind": "boxed", "level": difficulty, "type": row.optional("type")}
        items.append(Item(f"{row.file}:{row.id}", row.text("problem"), answer, info=info))
    if not items:
        raise BadInput("source", str(source), "at least one problem of the levels asked for")
    return Benchmark("math", sample(items, n, seed=seed), scorer=same_answer)
