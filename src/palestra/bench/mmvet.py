"""MM-Vet (Yu et al. 2023): 218 open questions on images, rows keyed `v1_0` to `v1_217`."""

from __future__ import annotations

from pathlib import Path

from palestra.bench.files import image_of, read_rows, sample
from palestra.bench.scorers import Graded, mentions
from palestra.core.errors import BadInput
from palestra.core.protocols import LanguageModel
from palestra.core.tasks import Benchmark, Item


def load_mmvet(
    source: str | Path, *, n: int | None = None, seed: int = 0, grader: LanguageModel | None = None, split: str = "test"
) -> Benchmark:
    """MM-Vet from `mm-vet.json` (or its folder), or a hub id.

    Args:
        source: see `palestra.bench.files.read_rows`; images are looked for in `images/` beside it.
        n: how many questions, drawn from `seed`; all when None.
        seed: of the draw.
        grader: a model that grades answers from 0 to 1; without it the score is the share of the required parts that
            the answer mentions.
        split: of a hub data set.

    Raises:
        BadInput: a malformed row, named by file, row and field; an image that is not there.
    """
    home = Path(source).expanduser()
    if home.is_dir():
        source = home / "mm-vet.json" if (home / "mm-vet.json").is_file() else home
    else:
        home = home.parent
    rows = list(read_rows(source, split=split))
    if not rows:
        raise BadInput("source", str(source), "at least one question")
    items: list[Item] = []
    for row in sample(rows, n, seed=seed):
        field = "imagename" if "imagename" in row.values else "image"
        capability = row.values.get("capability", [])
        abilities = row.texts("capability", least=1) if not isinstance(capability, str) else capability.split(",")
        items.append(
            Item(
                row.id,
                row.text("question"),
                row.text("answer"),
                images=(image_of(row, field, [home / "images", home]),),
                info={"kind": "open", "imagesource": row.optional("imagesource"), "capability": abilities},
            )
        )
    return Benchmark("mm-vet", items, scorer=mentions if grader is None else Graded(grader))
