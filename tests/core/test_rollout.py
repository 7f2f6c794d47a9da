"""One episode from reset to end: who acts when, why it ends, what is recorded, and what breaks the contract."""

import asyncio
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from palestra.core import (
    Account,
    Action,
    Budget,
    Episode,
    LoopDetector,
    Observation,
    Recorder,
    Scope,
    current,
    enter,
    rollout,
    scope,
)
from palestra.core.errors import BadInput, BudgetExceeded, EnvironmentFault
from palestra.models.model import Model
from palestra.models.scripted import Scripted

MODEL = Model(Scripted(lambda request: "said"), name="scripted")


class Walk:
    """A corridor for one agent: `length` steps, a reward of 1 each."""

    agents: tuple[str, ...] = ("walker",)

    def __init__(self, length: int, *, cut: bool = False) -> None:
        self.length, self.cut, self.at, self.closed = length, cut, 0, 0

    async def reset(self, seed: int) -> Any:
        self.seed = seed
        return Observation(text="start")

    async def step(self, actions: Mapping[str, Action]) -> Any:
        self.at += 1
        end = self.at >= self.length
        return Observation(
            text=f"at {self.at}", reward=1.0, terminated=end and not self.cut, truncated=end and self.cut
        )

    def metrics(self) -> dict[str, float]:
        assert not self.closed, "metrics are read while the environment is open"
        return {"at": self.at}

    def output(self) -> Any:
        return {"seed": self.seed}

    def close(self) -> None:
        self.closed += 1


class Goes:
    name = "goes"

    async def act(self, observation: Observation) -> Action:
        return Action(text="go")


class Asks:
    """Asks the model once a turn."""

    def __init__(self, name: str = "asks") -> None:
        self.name = name

    async def act(self, observation: Observation) -> Action:
        return Action(text=(await MODEL.complete(observation.text or "?")).text)


async def test_an_episode_is_recorded_step_by_step() -> None:
    env = Walk(3)
    episode = await rollout(Goes(), env, seed=4)
    assert [(s.index, s.agent, s.observation, s.action, s.reward) for s in episode.steps] == [
        (0, "walker", "start", "go", 1.0),
        (1, "walker", "at 1", "go", 1.0),
        (2, "walker", "at 2", "go", 1.0),
    ]
    assert (episode.reason, episode.reward, episode.score, episode.metrics) == ("terminated", 3.0, 3.0, {"at": 3.0})
    assert episode.output == {"seed": 4}
    assert env.closed == 1


@pytest.mark.parametrize(
    ("env", "max_steps", "reason", "steps"),
    [
        (Walk(3), 3, "terminated", 3),
        (Walk(3), 4, "terminated", 3),
        (Walk(4), 3, "max_steps", 3),
        (Walk(3, cut=True), 9, "truncated", 3),
    ],
)
async def test_why_an_episode_ends(env: Walk, max_steps: int, reason: str, steps: int) -> None:
    episode = await rollout(Goes(), env, max_steps=max_steps)
    assert (episode.reason, len(episode.steps), env.closed) == (reason, steps, 1)


async def test_the_calls_and_their_cost_are_in_the_record() -> None:
    episode = await rollout(Asks(), Walk(2))
    assert [(call.agent, call.step, call.messages[0].text) for call in episode.calls] == [
        ("walker", 0, "start"),
        ("walker", 1, "at 1"),
    ]
    assert episode.usage.calls == 2
    assert episode.usage.tokens == sum(call.usage.tokens for call in episode.calls) > 0


async def test_the_seed_decides_the_seeds_of_calls() -> None:
    async def seeds(seed: int) -> list[int | None]:
        return [call.seed for call in (await rollout(Asks(), Walk(3), seed=seed)).calls]

    assert await seeds(1) == await seeds(1) != await seeds(2)


async def test_a_rollout_inside_an_episode_is_part_of_its_cost() -> None:
    class Plans:
        name = "plans"

        async def act(self, observation: Observation) -> Action:
            self.inner = await rollout(Asks(), Walk(2), seed=1)
            return Action(text="done")

    agent = Plans()
    outer = await rollout(agent, Walk(1))
    assert agent.inner.usage.calls == outer.usage.calls == 2
    assert len(agent.inner.steps) == 2
    assert len(outer.steps) == 1


class Duel:
    """Two agents move at the same time; the higher number wins."""

    agents = ("red", "blue")

    async def reset(self, seed: int) -> Any:
        return {name: Observation(text=f"{name}, move") for name in self.agents}

    async def step(self, actions: Mapping[str, Action]) -> Any:
        best = max(action.value for action in actions.values())
        return {n: Observation(reward=float(a.value == best), terminated=True) for n, a in actions.items()}


