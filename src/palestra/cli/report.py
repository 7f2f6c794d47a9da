"""One self-contained HTML file about a run: claims, results, figures, curves, costs, failures. Nothing is fetched."""

from __future__ import annotations

import base64
import time
from collections import Counter
from pathlib import Path
from typing import Any

from palestra import __version__
from palestra.core.claims import Card
from palestra.core.errors import BadInput
from palestra.core.registry import EVAL, slugs, system
from palestra.runner.result import Result
from palestra.store import Reading

TEMPLATE = "report.html.j2"
FAILURES = 20  # kinds of failure shown at most


def write(reading: Reading, file: Path) -> Path:
    """Write the report of a run into `file`; the file appears whole or not at all.

    Raises:
        BadInput: the folder of `file` does not exist.
    """
    if not file.parent.is_dir():
        raise BadInput("--out", str(file), "a file in a folder that exists")
    text = render(reading)
    unfinished = file.with_name(f".{file.name}.part")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(file)
    return file


def render(reading: Reading) -> str:
    """The report as HTML. Every text of the run is escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    run = reading.run
    environment = Environment(
        loader=PackageLoader("palestra.cli"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    studies = [Result(reading, row["study"], row["name"]) for row in reading.rows("studies")]
    usage = reading.usage()
    return environment.get_template(TEMPLATE).render(
        run=run,
        card=_card(run.system),
        created=time.strftime("%Y-%m-%d %H:%M", time.localtime(run.created)),
        seconds=None if run.finished is None else run.finished - run.created,
        config=sorted(run.config.items()),
        claims=reading.claims(),
        studies=[(study.name, list(study.summary().values())) for study in studies],
        figures=_figures(reading),
        usage=usage,
        total={name: sum(row[name] for row in usage) for name in ("calls", "input_tokens", "output_tokens", "usd")},
        failures=_failures(reading),
        version=__version__,
    )


def _card(name: str) -> Card | None:
    return system(name).card if name in slugs() or name == EVAL else None


def _figures(reading: Reading) -> list[tuple[str, str]]:
    """Figures as data URLs; curves that were logged and not drawn are drawn here."""
    folder = reading.store.path(reading.run)
    figures: list[tuple[str, str]] = []
    for row in reading.rows("artifacts"):
        path = folder / row["path"]
        if row["kind"] == "figure" and path.is_file():
            figures.append((row["name"], _data_url(path.read_bytes())))
    curves: dict[str, list[tuple[float, float]]] = {}
    for row in reading.rows("metrics"):
        curves.setdefault(row["name"], []).append((row["step"], row["value"]))
    figures.extend((name, _curve(name, points)) for name, points in curves.items() if len(points) > 1)
    return figures


def _curve(name: str, points: list[tuple[float, float]]) -> str:
    from io import BytesIO

    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3))
    axes = figure.subplots()
    axes.plot(*zip(*sorted(points), strict=True), marker="." if len(points) < 50 else None)
    axes.set(xlabel="step", ylabel=name)
    axes.grid(alpha=0.3)
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=150, bbox_inches="tight")
    return _data_url(buffer.getvalue())


def _data_url(png: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"


def _failures(reading: Reading) -> list[dict[str, Any]]:
    """Episodes that did not end well, grouped by reason and the last line of their error."""
    counts: Counter[tuple[str, str]] = Counter()
    details: dict[tuple[str, str], str] = {}
    for row in reading.rows("episodes"):
        if row["status"] == "failed" or row["error"]:
            text = row["error"] or ""
            key = (row["reason"], text.strip().rsplit("\n", 1)[-1][:200])
            counts[key] += 1
            details.setdefault(key, text)
    return [
        {"reason": reason, "line": line, "count": count, "detail": details[reason, line]}
        for (reason, line), count in counts.most_common(FAILURES)
    ]
