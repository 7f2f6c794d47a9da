"""A study: which agents on which tasks with which seeds. It is a plan of numbered jobs, the same on every machine."""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, TypeAlias

from msgspec import Struct

from palestra.core.budget import Account, Budget
from palestra.core.errors import BadInput, BudgetExceeded, PalestraError
from palestra.core.loops import LoopDetector
from palestra.core.protocols import Agent, Task
from palestra.core.records import Episode
from palestra.core.rollout import MAX_STEPS, rollout
from palestra.core.scope import Recorder, Scope, enter
from palestra.core.seeds import derive
from palestra.core.tasks import Benchmark, tasks_of

Players: TypeAlias = Agent | Mapping[str, Agent]  # one agent, or one for each name of the environment
Agents: TypeAlias = Agent | Sequence[Agent] | Mapping[str, Players]


class Retry(Struct, frozen=True):
    """How often a failing episode is tried in all, and how long to wait before the second try (doubled each time).

    Only transient failures are repeated (a reply that is no JSON, say), unless `always`; a failure that the client of an
    endpoint has met several times already is final.
    """

    attempts: int = 3
    wait: float = 0.5  # seconds
    always: bool = False

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise BadInput("retry.attempts", self.attempts, "at least 1")
        if not self.wait >= 0:
            raise BadInput("retry.wait", self.wait, "seconds, at least 0")


class Limits(Struct, frozen=True):
    """What bounds one episode: budgets for it and for each agent in it, turns, loop detection."""

    episode: Budget | None = None
    agent: Budget | None = None
    max_steps: int = MAX_STEPS
    loops: LoopDetector | None = None
    seconds: float | None = None  # wall time of one try

    def __post_init__(self) -> None:
        if self.max_steps < 1:
            raise BadInput("max_steps", self.max_steps, "at least 1")
        if self.seconds is not None and not self.seconds > 0:
            raise BadInput("max_seconds", self.seconds, "more than 0 seconds")


class Job(Struct, frozen=True):
    """One episode to run: its place in the plan, and what it is."""

    index: int
    agent: str
    task: int
    seed: int


