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
    where = outcome.store.where
    console.print(
        f"run [bold]{outcome.id}[/bold] · {outcome.status} · recorded in {where}\n"
        f"[dim]next: palestra report {outcome.id} · palestra show {outcome.id}[/dim]",
        highlight=False,
        soft_wrap=True,
    )


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
        "report": outcome.words,
        "usage": outcome.reading.usage(),
    }


def write_json(value: Any) -> None:
    """Print `value` as indented JSON; numbers that JSON lacks (NaN) become null."""
    text = msgspec.json.format(msgspec.json.encode(value, enc_hook=str), indent=2)
    sys.stdout.write(text.decode() + "\n")