class Bids:
    def __init__(self, value: int) -> None:
        self.name, self.value = f"bids {value}", value

    async def act(self, observation: Observation) -> Action:
        return Action(value=self.value)


async def test_two_agents_act_at_the_same_time() -> None:
    met = asyncio.Barrier(2)

    class Meets(Bids):
        async def act(self, observation: Observation) -> Action:
            await asyncio.wait_for(met.wait(), 1)
            return await super().act(observation)

    episode = await rollout({"red": Meets(3), "blue": Meets(5)}, Duel())
    assert {(step.agent, step.action, step.reward) for step in episode.steps} == {("red", "3", 0.0), ("blue", "5", 1.0)}
    assert episode.reward == 0.5
    assert episode.agent == "bids 3+bids 5"


async def test_one_agent_may_play_every_part() -> None:
    assert [step.agent for step in (await rollout(Bids(1), Duel())).steps] == ["red", "blue"]


async def test_turns_are_taken_one_after_the_other() -> None:
    class Nim:
        """Take 1 from a heap of 3 in turn; whoever takes the last one wins."""

        agents = ("first", "second")

        async def reset(self, seed: int) -> Any:
            self.left = 3
            return {"first": Observation(text="3 left")}

        async def step(self, actions: Mapping[str, Action]) -> Any:
            ((name, _),) = actions.items()
            self.left -= 1
            if self.left == 0:
                return {n: Observation(reward=1.0 if n == name else -1.0, terminated=True) for n in self.agents}
            return {self.agents[(3 - self.left) % 2]: Observation(text=f"{self.left} left")}

    episode = await rollout({"first": Goes(), "second": Goes()}, Nim())
    assert [(s.agent, s.observation) for s in episode.steps] == [
        ("first", "3 left"), ("second", "2 left"), ("first", "1 left"),
    ]  # fmt: skip
    assert episode.steps[-1].reward == 1.0
    assert episode.reward == 0.0


async def test_an_agent_with_a_memory_gets_a_fresh_one_for_each_episode() -> None:
    class Remembers(Goes):
        def __init__(self, seed: int | None = None) -> None:
            self.seed, self.seen = seed, 0

        def fresh(self, seed: int) -> "Remembers":
            made.append(Remembers(seed))
            return made[-1]

        async def act(self, observation: Observation) -> Action:
            self.seen += 1
            return Action(text="go")

    made: list[Remembers] = []
    agent = Remembers()
    for seed in (1, 1, 2):
        await rollout(agent, Walk(2), seed=seed)
    assert agent.seen == 0
    assert [one.seen for one in made] == [2, 2, 2]
    assert made[0].seed == made[1].seed != made[2].seed


async def test_an_agent_that_repeats_itself_is_stopped() -> None:
    class Stuck(Walk):
        async def step(self, actions: Mapping[str, Action]) -> Any:
            self.at += 1
            return Observation(text="a wall", reward=1.0)

    env = Stuck(99)
    episode = await rollout(Goes(), env, loops=LoopDetector(period=2, repeats=3))
    assert (episode.status, episode.reason, len(episode.steps), env.closed) == ("done", "loop", 4, 1)
    assert episode.reward == 4.0
    assert "repeated 3 times" in (episode.error or "")
    assert (await rollout(Goes(), Stuck(99), max_steps=50)).reason == "max_steps"


async def _within(budget: Budget | None, agent: Any, env: Any, *, level: str = "episode") -> Episode:
    enter(Scope(account=Account(level, budget=budget), recorder=Recorder()))
    record = Episode(study="s", index=0, agent="a", task="t", seed=0)
    return await rollout(agent, env, episode=record)


async def test_a_budget_that_runs_out_ends_the_episode_in_good_order() -> None:
    env = Walk(9)
    episode = await _within(Budget(calls=4), Asks(), env)
    assert (episode.status, episode.reason, len(episode.steps), episode.usage.calls) == ("done", "budget", 4, 4)
    assert (episode.metrics, episode.reward, env.closed) == ({"at": 4.0}, 4.0, 1)


async def test_the_budget_of_the_whole_study_is_not_the_episodes_affair() -> None:
    env = Walk(9)
    with pytest.raises(BudgetExceeded, match="study"):
        await _within(Budget(calls=4), Asks(), env, level="study")
    assert env.closed == 1


class Panel:
    """A team that asks several models in a task group, which wraps what they raise."""

    name = "panel"

    async def act(self, observation: Observation) -> Action:
        async with asyncio.TaskGroup() as group:
            for number in range(3):
                group.create_task(self._one(number))
        return Action(text="go")

    async def _one(self, number: int) -> None:
        with scope(agent=f"member {number}"):
            await MODEL.complete("x")


