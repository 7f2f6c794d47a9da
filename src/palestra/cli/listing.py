"""`palestra list` and `palestra show`: systems, runs, agents, benchmarks; a card or a run in detail."""

from __future__ import annotations

import inspect
import time
from typing import Any

import msgspec

from palestra.api import EVALUATE, Outcome, claims_table
from palestra.cli.output import as_json, console_for_tables, write_json
from palestra.core.config import description, type_name
from palestra.core.errors import BadInput
from palestra.core.registry import EVAL, System, slugs, system
from palestra.store import Reading, Store

KINDS = ("systems", "runs", "agents", "benchmarks")


def show(what: str, *, store: str | None, json: bool) -> None:
    """Print the list of `what`."""
    if what not in KINDS:
        raise BadInput("list", what, choices=KINDS)
    title, columns, rows = {"systems": _systems, "agents": _agents, "benchmarks": _benchmarks}.get(
        what, lambda: _runs(store)
    )()
    if json:
        write_json([dict(zip(columns, row, strict=True)) for row in rows])
        return
    _print_table(title, columns, rows)


def describe(name: str, *, store: str | None, json: bool) -> None:
    """Print the card of a system, or a run."""
    if name in slugs():
        chosen = system(name)
        if json:
            write_json({"card": chosen.card, "settings": _settings(chosen)})
        else:
            _print_card(chosen)
        return
    try:
        opened = Store(store, create=False)
        row = opened.run(name)
    except BadInput:
        if name == "last" or name.startswith(tuple(f"{slug}-" for slug in (*slugs(), EVAL, EVALUATE))):
            raise
        raise BadInput("name", name, "a system or a run's id", choices=slugs()) from None
    outcome = Outcome(opened, row)
    if json:
        write_json(as_json(outcome))
    else:
        _print_run(outcome)


def _systems() -> tuple[str, list[str], list[list[Any]]]:
    cards = [system(slug).card for slug in slugs()]
    cards.sort(key=lambda card: (card.area, card.slug))
    return "systems", ["system", "area", "title", "venue"], [[c.slug, c.area, c.title, c.venue] for c in cards]


def _agents() -> tuple[str, list[str], list[list[Any]]]:
    from palestra import agents

    rows = [[name, _first_line(make)] for name, make in sorted(agents.CATALOG.items())]
    return "agents", ["agent", "what it does"], rows


def _benchmarks() -> tuple[str, list[str], list[list[Any]]]:
    from palestra import bench

    rows = [[name, _first_line(make), _arguments(make)] for name, make in sorted(bench.CATALOG.items())]
    return "benchmarks", ["benchmark", "what it is", "settings"], rows


def _runs(store: str | None) -> tuple[str, list[str], list[list[Any]]]:
    opened = Store(store, create=False)
    rows: list[list[Any]] = []
    for row in opened.runs():
        verdicts = [claim.holds for claim in Reading(opened, row).claims()]
        stated = len(system(row.system).card.claims) if row.system in slugs() else len(verdicts)
        holds = f"{verdicts.count(True)} of {stated}" if stated else ""
        status = "dead" if row.status == "running" and not row.alive else row.status
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(row.created))
        rows.append([row.id, row.system, row.scale, row.models.get("default", ""), status, holds, when])
    columns = ["run", "system", "scale", "model", "status", "claims that hold", "started"]
    return f"runs in {opened.where}", columns, rows


def _arguments(make: Any) -> str:
    """The arguments of a benchmark with their defaults; one without default is its PATH."""
    parameters = inspect.signature(make).parameters.values()
    return ", ".join(p.name if p.default is p.empty else f"{p.name}={p.default!r}" for p in parameters)


def _first_line(thing: Any) -> str:
    return (thing.__doc__ or "").strip().split("\n")[0]


def _settings(chosen: System) -> list[dict[str, Any]]:
    """Every setting with its type, its default and what the scales change."""
    found: list[dict[str, Any]] = []
    for field in msgspec.structs.fields(chosen.config):
        default = field.default if field.default is not msgspec.NODEFAULT else None
        if field.default_factory is not msgspec.NODEFAULT:
            default = field.default_factory()  # pyright: ignore
        scales = {scale: values[field.name] for scale, values in chosen.presets.items() if field.name in values}
        found.append(
            {
                "setting": field.name,
                "type": type_name(field.type),
                "default": default,
                "by_scale": scales,
                "description": description(field.type),
            }
        )
    return found


def _print_card(chosen: System) -> None:
    from rich.markup import escape

    console = console_for_tables()
    card = chosen.card
    console.print(f"[bold]{escape(card.slug)}[/bold] — {escape(card.title)}", highlight=False)
    console.print(escape(f"{card.authors}, {card.venue}  {card.link}"), style="dim", highlight=False)
    console.print(escape(card.summary), highlight=False)
    claims = [[claim.name, claim.statement, claim.paper] for claim in card.claims]
    _print_table("claims", ["claim", "statement", "paper"], claims)
    rows = [
        [
            s["setting"],
            s["description"],
            s["type"],
            s["default"],
            ", ".join(f"{scale}: {value}" for scale, value in s["by_scale"].items()),
        ]
        for s in _settings(chosen)
    ]
    _print_table("settings (--NAME VALUE)", ["setting", "what it is", "type", "default", "by scale"], rows)
    console.print(f"run it: palestra run {card.slug}", highlight=False)


def _print_run(outcome: Outcome) -> None:
    console = console_for_tables()
    row = outcome.row
    console.print(f"[bold]{row.id}[/bold] · {row.system} · {row.scale} · {row.status}", highlight=False)
    if row.error:
        console.print(row.error, style="red", markup=False, highlight=False)
    models = ", ".join(f"{role}: {name}" for role, name in row.models.items())
    console.print(f"models {models} · seed {row.seed} · palestra {row.version}", style="dim", highlight=False)
    for result in outcome.results().values():
        console.print(result.table())
    if outcome.claims:
        console.print(claims_table(outcome.claims, title="claims"))
    usage = outcome.reading.usage()
    if usage:
        columns = list(usage[0])
        rows = [[f"{value:.4g}" if isinstance(value, float) else value for value in one.values()] for one in usage]
        _print_table("model calls", columns, rows)
    files = outcome.reading.rows("artifacts")
    for file in files:
        console.print(f"{file['kind']}: {outcome.store.path(row) / file['path']}", highlight=False, style="dim")


def _print_table(title: str, columns: list[str], rows: list[list[Any]]) -> None:
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=escape(title), title_justify="left")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*("" if cell is None else escape(str(cell)) for cell in row))
    console_for_tables().print(table)
