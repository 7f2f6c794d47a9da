"""A study is a plan of numbered jobs, the same on every machine; one job is played with retries to a record."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palestra.core import Account, Action, Budget, EnvironmentTask, Observation
from palestra.core.errors import BadInput, BudgetExceeded, Unreachable
from palestra.runner import Limits, Retry, Study


class Does:
    """Runs what it is given as its only action."""

    def __init__(self, do: Any, name: str = "does") -> None:
        self.do, self.name, self.times = do, name, 0

    async def act(self, observation: Observation) -> Action:
        self.times += 1
        return Action(text=str(await self.do()))


async def _ok() -> str:
    return "ok"


def _study(agent: Any, *, tasks: Any, **options: Any) -> Study:
    return Study("s", agents=agent, tasks=tasks, **options)


@given(st.integers(1, 4), st.integers(1, 5), st.integers(1, 4))
def test_jobs_count_agents_then_tasks_then_seeds(agents: int, tasks: int, seeds: int) -> None:
    bench = [EnvironmentTask(f"t{n}", lambda: None) for n in range(tasks)]  # type: ignore[arg-type, return-value]
    study = _study([Does(_ok, f"a{n}") for n in range(agents)], tasks=bench, seeds=seeds)
    jobs = [study.job(index) for index in range(len(study))]
    assert [(job.index, job.agent, job.task, job.seed) for job in jobs] == [
        (s * tasks * agents + t * agents + a, f"a{a}", t, s)
        for s in range(seeds) for t in range(tasks) for a in range(agents)
    ]  # fmt: skip


async def test_agents_meet_the_same_environment_and_draw_differently(kit: Any) -> None:
    study = _study([kit.Solver("a"), kit.Solver("b")], tasks=kit.digits(1))
    one, two = [await study.play(study.job(index), Account("study")) for index in range(2)]
    assert one.seed == two.seed
    assert one.calls[0].seed != two.calls[0].seed
    again = await study.play(study.job(0), Account("study"))
    assert again.calls[0].seed == one.calls[0].seed


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"seeds": 0}, "at least one seed"),
        ({"seeds": [1, 1]}, "all different"),
        ({"seeds": [2**70]}, "at most 63 bits"),
        ({"seeds": "ab"}, "whole numbers"),
        ({"agents": []}, "at least one agent"),
        ({"agents": {}}, "at least one agent"),
        ({"agents": [3]}, "an object with a name"),
        ({"agents": {"x": 3}}, "an object with a name"),
        ({"agents": {"x": {"red": 3}}}, "an object with a name"),
        ({"agents": [Does(_ok), Does(_ok)]}, "different names"),
        ({"tasks": []}, "at least one task"),
    ],
)
def test_a_study_that_cannot_be_is_refused(kit: Any, change: dict[str, Any], words: str) -> None:
    values = {"agents": Does(_ok), "tasks": kit.digits(1), "seeds": 1} | change
    with pytest.raises(BadInput, match=words):
        Study("s", **values)


def test_two_tasks_of_one_id_are_refused(kit: Any) -> None:
    task = kit.digits(1)[0]
    with pytest.raises(BadInput, match="ids are different"):
        _study(Does(_ok), tasks=[task, task]).plan()


@pytest.mark.parametrize(
    "wrong", [lambda: Retry(0), lambda: Retry(wait=-1), lambda: Limits(max_steps=0), lambda: Limits(seconds=0)]
)
def test_limits_that_allow_nothing_are_refused(wrong: Any) -> None:
    with pytest.raises(BadInput):
        wrong()


async def _play(kit: Any, do: Any, **options: Any) -> Any:
    agent = Does(do)
    study = _study(agent, tasks=kit.digits(1), **options)
    return await study.play(study.job(0), Account("study")), agent


async def test_a_transient_failure_is_tried_again(kit: Any) -> None:
    left = [Unreachable("no route"), Unreachable("no route")]

    async def flaky() -> str:
        if left:
            raise left.pop()
        return "0"

    episode, agent = await _play(kit, flaky, retry=Retry(attempts=3, wait=0.001))
    assert (episode.status, episode.attempt, agent.times, episode.score, len(episode.steps)) == ("done", 3, 3, 1.0, 1)


async def test_a_transient_failure_inside_a_task_group_is_tried_again(kit: Any) -> None:
    async def flaky() -> str:
        async def fail() -> None:
            raise Unreachable("no route")

        async with asyncio.TaskGroup() as group:
            group.create_task(fail())
        return ""

    episode, agent = await _play(kit, flaky, retry=Retry(attempts=2, wait=0.001))
    assert (episode.status, episode.error, agent.times) == ("failed", "Unreachable: no route", 2)


async def test_other_failures_are_not_tried_again_unless_always(kit: Any) -> None:
    async def wrong() -> str:
        raise ValueError("no idea")

    episode, agent = await _play(kit, wrong, retry=Retry(attempts=3, wait=0.001))
    assert (episode.status, episode.reason, agent.times) == ("failed", "error", 1)
    assert "Traceback" in episode.error
    assert episode.error.endswith("ValueError: no idea")
    episode, agent = await _play(kit, wrong, retry=Retry(attempts=3, wait=0.001, always=True))
    assert (episode.attempt, agent.times) == (3, 3)


async def test_waits_double(kit: Any) -> None:
    async def gone() -> str:
        raise Unreachable("gone")

    started = asyncio.get_running_loop().time()
    await _play(kit, gone, retry=Retry(attempts=3, wait=0.05))
    assert 0.15 <= asyncio.get_running_loop().time() - started < 1


async def test_an_episode_that_hangs_ends_by_its_wall_limit(kit: Any) -> None:
    async def hangs() -> str:
        await asyncio.sleep(60)
        return ""

    episode, agent = await _play(kit, hangs, limits=Limits(seconds=0.05))
    assert (episode.status, episode.reason, episode.error, agent.times) == (
        "failed",
        "timeout",
        "no end after 0.05 s",
        1,
    )


async def test_a_timeout_of_the_agents_own_is_its_failure(kit: Any) -> None:
    async def slow() -> str:
        async with asyncio.timeout(0.01):
            await asyncio.sleep(60)
        return ""

    episode, _ = await _play(kit, slow, limits=Limits(seconds=30))
    assert (episode.reason, episode.error.endswith("TimeoutError")) == ("error", True)


async def test_the_minutes_of_the_study_end_it(kit: Any) -> None:
    async def hangs() -> str:
        await asyncio.sleep(60)
        return ""

    study = _study(Does(hangs), tasks=kit.digits(1))
    with pytest.raises(BudgetExceeded, match=r"study budget of 0.001 minutes"):
        await study.play(study.job(0), Account("study", budget=Budget(minutes=0.001)))


async def test_budgets_of_episode_and_agent_end_the_episode_only(kit: Any) -> None:
    for limits in (Limits(episode=Budget(calls=0)), Limits(agent=Budget(calls=0))):
        study = _study(kit.Solver(), tasks=kit.digits(1), limits=limits)
        episode = await study.play(study.job(0), Account("study"))
        assert (episode.status, episode.reason, episode.steps) == ("done", "budget", [])


async def test_a_task_that_cannot_make_its_environment_is_a_failed_episode(kit: Any) -> None:
    def broken() -> Any:
        raise OSError("no map")

    study = _study(Does(_ok), tasks=EnvironmentTask("t", broken))
    episode = await study.play(study.job(0), Account("study"))
    assert (episode.status, episode.error.endswith("OSError: no map")) == ("failed", True)
