"""The synchronous and asynchronous faces: run a system, evaluate agents on tasks, resume a run.

They do what the command line does and print nothing: they make the run, hand it to the recipe and read it back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import msgspec
from msgspec import Struct

from palestra import __version__
from palestra.core.budget import Budget
from palestra.core.errors import BadInput, BudgetExceeded, Interrupted, PalestraError, cause_of
from palestra.core.protocols import Task
from palestra.core.records import SCALES, Scale
from palestra.core.registry import System, system
from palestra.core.tasks import Benchmark
from palestra.runner.executors import Executor, Local, Processes
from palestra.runner.outcome import Outcome as Outcome
from palestra.runner.outcome import claims_table as claims_table
from palestra.runner.progress import Display
from palestra.runner.result import Result
from palestra.runner.run import Run
from palestra.runner.study import Agents, Study
from palestra.store.reading import Reading
from palestra.store.store import RunRow, Store

if TYPE_CHECKING:
    from palestra.models import Model

P = ParamSpec("P")
T = TypeVar("T")
DEFAULT_MODEL = "smollm2"
EVALUATE = "evaluate"  # the system name of runs made by `evaluate`, which have no recipe of their own
LIMITS = frozenset({"episode_budget", "agent_budget", "max_steps", "max_seconds", "loops", "retry"})  # of Run.evaluate
Models = Any  # a spec, a Model, or a mapping from roles to these


async def arun(
    slug: str,
    *,
    scale: Scale = "laptop",
    model: Models = None,
    set: Mapping[str, Any] | None = None,
    seed: int = 0,
    seeds: int = 1,
    store: Store | str | None = None,
    budget: Budget | str | None = None,
    replay: str | None = None,
    concurrency: int = 32,
    processes: int | None = None,
    display: Display | None = None,
) -> Outcome:
    """Run a system and return its claims.

    Args:
        slug: the system, as in `palestra list`.
        scale: smoke (under 20 s), laptop (minutes), paper (the published setting).
        model: a model spec (`smollm2`, `openai/NAME`, `http://localhost:8000/v1#NAME`, `hf:PATH`), a Model, or a mapping
            from roles to these.
        set: settings of the system's Config.
        seed, seeds: root of the seed tree; how many seeds the recipe uses.
        store: where to record; see `palestra.Store`.
        budget: limits of the whole run, as a `Budget` or as "tokens=…,usd=…,minutes=…,calls=…".
        replay: a run whose recorded replies are used instead of asking the models.
        concurrency: how many episodes at a time.
        processes: run episodes in this many worker processes instead.

    Raises:
        BadInput: a wrong value; nothing was written.
        PalestraError: the run failed, was stopped, or ran out of budget; what it finished is on disk.
    """
    chosen = system(slug)
    scale = _scale(scale)
    config = chosen.settings(scale, set or {})
    if seeds < 1:
        raise BadInput("seeds", seeds, "at least 1")
    _check_seed(seed)
    opened = _open(store)
    specs = _specs(model)
    for role in specs.keys() - {"default", *chosen.card.roles}:
        raise BadInput("model role", role, choices=("default", *chosen.card.roles))
    limit = Budget.parse(budget) if isinstance(budget, str) else budget
    executor = _executor(concurrency, processes)
    source = _recorded_run(opened, slug, replay) if replay else None
    factory = _factory(specs, opened, source, limit)
    row = opened.begin(
        slug,
        scale=scale,
        seed=seed,
        seeds=seeds,
        models={role: _spec_name(one) for role, one in specs.items()},
        config=msgspec.to_builtins(config),
        options={
            "budget": msgspec.to_builtins(limit) if limit else None,
            "replay": source.id if source else None,
            "concurrency": concurrency,
            "processes": processes,
        },
        version=__version__,
    )
    return await _execute(chosen, config, opened, row, factory, limit, executor, display)


async def aresume(
    run: str = "last",
    *,
    store: Store | str | None = None,
    budget: Budget | str | None = None,
    failed: bool = False,
    display: Display | None = None,
) -> Outcome:
    """Go on with a run: what is on disk stays, what is missing is run; `failed` runs the failed episodes again too.

    `last` is the newest run that is not done. A run that is done stays as it is, unless its failures are to run again.

    The run's budget still holds, unless another is given; what the run has used so far counts. Only minutes count anew.

    Raises:
        BadInput: there is no such run, or it was made by `evaluate` in a script (call that with `resume=` instead).
        StoreError: a living process executes the run.
    """
    opened = _open(store, create=False)
    row = opened.unfinished() if run == "last" else opened.run(run)
    if row.status == "done" and not failed:
        return Outcome(opened, row)
    if row.system == EVALUATE:
        raise BadInput("run", row.id, f"a run of a system; run your script again with evaluate(..., resume={row.id!r})")
    chosen = system(row.system)
    try:
        config = msgspec.convert(row.config, chosen.config, strict=False)
    except msgspec.ValidationError as error:
        raise BadInput("run", row.id, f"a run of settings that {row.system} still has ({error})") from None
    limit = Budget.parse(budget) if isinstance(budget, str) else budget
    if limit is None and row.options.get("budget"):
        limit = msgspec.convert(row.options["budget"], Budget)
    source = opened.run(row.options["replay"]) if row.options.get("replay") else None
    executor = _executor(row.options["concurrency"], row.options["processes"])
    factory = _factory(row.models, opened, source, limit)
    row = opened.take(row)
    again = ("stopped", "failed") if failed else ("stopped",)
    return await _execute(chosen, config, opened, row, factory, limit, executor, display, again)


async def aevaluate(
    agents: Agents,
    task: Task | Sequence[Task] | Benchmark,
    *,
    name: str = "main",
    seeds: int | Sequence[int] = 1,
    seed: int = 0,
    budget: Budget | str | None = None,
    store: Store | str | None = None,
    concurrency: int = 32,
    processes: int | None = None,
    resume: str | None = None,
    display: Display | None = None,
    **limits: Any,
) -> Result:
    """Evaluate agents on tasks and return the result; see `Run.evaluate` for `limits` (budgets, max_steps, retry, …).

    `resume` goes on with an earlier call of the same kind, given the same agents, tasks and seeds. The earlier call's
    seed holds; what it used counts towards `budget`.
    """
    for option in limits.keys() - LIMITS:
        raise BadInput("option", option, choices=sorted(LIMITS))
    _check_seed(seed)
    Study(name, agents=agents, tasks=task, seeds=seeds).plan()  # a wrong value leaves nothing in the store
    limit = Budget.parse(budget) if isinstance(budget, str) else budget
    executor = _executor(concurrency, processes)
    opened = _open(store)
    if resume is not None:
        row = opened.run(resume)
        if row.system != EVALUATE:
            raise BadInput("resume", row.id, "a run made by evaluate() (palestra.resume goes on with a system's run)")
        row = opened.take(row)
    else:
        row = opened.begin(
            EVALUATE,
            scale="laptop",
            seed=seed,
            seeds=seeds if isinstance(seeds, int) else len(seeds),
            models={},
            config={},
            options={},
            version=__version__,
        )
    made = Run(opened, row, models=_no_model, budget=limit, display=display, executor=executor)
    async with _Closing(made):
        result = await made.evaluate(agents, task, name=name, seeds=seeds, **limits)
    return result


def _waiting(work: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """`work` with the same arguments, waiting for its end."""

    @wraps(work)
    def wait(*args: P.args, **options: P.kwargs) -> T:
        return _wait(work(*args, **options), work.__name__)

    return wait


run = _waiting(arun)
resume = _waiting(aresume)
evaluate = _waiting(aevaluate)


async def _execute(
    chosen: System,
    config: Struct,
    store: Store,
    row: RunRow,
    factory: Callable[[str], Any],
    budget: Budget | None,
    executor: Executor,
    display: Display | None,
    again: Sequence[str] = ("stopped",),
) -> Outcome:
    made = Run(
        store, row, models=factory, card=chosen.card, budget=budget, display=display, executor=executor, again=again
    )
    async with _Closing(made):
        await chosen.run(made, config)
    return Outcome(store, store.run(row.id))


class _Closing:
    """Records how a run ended, whatever happens."""

    def __init__(self, run: Run) -> None:
        self.run = run

    async def __aenter__(self) -> None: ...

    async def __aexit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, BaseExceptionGroup):  # a recipe with studies side by side
            error = cause_of(error)  # pyright: ignore[reportUnknownArgumentType]
        status = {type(None): "done", BudgetExceeded: "stopped", Interrupted: "interrupted"}.get(type(error), "failed")
        if isinstance(error, asyncio.CancelledError | KeyboardInterrupt):
            status = "interrupted"
        text = None if error is None else (str(error) if isinstance(error, PalestraError) else repr(error))
        self.run.close(status, error=text)
        if not isinstance(error, PalestraError):
            return
        wrong_input = error.exit_code == BadInput.exit_code
        if wrong_input and self.run.store.discard(self.run.row):
            return  # nothing ran: a wrong value leaves nothing behind
        if not wrong_input and not self.run.replayed:
            limit = " --budget LIMITS (larger ones; what is used so far counts)"
            again = f"palestra resume {self.run.id}{self.run.store.option}"
            error.add_note(f"go on with: {again}{limit if isinstance(error, BudgetExceeded) else ''}")


def _wait(work: Coroutine[Any, Any, T], name: str) -> T:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    work.close()
    raise BadInput("call", name[1:], f"`await palestra.{name}(...)` here, where an event loop is running already")


def _open(store: Store | str | None, *, create: bool = True) -> Store:
    return store if isinstance(store, Store) else Store(store, create=create)


def _recorded_run(store: Store, slug: str, replay: str) -> RunRow:
    """The run to replay: of the same system; `last` is the newest that is done."""
    if replay != "last":
        row = store.run(replay)
        if row.system != slug:
            raise BadInput("replay", row.id, f"a run of {slug}, and this is one of {row.system}")
        return row
    for row in store.runs(system=slug):
        if row.status == "done":
            return row
    raise BadInput("replay", replay, f"a finished run of {slug}, and {store.where} holds none")


def _executor(concurrency: int, processes: int | None) -> Executor:
    return Local(concurrency) if processes is None else Processes(processes)


def _scale(scale: str) -> Scale:
    if scale not in SCALES:
        raise BadInput("scale", scale, choices=SCALES)
    return scale


def _check_seed(seed: int) -> None:
    if not -(2**63) <= seed < 2**63:
        raise BadInput("seed", seed, "a whole number of at most 63 bits")


def _specs(model: Models) -> dict[str, Any]:
    if model is None:
        return {"default": DEFAULT_MODEL}
    if isinstance(model, Mapping):
        return {"default": DEFAULT_MODEL, **model}
    return {"default": model}


def _spec_name(model: Any) -> str:
    if isinstance(model, str):
        return model
    if not hasattr(model, "complete") or not isinstance(getattr(model, "name", None), str):
        raise BadInput("model", model, "the name of a model, a Model, or a mapping from roles to these")
    return model.name


def _factory(
    specs: Mapping[str, Any], store: Store, replay: RunRow | None, budget: Budget | None
) -> Callable[[str], Model]:
    """Makes each role's model when it is first asked for: a recipe that needs none loads none."""
    from palestra.models import model

    made: dict[Any, Model] = {}
    recorded: Any = None
    if replay is not None:
        from palestra.models.replies import Recorded

        recorded = Recorded.of(Reading(store, replay).calls())
    else:
        _check_models(specs, budget)

    def factory(role: str) -> Model:
        spec = specs.get(role, specs["default"])
        key = spec if isinstance(spec, str) else id(spec)
        if key not in made:
            made[key] = model(spec) if recorded is None else model(spec, cache=recorded, offline=True)
        return made[key]

    return factory


def _check_models(specs: Mapping[str, Any], budget: Budget | None) -> None:
    """A wrong name or a missing key is said before anything is recorded; the default model is only looked for in use."""
    from palestra.models import model
    from palestra.models.spec import check

    for spec in specs.values():
        if not isinstance(spec, str) or spec == DEFAULT_MODEL:
            continue
        check(spec)
        costs = spec.startswith(("openai/", "http://", "https://"))
        if (
            costs
            and budget is not None
            and budget.usd is not None
            and getattr(model(spec).engine, "price", None) is None
        ):
            raise BadInput(
                "budget.usd", budget.usd, f"no limit in dollars: no price of {spec} is known (see PALESTRA_PRICES)"
            )


def _no_model(role: str) -> Any:
    raise BadInput("model", role, "agents that bring their own models: evaluate() takes no model")
