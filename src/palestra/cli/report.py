"""One self-contained HTML file about a run: claims, results, figures, curves, costs, failures. Nothing is fetched."""

from __future__ import annotations

import base64
import time
from pathlib import Path

from palestra import __version__
from palestra.core.claims import Card
from palestra.core.errors import BadInput
from palestra.core.registry import EVAL, slugs, system
from palestra.runner.result import Result
from palestra.store import Reading

TEMPLATE = "report.html.j2"


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
        failures=reading.failures(),
        version=__version__,
    )


def _card(name: str) -> Card | None:
    return system(name).card if name in slugs() or name == EVAL else None


def _figures(reading: Reading) -> list[tuple[str, str]]:
    """Figures as data URLs; curves that were logged are drawn here, those of a group together."""
    folder = reading.store.path(reading.run)
    figures: list[tuple[str, str]] = []
    for row in reading.rows("artifacts"):
        path = folder / row["path"]
        if row["kind"] == "figure" and path.is_file():
            figures.append((row["name"].replace("_", " "), _data_url(path.read_bytes())))
    curves: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for row in reading.rows("metrics"):
        group, _, name = row["name"].partition("/")
        curves.setdefault(group, {}).setdefault(name or group, []).append((row["step"], row["value"]))
    for group, lines in curves.items():
        if any(len(points) > 1 for points in lines.values()):
            figures.append((group, _curves(group, lines)))
    return figures


def _curves(group: str, lines: dict[str, list[tuple[float, float]]]) -> str:
    """The curves that were logged as GROUP/NAME, in one figure."""
    from io import BytesIO

    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(6.5, 3.2))
    axes = figure.subplots()
    steps: list[float] = []
    for name, points in lines.items():
        x, y = zip(*sorted(points), strict=True)
        axes.plot(x, y, marker="." if len(points) < 50 else None, label=name)
        steps.extend(x)
    if min(steps) > 0 and max(steps) / min(steps) >= 100:
        axes.set_xscale("log")
    elif all(step == int(step) for step in steps):
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set(xlabel="step", title=group)
    axes.grid(alpha=0.3)
    if len(lines) > 1:
        axes.legend(fontsize=7)
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=150, bbox_inches="tight")
    return _data_url(buffer.getvalue())


def _data_url(png: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"