async def test_a_budget_that_runs_out_inside_a_task_group_is_still_a_budget() -> None:
    assert (await _within(Budget(calls=4), Panel(), Walk(9))).reason == "budget"
    with pytest.raises(BudgetExceeded, match="study"):
        await _within(Budget(calls=4), Panel(), Walk(9), level="study")


async def test_a_failure_inside_a_task_group_is_told_as_it_is() -> None:
    class Fails(Panel):
        async def _one(self, number: int) -> None:
            raise KeyError(number)

    with pytest.raises(KeyError):
        await rollout(Fails(), Walk(2))


async def test_when_one_of_several_agents_fails_the_others_are_stopped() -> None:
    ended = []

    class Slow(Bids):
        async def act(self, observation: Observation) -> Action:
            try:
                await asyncio.sleep(60)
            finally:
                ended.append("slow")
            return Action()

    class Fails(Bids):
        async def act(self, observation: Observation) -> Action:
            raise ValueError("no idea")

    with pytest.raises(ValueError, match="no idea"):
        await rollout({"red": Slow(1), "blue": Fails(2)}, Duel())
    assert ended == ["slow"]


class Broken(Walk):
    """Breaks the contract as it is told."""

    def __init__(self, *, first: Any = Observation(), then: Any = None, agents: tuple[str, ...] = ("walker",)) -> None:
        super().__init__(9)
        self.first, self.then, self.agents = first, then, agents

    async def reset(self, seed: int) -> Any:
        self.seed = seed
        return self.first

    async def step(self, actions: Mapping[str, Action]) -> Any:
        return self.then


@pytest.mark.parametrize(
    ("env", "words"),
    [
        (Broken(then={"stranger": Observation()}), "observation for 'stranger', who is not among"),
        (Broken(agents=("a", "b")), "one observation for 2 agents"),
        (Broken(then=None), "must return observations, not None"),
        (Broken(first="hello"), "must return observations, not 'hello'"),
        (Broken(then={"walker": "hello"}), "must return observations, not 'hello' for 'walker'"),
        (Broken(agents=()), "names no agents"),
    ],
)
async def test_an_environment_that_breaks_the_contract_is_named(env: Broken, words: str) -> None:
    with pytest.raises(EnvironmentFault, match=words):
        await rollout(Goes(), env)
    assert env.closed == 1


@pytest.mark.parametrize("metrics", [{"score": "high"}, 3, {"score": None}])
async def test_metrics_are_numbers_by_name(metrics: Any) -> None:
    class Odd(Walk):
        def metrics(self) -> Any:
            return metrics

    env = Odd(1)
    with pytest.raises(EnvironmentFault, match="numbers by name"):
        await rollout(Goes(), env)
    assert env.closed == 1


async def test_numbers_of_numpy_become_plain_numbers() -> None:
    class Arrays(Walk):
        async def step(self, actions: Mapping[str, Action]) -> Any:
            return Observation(reward=np.float32(0.5), terminated=True)  # type: ignore[arg-type]

        def metrics(self) -> Any:
            return {"score": np.float64(0.25), "hit": np.bool_(True)}

    episode = await rollout(Goes(), Arrays(1))
    assert (episode.metrics, episode.score, episode.reward) == ({"score": 0.25, "hit": 1.0}, 0.25, 0.5)
    assert {type(value) for value in (episode.score, episode.reward, episode.steps[0].reward)} == {float}


async def test_an_agent_must_return_an_action() -> None:
    class Talks(Goes):
        async def act(self, observation: Observation) -> Any:
            return "go"

    with pytest.raises(BadInput, match="an Action from agent 'goes'"):
        await rollout(Talks(), Walk(1))


async def test_every_part_needs_an_agent() -> None:
    with pytest.raises(BadInput, match="an agent for each of red, blue"):
        await rollout({"red": Bids(1)}, Duel())


async def test_the_environment_is_closed_when_the_episode_is_cancelled() -> None:
    class Hangs(Walk):
        async def step(self, actions: Mapping[str, Action]) -> Any:
            await asyncio.sleep(60)

        async def close(self) -> None:  # type: ignore[override]
            await asyncio.sleep(0)
            self.closed += 1

    env = Hangs(1)
    task = asyncio.create_task(rollout(Goes(), env))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert env.closed == 1


async def test_the_scope_is_as_before_when_a_rollout_ends() -> None:
    await rollout(Asks(), Walk(1))
    assert current().agent == ""
    assert current().recorder is not current().recorder
