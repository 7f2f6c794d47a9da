"""How a run went: what `run` and `resume` return, read back from the store, with the table of its claims."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from palestra.core.claims import ClaimResult
from palestra.runner.result import Result
from palestra.store.reading import Reading
from palestra.store.store import RunRow, Store

if TYPE_CHECKING:
    from rich.table import Table


class Outcome:
    """How a run went: its claims, its status, and the way to everything it recorded."""

    def __init__(self, store: Store, row: RunRow) -> None:
        self.store, self.row, self.id = store, row, row.id
        self.reading = Reading(store, row)

    def __repr__(self) -> str:
        from rich.console import Console

        console = Console(width=120)
        with console.capture() as captured:
            if self.claims:
                console.print(self.table())
            else:
                console.print(f"{self.row.system} · {self.row.scale} · run {self.id} · {self.status}", highlight=False)
            if self.words:
                console.print(self.words, markup=False, highlight=False)
        return captured.get().rstrip()

    def _repr_html_(self) -> str:
        import pandas as pd

        rows = [
            {"claim": c.statement, "paper": c.paper, "measured": c.shown, "verdict": c.verdict} for c in self.claims
        ]
        with pd.option_context("display.max_colwidth", None):  # pandas would cut the statements
            return pd.DataFrame.from_records(rows).to_html(index=False)

    @property
    def status(self) -> str:
        """done, failed, interrupted, or stopped (out of budget)."""
        return self.row.status

    @property
    def claims(self) -> list[ClaimResult]:
        """The claims that the run measured."""
        return self.reading.claims()

    @property
    def words(self) -> str:
        """What the recipe reported in words."""
        file = self.store.folder / self.id / "report.txt"
        return file.read_text(encoding="utf-8").rstrip() if file.is_file() else ""

    def results(self) -> dict[str, Result]:
        """The results of the run's studies, by name."""
        return {row["name"]: Result(self.reading, row["study"], row["name"]) for row in self.reading.rows("studies")}

    def table(self) -> Table:
        """The claims as a rich table."""
        return claims_table(self.claims, title=f"{self.row.system} · {self.row.scale} · run {self.id}")


def claims_table(claims: Sequence[ClaimResult], *, title: str) -> Table:
    """Claims as a rich table: what the paper reports, what was measured, whether it holds, on which evidence."""
    from rich.markup import escape
    from rich.table import Table

    marks = {True: "[green]✓ holds[/green]", False: "[red]✗ does not hold[/red]", None: "[yellow]– not shown[/yellow]"}
    table = Table(title=title, title_justify="left", show_lines=True)
    table.add_column("claim", ratio=4)
    table.add_column("paper", ratio=3)
    table.add_column("measured here", ratio=3)
    table.add_column("verdict", no_wrap=True)
    table.add_column("evidence", no_wrap=True)
    for claim in claims:
        measured = escape(claim.shown) + (f"\n[dim]{escape(claim.note)}[/dim]" if claim.note else "")
        statement = f"[bold]{escape(claim.name)}[/bold]\n{escape(claim.statement)}"
        table.add_row(statement, escape(claim.paper), measured, marks[claim.holds], claim.evidence)
    return table
