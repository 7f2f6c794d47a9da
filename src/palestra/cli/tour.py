"""`palestra run tour`: one system of each area at smoke scale on the embedded model, then where to look next."""

from __future__ import annotations

import time
from typing import Any

from palestra import api
from palestra.cli.output import as_json, console_for_tables, write_json
from palestra.core.registry import slugs, system
from palestra.runner.progress import Silent
from palestra.store import Store


def tour(*, store: str | None, model: Any, json: bool, seed: int, budget: str | None) -> None:
    """Run the first system of each area at smoke scale and print all claims."""
    from rich.console import Console

    opened = Store(store)
    console = Console(stderr=True) if json else console_for_tables()
    started = time.monotonic()
    chosen = _one_per_area()
    outcomes: list[api.Outcome] = []
    for number, slug in enumerate(chosen, 1):
        card = system(slug).card
        console.print(f"[bold]{number}/{len(chosen)} {slug}[/bold] · {card.area} · {card.title}", highlight=False)
        with console.status("running"):
            outcomes.append(
                api.run(slug, scale="smoke", model=model, seed=seed, budget=budget, store=opened, display=Silent())
            )
        if not json:
            console.print(outcomes[-1].table())
    if json:
        write_json([as_json(outcome) for outcome in outcomes])
        return
    claims = [claim for outcome in outcomes for claim in outcome.claims]
    holds = sum(claim.holds is True for claim in claims)
    shown = sum(claim.holds is not None for claim in claims)
    console.print(
        f"{holds} of {shown} claims hold here at smoke scale, {len(claims) - shown} could not be shown; "
        f"{time.monotonic() - started:.0f} s",
        highlight=False,
    )
    first = outcomes[0]
    console.print(f"recorded in {opened.where}. What to do next:", highlight=False)
    for command, why in (
        (f"palestra report {first.id}{opened.option}", "one HTML file with claims, figures and costs"),
        (f"palestra run {first.row.system}", "the same at laptop scale (minutes)"),
        (f"palestra run {first.row.system} --model http://localhost:8000/v1#NAME", "with your own model"),
        ("palestra eval chain_of_thought arithmetic", "any agent on any benchmark"),
        ("palestra list", "all systems"),
    ):
        console.print(f"  {command:<62} [dim]{why}[/dim]", highlight=False)


def _one_per_area() -> list[str]:
    found: dict[str, str] = {}
    for slug in slugs():
        found.setdefault(system(slug).card.area, slug)
    return list(found.values())
