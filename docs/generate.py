"""Pages made while the site is built: one a system from its card, and the reference of each room.

A system's own words stand in `docs/systems/SLUG.md`; what the card and the last recorded claims say is put under them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mkdocs_gen_files
import msgspec

from palestra.core import Card, ClaimResult, slugs, system

ROOT = Path(__file__).parent.parent
ROOMS = {
    "core": "records, protocols, budgets, seeds, errors, the registry, claims and the rollout",
    "store": "the run store: writing, reading, export",
    "runner": "runs, studies, executors, progress",
    "models": "language models and their engines",
    "tools": "tools, the sandbox and the terminal",
    "envs": "environments and game forms",
    "nn": "neural layers and kernels",
    "agents": "what acts",
    "teams": "agents that work together",
    "memory": "what agents remember",
    "judges": "what scores answers",
    "learn": "learners",
    "search": "search at test time",
    "bench": "benchmarks and their loaders",
    "synth": "tasks and data made by programs",
    "analysis": "what is computed from results",
    "systems": "one module a paper",
    "cli": "the command line",
}


def main() -> None:
    cards = [system(slug).card for slug in slugs()]
    for card in cards:
        with mkdocs_gen_files.open(f"systems/{card.slug}.md", "w") as page:
            page.write(f"---\ntitle: {card.slug}\n---\n\n{system_page(card)}")
    with mkdocs_gen_files.open("systems/index.md", "w") as page:
        page.write(systems_index(cards))
    rooms = [room for room in ROOMS if modules(room)]
    for room in rooms:
        with mkdocs_gen_files.open(f"reference/{room}.md", "w") as page:
            page.write(f"---\ntitle: {room}\n---\n\n{reference_page(room)}")
    with mkdocs_gen_files.open("reference/index.md", "w") as page:
        page.write(reference_index(rooms))


def system_page(card: Card) -> str:
    """The page of one system: its own words, how to run it, its claims."""
    own = ROOT / "docs" / "systems" / f"{card.slug}.md"
    words = own.read_text() if own.exists() else f"# {card.title}\n\n{card.summary}\n"
    link = card.link.replace("arXiv:", "https://arxiv.org/abs/")
    source = f"[{card.venue}]({link})" if "://" in link else f"{card.venue} {link}".strip()
    lines = [words.rstrip(), "", "## Card", "", f"| Paper | {cell(card.title)} |", "| --- | --- |"]
    lines += [f"| Authors | {cell(card.authors)} |", f"| Venue | {source} |", f"| Area | {cell(card.area)} |"]
    lines += [f"| Extras | {', '.join(card.needs) or 'none'} |", "", "```console"]
    lines += [f"palestra run {card.slug} --scale smoke    # under 20 seconds"]
    lines += [f"palestra run {card.slug}                  # minutes", f"palestra show {card.slug}", "```", ""]
    return "\n".join([*lines, *claims_section(card)])


def claims_section(card: Card) -> list[str]:
    """What the paper states, and what the last `make claims` measured, if it was run."""
    measured = recorded(card.slug)
    lines = [
        "## Claims",
        "",
        "| claim | paper | measured here | verdict | evidence |",
        "| --- | --- | --- | --- | --- |",
    ]
    for claim in card.claims:
        found = measured.get(claim.name)
        cells = [claim.statement, claim.paper]
        cells += [f"{found.shown} {found.note}".strip(), found.verdict, found.evidence] if found else ["run it", "", ""]
        lines.append("| " + " | ".join(cell(text) for text in cells) + " |")
    note = "Measured by `make claims`." if measured else f"`palestra run {card.slug}` fills in the last three columns."
    return [*lines, "", note, ""]


def recorded(slug: str) -> dict[str, ClaimResult]:
    """Claims by name from `benchmarks/claims/SLUG.json`, which `make claims` writes."""
    path = ROOT / "benchmarks" / "claims" / f"{slug}.json"
    if not path.exists():
        return {}
    claims = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])["claims"]
    return {claim.name: claim for claim in msgspec.convert(claims, list[ClaimResult])}


def systems_index(cards: list[Card]) -> str:
    lines = ["# Systems", "", "Each system is one paper: run it, and see which of its claims hold on your machine.", ""]
    for area in sorted({card.area for card in cards}):
        lines += [f"## {area}", "", "| system | paper | what it is |", "| --- | --- | --- |"]
        for card in cards:
            if card.area == area:
                row = (f"[{card.slug}]({card.slug}.md)", f"{cell(card.title)} ({cell(card.venue)})", cell(card.summary))
                lines.append("| " + " | ".join(row) + " |")
        lines.append("")
    return "\n".join(lines)


def reference_page(room: str) -> str:
    lines = [f"# palestra.{room}", "", f"{ROOMS[room].capitalize()}.", ""]
    for module in modules(room):
        lines += [f"## {module.removeprefix(f'palestra.{room}.') if module != f'palestra.{room}' else room}", ""]
        lines += [
            f"::: {module}",
            "    options:",
            "      show_root_heading: false",
            "      show_root_toc_entry: false",
            "",
        ]
    return "\n".join(lines)


def reference_index(rooms: list[str]) -> str:
    lines = ["# Reference", "", "Import from the room, not from the file: `from palestra.core import Budget`.", ""]
    lines += ["| room | what is in it |", "| --- | --- |"]
    lines += [f"| [palestra.{room}]({room}.md) | {ROOMS[room]} |" for room in rooms]
    return "\n".join(lines) + "\n"


def modules(room: str) -> list[str]:
    """The public modules of a room that hold anything, by dotted name."""
    found: list[str] = []
    for path in sorted((ROOT / "src" / "palestra" / room).rglob("*.py")):
        parts = path.relative_to(ROOT / "src").with_suffix("").parts
        if path.name != "__init__.py" and not any(part.startswith("_") for part in parts):
            found.append(".".join(parts))
    return found


def cell(text: str) -> str:
    """`text` fit for a table cell."""
    return text.replace("|", "\\|").replace("\n", " ")


main()