class Study:
    """Agents × tasks × seeds.

    Job `index` counts agents fastest, then tasks, then seeds; agents meet the same seeds, so results pair up.

    Args:
        name: unique in its run.
        agents: one agent, several (told apart by their names), or a mapping from title to an agent or to the agents
            of a team environment.
        tasks: a task, a benchmark, or a sequence of tasks.
        seeds: how many seeds, or which.
        root: seed of the study's tree.

    Raises:
        BadInput: nothing to run, or two agents of one name.
    """

    def __init__(
        self,
        name: str,
        *,
        agents: Agents,
        tasks: Task | Sequence[Task] | Benchmark,
        seeds: int | Sequence[int] = 1,
        root: int = 0,
        limits: Limits | None = None,
        retry: Retry | None = None,
    ) -> None:
        self.name, self.root = name, root
        self.agents = _named(agents)
        self.titles = list(self.agents)
        self.tasks = tasks_of(tasks)
        self.seeds = list(range(seeds)) if isinstance(seeds, int) else list(seeds)
        if not self.seeds or len(set(self.seeds)) != len(self.seeds):
            raise BadInput("seeds", seeds, "at least one seed, all different")
        for seed in self.seeds:
            if not isinstance(seed, int) or not -(2**63) <= seed < 2**63:  # pyright: ignore[reportUnnecessaryIsInstance]
                raise BadInput("seeds", seed, "whole numbers of at most 63 bits")
        self.limits = limits or Limits()
        self.retry = retry or Retry()

    def __len__(self) -> int:
        return len(self.titles) * len(self.tasks) * len(self.seeds)

    def job(self, index: int) -> Job:
        """The job at `index`."""
        rest, agent = divmod(index, len(self.titles))
        seed, task = divmod(rest, len(self.tasks))
        return Job(index, self.titles[agent], task, self.seeds[seed])

    def plan(self) -> dict[str, Any]:
        """What must be equal for episodes of an earlier execution to count."""
        ids, seen = blake2b(digest_size=8), set[str]()
        for task in self.tasks:
            if task.id in seen:
                raise BadInput("task", task.id, "tasks whose ids are different from each other")
            seen.add(task.id)
            ids.update(task.id.encode(errors="surrogatepass") + b"\x00")
        return {"agents": self.titles, "tasks": len(self.tasks), "task_ids": ids.hexdigest(), "seeds": self.seeds}

    def longest(self) -> float | None:
        """Wall seconds that one job may take in all, with every retry; None when nothing limits a try."""
        seconds, tries = self.limits.seconds, self.retry.attempts
        budget = self.limits.episode
        if budget is not None and budget.minutes is not None:
            seconds = min(seconds or 60 * budget.minutes, 60 * budget.minutes)
        return None if seconds is None else tries * seconds + self.retry.wait * (2 ** (tries - 1) - 1)

    async def play(self, job: Job, account: Account) -> Episode:
        """Run one job to its end, with retries; whatever happens is in the record.

        Raises:
            BudgetExceeded: the study's own budget is used up; then the episode does not count.
        """
        task = self.tasks[job.task]
        path = (self.name, task.id, job.seed)
        for attempt in range(1, self.retry.attempts + 1):
            episode = Episode(
                study=self.name,
                index=job.index,
                agent=job.agent,
                task=task.id,
                seed=job.seed,
                attempt=attempt,
                started=time.time(),
            )
            failure = await self._try(episode, task, account, seed=derive(self.root, *path), agent=job.agent)
            episode.seconds = time.time() - episode.started
            again = failure is not None and (self.retry.always or _worth_another_try(failure))
            if not again or attempt == self.retry.attempts:
                return episode
            await asyncio.sleep(self.retry.wait * 2 ** (attempt - 1))
        raise AssertionError("unreachable: the last attempt returns")

    async def _try(self, episode: Episode, task: Task, account: Account, *, seed: int, agent: str) -> Exception | None:
        own = Account("episode", budget=self.limits.episode, parent=account)
        recorder = Recorder(self.limits.agent)
        enter(Scope(account=own, recorder=recorder, agent=agent, seed=derive(seed, agent)))
        seconds = self._seconds(own)
        clock = asyncio.timeout(seconds)
        try:
            playing = rollout(
                self.agents[agent],
                task.env(),
                seed=seed,
                max_steps=self.limits.max_steps,
                loops=self.limits.loops,
                episode=episode,
            )
            if seconds is None:
                await playing
            else:
                async with clock:
                    await playing
            return None
        except BudgetExceeded:
            raise  # the study's: those of episodes and agents end the rollout in good order
        except TimeoutError as error:
            if seconds is None or not clock.expired():
                return _failed(episode, error)
            left = account.seconds_left()
            if left is not None and left <= 0:
                budget = account.budget.minutes if account.budget and account.budget.minutes else 0.0
                raise BudgetExceeded("study", "minutes", budget, budget) from None
            episode.status, episode.reason, episode.error = "failed", "timeout", f"no end after {seconds:.3g} s"
            return None
        except Exception as error:
            return _failed(episode, error)

    def _seconds(self, own: Account) -> float | None:
        left = own.seconds_left()
        if left is None or self.limits.seconds is None:
            return self.limits.seconds if left is None else left
        return min(left, self.limits.seconds)


def _worth_another_try(failure: Exception) -> bool:
    """Whether trying again may help: not when the model's own client has tried several times already."""
    return getattr(failure, "transient", False) and not getattr(failure, "retries", 0)


def _failed(episode: Episode, error: Exception) -> Exception:
    episode.status, episode.reason = "failed", "error"
    line = f"{type(error).__name__}: {error}"
    expected = isinstance(error, PalestraError)
    episode.error = line if expected else "".join(traceback.format_exception(error)).strip()
    return error


def _named(agents: Agents) -> dict[str, Players]:
    if isinstance(agents, Mapping):
        named = dict(agents)
        for title, players in named.items():
            for player in players.values() if isinstance(players, Mapping) else [players]:
                if not isinstance(title, str) or not isinstance(player, Agent):  # pyright: ignore
                    raise BadInput(f"agents[{title!r}]", player, "an object with a name and `async act(observation)`")
    else:
        several = list(agents) if isinstance(agents, Sequence) else [agents]
        named: dict[str, Players] = {}
        for agent in several:
            if not isinstance(agent, Agent):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise BadInput("agent", agent, "an object with a name and `async act(observation)`")
            if agent.name in named:
                raise BadInput("agents", agent.name, "agents with different names (or a mapping of titles to agents)")
            named[agent.name] = agent
    if not named:
        raise BadInput("agents", agents, "at least one agent")
    return named
