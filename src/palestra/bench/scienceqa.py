"""ScienceQA (Lu et al. 2022): school science questions with 2 to 5 options, many with an image.

The lecture and the solution of a row tell the answer: they are left out of everything an agent is shown.
"""

from __future__ import annotations

from pathlib import Path

from palestra.bench.files import image_of, read_rows, sample
from palestra.bench.gpqa import with_options
from palestra.bench.scorers import exact_option
from palestra.core.errors import BadInput
from palestra.core.tasks import Benchmark, Item
from palestra.judges.answers import LETTERS

_FIELDS = ("task", "grade", "subject", "topic", "category", "skill")


def load_scienceqa(
    source: str | Path,
    *,
    split: str = "test",
    images: bool | None = True,
    n: int | None = None,
    seed: int = 0,
) -> Benchmark:
    """ScienceQA from `problems.json` (or its folder), a parquet file, or a hub id.

    Args:
        source: see `palestra.bench.files.read_rows`. Image files are looked for beside it, in `images/SPLIT/ID/`,
            `SPLIT/ID/` and the folder itself.
        split: which rows to keep, where rows name their split.
        images: True keeps the questions with an image (2017 in the test split), False those without, None all.
        n: how many questions, drawn from `seed`; all when None.
        seed: of the draw.

    Raises:
        BadInput: a malformed row, named by file, row and field; an image that is not there.
    """
    home = Path(source).expanduser()
    home = home if home.is_dir() else home.parent
    kept = []
    for row in read_rows(_problems(source), split=split):
        has_image = bool(row.values.get("image"))
        if row.values.get("split", split) == split and images in (None, has_image):
            kept.append(row)
    if not kept:
        raise BadInput("source", str(source), f"at least one question of split {split!r} (images={images})")
    items: list[Item] = []
    for row in sample(kept, n, seed=seed):  # images are read of the questions drawn only
        options = row.texts("choices", least=2)
        answer = row.integer("answer")
        if not 0 <= answer < len(options) or len(options) > len(LETTERS):
            raise row.bad("answer", f"an index of its choices, 0 to {len(options) - 1}")
        hint = row.optional("hint")
        text = with_options(row.text("question"), options)
        places = [home / "images" / split / row.id, home / split / row.id, home / "images", home]
        items.append(
            Item(
                row.id,
                f"{hint}\n{text}" if hint else text,
                LETTERS[answer],
                legal=tuple(LETTERS[: len(options)]),
                images=(image_of(row, "image", places),) if row.values.get("image") else (),
                info={"kind": "option", "options": options, **{field: row.optional(field) for field in _FIELDS}},
            )
        )
    return Benchmark("scienceqa", items, scorer=exact_option)


def _problems(source: str | Path) -> str | Path:
    """The file of problems inside the released folder, which holds other JSON files too."""
    file = Path(source).expanduser() / "problems.json"
    return file if file.is_file() else source
