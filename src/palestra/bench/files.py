"""Reading data set files row by row, so that a malformed row is reported by file, row and field.

Sources: a `.json` (a list of rows, rows by id, or one row), `.jsonl`, `.csv` or `.parquet` file, a folder of these, or
the id of a data set on the Hugging Face hub, which is fetched through `datasets`.
"""

from __future__ import annotations

import base64
import csv
import mimetypes
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import msgspec

from palestra.core.errors import BadInput, MissingExtra
from palestra.core.records import Image
from palestra.core.seeds import derive

ENDINGS = (".json", ".jsonl", ".csv", ".parquet")
T = TypeVar("T")


class Row:
    """One row of a file. Reading a field checks it.

    Attributes:
        file, number: where it stands (rows count from 1); `id` is its key in a file of rows by id.
        values: its fields.
    """

    __slots__ = ("file", "id", "number", "values")

    def __init__(self, file: str, number: int, values: Any, id: str = "") -> None:
        self.file, self.number, self.id = file, number, id or str(number)
        if not isinstance(values, dict):
            raise BadInput(f"{file} row {number}", values, "an object with named fields")
        self.values: dict[str, Any] = values

    def bad(self, field: str, allowed: str) -> BadInput:
        """The error for a wrong field."""
        return BadInput(f"{self.file} row {self.number} {field}", self.values.get(field), allowed)

    def text(self, field: str) -> str:
        """A text that is not blank."""
        value = self.values.get(field)
        if not isinstance(value, str) or not value.strip():
            raise self.bad(field, "a text")
        return value.strip()

    def optional(self, field: str) -> str:
        """A text, empty when it is missing or null."""
        value = self.values.get(field)
        if value is not None and not isinstance(value, str):
            raise self.bad(field, "a text or null")
        return (value or "").strip()

    def integer(self, field: str) -> int:
        """A whole number."""
        value = self.values.get(field)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.bad(field, "a whole number")
        return value

    def texts(self, field: str, *, least: int) -> list[str]:
        """A list of at least `least` texts."""
        value = self.values.get(field)
        found = list(value) if isinstance(value, Iterable) and not isinstance(value, (str, dict)) else []
        if len(found) < least or not all(isinstance(one, str) and one.strip() for one in found):
            raise self.bad(field, f"a list of at least {least} texts")
        return found


def read_rows(source: str | Path, *, split: str = "test", config: str | None = None) -> Iterator[Row]:
    """All rows of `source` in order; folders by path.

    Args:
        source: a file, a folder, or a hub id such as `owner/name`.
        split, config: of a hub data set; ignored for files.

    Raises:
        BadInput: there is no such source, or a file cannot be read as what its name says.
        MissingExtra: a hub id without the `datasets` package.
    """
    path = Path(source).expanduser()
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.suffix in ENDINGS)
        if not files:
            raise BadInput("source", str(source), f"a folder with files ending in {', '.join(ENDINGS)}")
        for file in files:
            yield from _read(file, str(file.relative_to(path)))
    elif path.is_file():
        yield from _read(path, path.name)
    elif _hub_id(str(source)):
        yield from _hub(str(source), split=split, config=config)
    else:
        raise BadInput("source", str(source), "a file or folder that exists, or a hub id such as owner/name")


def sample(items: list[T], n: int | None, *, seed: int) -> list[T]:
    """All of `items`, or `n` of them drawn from `seed`, in their order."""
    if n is None or n >= len(items):
        return items
    if n < 1:
        raise BadInput("n", n, "at least 1, or None for all")
    chosen = sorted(Random(derive(seed, "sample")).sample(range(len(items)), n))
    return [items[place] for place in chosen]


def image_of(row: Row, field: str, folders: Iterable[Path] = ()) -> Image:
    """The image of a row: bytes inside the row (parquet), or a file below one of `folders`.

    Raises:
        BadInput: it is not there, or its name leads outside the folders.
    """
    value: Any = row.values.get(field)
    if isinstance(value, dict) and isinstance(value.get("bytes"), bytes):
        return _encoded(value["bytes"], str(value.get("path") or ""))
    if (save := getattr(value, "save", None)) is not None:  # a decoded image of the hub
        import io

        buffer = io.BytesIO()
        save(buffer, format="PNG")
        return _encoded(buffer.getvalue(), "image.png")
    name = row.text(field)
    for folder in folders:
        file = (folder / name).resolve()
        if not file.is_relative_to(folder.resolve()):
            raise row.bad(field, "a file name inside the data set's folder")
        if file.is_file():
            return _encoded(file.read_bytes(), name)
    raise row.bad(field, f"an image file in {', '.join(str(folder) for folder in folders) or 'the row'}")


def _encoded(content: bytes, name: str) -> Image:
    kind = "image/jpeg" if content[:2] == b"\xff\xd8" else mimetypes.guess_type(name)[0] or "image/png"
    return Image(f"data:{kind};base64,{base64.b64encode(content).decode()}")


def _read(file: Path, shown: str) -> Iterator[Row]:
    try:
        if file.suffix == ".jsonl":
            for number, line in enumerate(file.read_bytes().splitlines(), 1):
                if line.strip():
                    yield Row(shown, number, _decode(line, f"{shown} row {number}"))
        elif file.suffix == ".csv":
            with file.open(encoding="utf-8-sig", newline="") as lines:
                for number, values in enumerate(csv.DictReader(lines), 1):
                    yield Row(shown, number, values)
        elif file.suffix == ".parquet":
            import pyarrow.parquet

            for number, values in enumerate(pyarrow.parquet.read_table(file).to_pylist(), 1):
                yield Row(shown, number, values)
        elif file.suffix == ".json":
            yield from _json_rows(_decode(file.read_bytes(), shown), shown)
        else:
            raise BadInput("source", str(file), f"a file ending in {', '.join(ENDINGS)}")
    except (UnicodeDecodeError, csv.Error, OSError) as error:
        raise BadInput("source", shown, f"a readable {file.suffix} file ({error})") from None
    except ValueError as error:
        if isinstance(error, BadInput):
            raise
        raise BadInput("source", shown, f"a readable {file.suffix} file ({error})") from None


def _json_rows(content: Any, shown: str) -> Iterator[Row]:
    if isinstance(content, list):
        for number, values in enumerate(content, 1):
            yield Row(shown, number, values)
    elif isinstance(content, dict) and content and all(isinstance(value, dict) for value in content.values()):
        for number, (key, values) in enumerate(content.items(), 1):
            yield Row(shown, number, values, id=str(key))
    else:
        yield Row(shown, 1, content)


def _decode(content: bytes, where: str) -> Any:
    try:
        return msgspec.json.decode(content)
    except msgspec.DecodeError as error:
        raise BadInput(where, content[:60].decode("utf-8", "replace"), f"JSON ({error})") from None


def _hub_id(source: str) -> bool:
    parts = source.split("/")
    return len(parts) == 2 and all(part and part.strip(".") == part and " " not in part for part in parts)


def _hub(name: str, *, split: str, config: str | None) -> Iterator[Row]:
    try:
        import datasets
    except ImportError as error:
        raise MissingExtra("datasets", "torch") from error
    try:
        table = datasets.load_dataset(name, config, split=split)
    except Exception as error:  # the library raises many kinds; each means that the data cannot be had
        raise BadInput("source", name, f"a data set that can be fetched ({str(error).splitlines()[0][:120]})") from None
    for number, values in enumerate(table, 1):
        yield Row(f"{name}[{split}]", number, dict(values))
