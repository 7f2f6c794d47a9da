"""GPQA (Rein et al. 2023): graduate-level questions with four options, shuffled from a seed."""

from __future__ import annotations

from pathlib import Path
from random import Random

from palestra.bench.files import read_rows, sample
from palestra.bench.scorers import exact_option
from palestra.core.errors import BadInput
from palestra.core.seeds import derive
from palestra.core.tasks import Benchmark, Item
from palestra.judges.answers import LETTERS

_WRONG = ("Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3")


def load_gpqa(
    source: str | Path,
    *,
    n: int | None = None,
    seed: int = 0,
    split: str = "train",
    config: str | None = "gpqa_main",
) -> Benchmark:
    """GPQA from its csv file or a hub id.

    Args:
        source: see `palestra.bench.files.read_rows`.
        n: how many questions, drawn from `seed`; all when None.
        seed: of the draw, and of the order of options, which depends on the question and the seed only.
        split, config: of a hub data set.

    Raises:
        BadInput: a malformed row, named by file, row and field.
    """
    items: list[Item] = []
    for row in read_rows(source, split=split, config=config):
        right = row.text("Correct Answer")
        options = [right, *(row.text(field) for field in _WRONG)]
        if len(set(options)) != len(options):
            raise row.bad("Correct Answer", "four different options")
        question = row.text("Question")
        Random(derive(seed, "gpqa", question)).shuffle(options)
        info = {"kind": "option", "subject": row.optional("High-level domain"), "options": options}
        items.append(
            Item(
                row.optional("Record ID") or row.id,
                with_options(question, options),
                LETTERS[options.index(right)],
                legal=tuple(LETTERS[: len(options)]),
                info=info,
            )
        )
    if not items:
        raise BadInput("source", str(source), "at least one question")
    return Benchmark("gpqa", sample(items, n, seed=seed), scorer=exact_option)


def with_options(question: str, options: list[str]) -> str:
    """The question with its options below, one a line."""
    listed = "\n".join(f"({letter}) {option}" for letter, option in zip(LETTERS, options, strict=False))
    return f"{question}\n{listed}"
