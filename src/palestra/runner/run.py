"""The one object a recipe works with: models, randomness, evaluation, and everything it wants recorded.

A run is one execution of a recipe. What it recorded stays: resuming it executes the recipe again with the same seed and
settings, and every episode that is on disk is taken from there.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from palestra.core.budget import Account, Budget
from palestra.core.claims import Card, ClaimResult
from palestra.core.errors import BadInput, Interrupted, StoreError
from palestra.core.loops import LoopDetector
from palestra.core.protocols import LanguageModel, Task
from palestra.core.records import Episode, Evidence, Scale
from palestra.core.rollout import MAX_STEPS
from palestra.core.scope import Recorder, Scope, enter
from palestra.core.seeds import SeedTree
from palestra.core.tasks import Benchmark
from palestra.runner.executors import Executor, Local
from palestra.runner.interrupts import Active, Interrupts
from palestra.runner.progress import Display, Silent
from palestra.runner.result import Result
from palestra.runner.study import Agents, Job, Limits, Retry, Study
from palestra.store import schema
from palestra.store.codec import encode
from palestra.store.reading import Reading
from palestra.store.store import RunRow, Store
from palestra.store.writer import Writer

if TYPE_CHECKING:
    import jax
    import numpy as np
    from matplotlib.figure import Figure

M = TypeVar("M", bound=LanguageModel)
UNSAVED = 4096  # episodes handed to the writer and not yet on disk: beyond this, the runner waits


class Run:
    """One execution of a recipe.

    Attributes:
        scale: smoke (under 20 s), laptop (minutes) or paper (the published setting).
        seeds: the run's seed tree; `seed_count` is how many seeds the user asked for.
        account: what the run has used of its budget.
    """

    def __init__(
        self,
        store: Store,
        row: RunRow,
        *,
        models: Callable[[str], Any],
        card: Card | None = None,
        budget: Budget | None = None,
        display: Display | None = None,
        executor: Executor | None = None,
        again: Sequence[str] = ("stopped",),
    ) -> None:
        self.store, self.row, self.card = store, row, card
        self.id = row.id
        self.scale: Scale = row.scale  # pyright: ignore[reportAttributeAccessIssue]
        self.seeds = SeedTree(row.seed)
        self.seed_count = row.seeds
        self.account = Account("study", budget=budget)
        self.reading = Reading(store, row)
        if budget is not None:
            self.account.add(self.reading.total())  # an earlier execution's share is spent; minutes count anew
        self.display = display or Silent()
        self.executor = executor or Local()
        self._models = models
        self._again = tuple(again)
        self._claims = 0
        self._words: list[str] = []
        self._studies: dict[str, int] = {}
        self._interrupts = Interrupts()
        self._loop = asyncio.get_running_loop()
        self._writer = Writer(store, row, on_saved=self._on_saved, on_failure=self._on_failure)
        self._recorder = Recorder()
        self._before = enter(Scope(account=self.account, recorder=self._recorder, seed=self.seeds.seed("recipe")))

    def __repr__(self) -> str:
        return f"Run({self.id!r}, scale={self.scale!r})"

    @property
    def replayed(self) -> bool:
        """Whether the models' replies come from an earlier run's records: then timings mean nothing."""
        return bool(self.row.options.get("replay"))

    # ---- what a recipe asks for

    def model(self, role: str = "default") -> Any:
        """The language model for `role`: the one the user chose for it, else the user's choice for all roles."""
        return self._models(role)

    def rng(self, *path: object) -> np.random.Generator:
        """A NumPy generator at `path` of the seed tree."""
        return self.seeds.rng(*path)

    def key(self, *path: object) -> jax.Array:
        """A JAX key at `path` of the seed tree."""
        return self.seeds.key(*path)

    async def evaluate(
        self,
        agents: Agents,
        task: Task | Sequence[Task] | Benchmark,
        *,
        name: str = "main",
        seeds: int | Sequence[int] | None = None,
        episode_budget: Budget | None = None,
        agent_budget: Budget | None = None,
        max_steps: int = MAX_STEPS,
        max_seconds: float | None = None,
        loops: LoopDetector | None = None,
        retry: Retry | None = None,
        executor: Executor | None = None,
    ) -> Result:
        """Run agents × tasks × seeds and return what they gave. Episodes that are on disk already are not run again.

        Args:
            agents: an agent, several, or a mapping from titles to agents (or to the agents of a team environment).
            task: a task, a benchmark, or a sequence of tasks.
            name: of this study, unique in the run.
            seeds: how many or which; by default as many as the user asked for.
            episode_budget, agent_budget: limits for each episode, and for each agent within one.
            max_steps, max_seconds: turns and wall seconds after which an episode is cut.
            loops: stops agents that repeat themselves.
            retry: how failing episodes are tried again.
            executor: where to run; by default as the run says.

        Raises:
            BadInput: unusable agents or tasks, or a plan that differs from the one recorded under `name`.
            BudgetExceeded: the run's budget is used up; what was finished is on disk.
            Interrupted: the user stopped the run; what was finished is on disk.
            StoreError: the store failed; what was acknowledged is on disk.
        """
        study = Study(
            name,
            agents=agents,
            tasks=task,
            seeds=self.seed_count if seeds is None else seeds,
            root=self.seeds.seed("study"),
            limits=Limits(episode_budget, agent_budget, max_steps, loops, max_seconds),
            retry=retry,
        )
        number = self._enrol(study)
        result = Result(self.reading, number, name)
        done = self.reading.done(number)
        again = self.reading.done(number, statuses=self._again)
        if again:
            self._writer.forget(number, again)
            done = sorted(set(done) - set(again))
        if len(done) < len(study):
            await self._execute(study, number, done, executor or self.executor)
        return result

    def log(self, name: str, value: float, step: float = 0) -> None:
        """Record one point of a curve."""
        values = {"run": self.row.key, "name": name, "step": step, "value": float(value), "time": time.time()}
        self._writer.row(schema.metrics, values)

    def figure(self, name: str, figure: Figure) -> Path:
        """Keep a matplotlib figure, as SVG and PNG; returns the PNG."""
        folder = self.store.path(self.row)
        png = folder / f"{name}.png"
        for file in (png.with_suffix(".svg"), png):
            figure.savefig(file, dpi=150, bbox_inches="tight")  # pyright: ignore[reportUnknownMemberType]
        self._artifact(name, "figure", f"{name}.png")
        return png

    def artifact(self, name: str, path: Path | None = None) -> Path:
        """Keep a file: `path` is copied into the run's folder; without it, returns the place to write `name` to."""
        place = self.store.path(self.row) / name
        if not place.resolve().is_relative_to(self.store.path(self.row).resolve()):
            raise BadInput("artifact", name, "a name inside the run's folder")
        place.parent.mkdir(parents=True, exist_ok=True)
        if path is not None:
            import shutil

            shutil.copyfile(path, place)
        self._artifact(name, "file", name)
        return place

    def report(self, text: str) -> None:
        """Say something in words: kept with the run as `report.txt`, and printed by the command line at the end."""
        self._words.append(text.rstrip())  # an execution that goes on with a run says everything again
        self.artifact("report.txt").write_text("\n\n".join(self._words) + "\n", encoding="utf-8")

    def claim(
        self,
        name: str,
        *,
        measured: Any,
        holds: bool | None,
        evidence: Evidence,
        interval: tuple[float, float] | None = None,
        note: str = "",
        details: Mapping[str, Any] | None = None,
    ) -> ClaimResult:
        """State what this run measured for the card's claim `name`; `holds=None` says: not shown at this scale."""
        if self.card is None:
            raise BadInput("claim", name, "a claim of a system's card, and this run has no card")
        stated = self.card.claim(name)
        result = ClaimResult(
            name=name,
            statement=stated.statement,
            paper=stated.paper,
            measured=_plain(measured),
            holds=None if holds is None else bool(holds),
            evidence=evidence,
            scale=self.scale,
            interval=None if interval is None else (float(interval[0]), float(interval[1])),
            note=note,
            details={key: _plain(value) for key, value in (details or {}).items()},
        )
        self._claims += 1
        self._writer.row(
            schema.claims,
            {
                "run": self.row.key,
                "name": name,
                "position": self._claims,
                "holds": None if result.holds is None else int(result.holds),
                "measured": result.shown,
                "evidence": evidence,
                "scale": self.scale,
                "record": encode(result),
                "time": time.time(),
            },
        )
        return result

    @contextmanager
    def progress(self, text: str, total: int | None = None) -> Generator[Callable[[int], None]]:
        """Show a bar for work that is no episode: `with run.progress("training", 100) as advance: advance(1)`.

        Each `advance` also checks the run's budget: work without model calls is stopped there when its minutes are over.
        """

        def advance(steps: int = 1) -> None:
            self.display.advance(text, steps)
            self.account.check()

        self.account.check()
        self.display.begin(text, total)
        try:
            yield advance
        finally:
            self.display.end(text)

    # ---- what the caller of the recipe does

    def close(self, status: str, *, error: str | None = None) -> None:
        """Write what is left and record how the run ended.

        Raises:
            StoreError: something could not be written.
        """
        enter(self._before)
        try:
            with suppress(StoreError):  # said below
                self._keep_recipe_calls()
            self._writer.close()
            failure = self._writer.failure
            if failure is not None:
                with suppress(StoreError):
                    self.store.finish(self.row, "failed", error=str(failure))
                raise failure
            self.store.finish(self.row, status, error=error)
        finally:
            self.display.close()

    def flush(self) -> None:
        """Return when everything recorded so far is on disk."""
        self._keep_recipe_calls()
        self._writer.flush()

    # ---- inside

    def _keep_recipe_calls(self) -> None:
        """Hand over the calls that the recipe made outside any episode since the last time."""
        calls, self._recorder.calls = self._recorder.calls, []
        if calls:
            self._writer.calls(calls)

    def _enrol(self, study: Study) -> int:
        if study.name in self._studies:
            raise BadInput("name", study.name, "a study name that this run has not used yet")
        known = {row["name"]: row for row in self.reading.rows("studies")}
        found = known.get(study.name)
        plan = study.plan()
        if found is not None:
            recorded = msgspec.json.decode(found["plan"])
            changed = [part for part in plan if plan[part] != recorded.get(part)]
            if changed:
                allowed = f"the plan that run {self.id} recorded; {', '.join(changed)} changed"
                raise BadInput("study", study.name, allowed)
            number = int(found["study"])
        else:
            number = max((int(row["study"]) for row in known.values()), default=0) + 1
            values = {"run": self.row.key, "study": number, "name": study.name}
            self._writer.row(schema.studies, values | {"plan": msgspec.json.encode(plan).decode(), "total": len(study)})
            self._writer.flush()
        self._studies[study.name] = number
        return number

    async def _execute(self, study: Study, number: int, done: list[int], executor: Executor) -> None:
        self.display.begin(study.name, len(study), len(done))
        try:
            with self._interrupts.study() as active:
                jobs = self._counted(study.name, _missing(study, done), active)
                save = self._saver(study.name, number, active)
                await executor.run(study, jobs, account=self.account, save=save, stopping=active.stopping)
        finally:
            self._keep_recipe_calls()
            await asyncio.to_thread(self._writer.flush)
            await asyncio.sleep(0)  # lets the last acknowledgements through
            self.display.end(study.name)
        if active.interrupted:
            raise Interrupted(f"stopped; what is finished is saved: palestra resume {self.id}")

    def _counted(self, name: str, jobs: Iterator[Job], active: Active) -> Iterator[Job]:
        for job in jobs:
            active.running += 1
            self.display.running(name, active.running)
            yield job

    def _saver(self, name: str, number: int, active: Active) -> Callable[[Episode], Awaitable[None]]:
        async def save(episode: Episode) -> None:
            while self._writer.waiting >= UNSAVED and self._writer.failure is None:
                active.room.clear()
                await active.room.wait()
            active.running -= 1
            self._writer.episode(number, episode, (name, episode))

        return save

    def _on_saved(self, tokens: list[Any]) -> None:
        self._call(self._acknowledge, [token for token in tokens if token is not None])

    def _acknowledge(self, saved: list[tuple[str, Episode]]) -> None:
        for study, episode in saved:
            self.display.episode(study, episode)
        for active in self._interrupts.studies:
            active.room.set()

    def _on_failure(self, error: StoreError) -> None:
        self._call(self._interrupts.stop)  # what runs already learns of it when it is to be saved

    def _call(self, function: Callable[..., None], *args: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(function, *args)
        except RuntimeError:  # the loop is closed: nobody waits any more
            pass

    def _artifact(self, name: str, kind: str, path: str) -> None:
        values = {"run": self.row.key, "name": name, "kind": kind, "path": path, "time": time.time()}
        self._writer.row(schema.artifacts, values)


def _missing(study: Study, done: list[int]) -> Iterator[Job]:
    """The jobs that are not in `done`, which is ascending; made one at a time."""
    finished = iter(done)
    skip = next(finished, None)
    for index in range(len(study)):
        if index == skip:
            skip = next(finished, None)
        else:
            yield study.job(index)


def _plain(value: Any) -> Any:
    """Numbers of NumPy and JAX as Python's own; the rest as it is."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return value
