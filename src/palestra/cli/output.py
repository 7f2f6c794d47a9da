"""What commands print at the end of a run: results, the claims table, where everything is; or the same as JSON."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import msgspec

from palestra.api import Outcome

if TYPE_CHECKING:
    from rich.console import Console

PIPE_WIDTH = 120  # columns


def outcome(outcome: Outcome, *, json: bool) -> None:
    """Print how a run went."""
    if json:
        write_json(as_json(outcome))
        return
    console = console_for_tables()
    for result in outcome.results().values():
        console.print(result.table())
    if outcome.claims:
        console.print(outcome.table())
    if outcome.words:
        console.print(outcome.words, markup=False, highlight=False)
    failures = outcome.reading.failures(most=5)
    for one in failures:
        console.print(f"{one.times} × {one.reason}: {one.line}", markup=False, highlight=False, style="red")
    where, option = outcome.store.where, outcome.store.option
    console.print(
        f"run [bold]{outcome.id}[/bold] · {outcome.status} · recorded in {where}\n"
        f"[dim]next: palestra report {outcome.id}{option} · palestra show {outcome.id}{option}[/dim]",
        highlight=False,
        soft_wrap=True,
    )


def all_failed(outcome: Outcome) -> bool:
    """Whether a run had episodes and every one of some study failed: then its command must not look like a success."""
    summaries = [list(result.summary().values()) for result in outcome.results().values()]
    return any(agents and all(one.failed == one.episodes for one in agents) for agents in summaries)


def console_for_tables() -> Console:
    """A console for standard output; into a file or a pipe, tables get a readable width."""
    from rich.console import Console

    console = Console()
    return console if console.is_terminal else Console(width=PIPE_WIDTH)


def as_json(outcome: Outcome) -> dict[str, Any]:
    """A run as plain values."""
    return {
        "run": outcome.id,
        "system": outcome.row.system,
        "scale": outcome.row.scale,
        "status": outcome.status,
        "store": outcome.store.where,
        "claims": [msgspec.to_builtins(claim) | {"verdict": claim.verdict} for claim in outcome.claims],
        "results": {
            name: [msgspec.to_builtins(one) for one in result.summary().values()]
            for name, result in outcome.results().items()
        },
        "failures": [one._asdict() for one in outcome.reading.failures()],
        "report": outcome.words,
        "usage": outcome.reading.usage(),
    }


def write_json(value: Any) -> None:
    """Print `value` as indented JSON; numbers that JSON lacks (NaN) become null."""
    text = msgspec.json.format(msgspec.json.encode(value, enc_hook=str), indent=2)
    sys.stdout.write(text.decode() + "\n")
