"""One episode: agents act in an environment from reset to end, and everything they did is recorded.

The loop is the same for one agent or many: each turn the environment shows an observation to the agents that act next,
they act at the same time, and the environment takes their actions together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from inspect import isawaitable
from typing import Any

import msgspec

from palestra.core.errors import BadInput, BudgetExceeded, EnvironmentFault, LoopDetected, cause_of
from palestra.core.loops import LoopDetector
from palestra.core.protocols import Agent, Environment, Frame
from palestra.core.records import Action, Episode, Observation, Step
from palestra.core.scope import Recorder, Scope, current, enter, scope
from palestra.core.seeds import derive
from palestra.core.tasks import AGENT

MAX_STEPS = 1000
_encoder = msgspec.json.Encoder(enc_hook=repr)


async def rollout(
    agents: Agent | Mapping[str, Agent],
    env: Environment,
    *,
    seed: int = 0,
    max_steps: int = MAX_STEPS,
    loops: LoopDetector | None = None,
    episode: Episode | None = None,
) -> Episode:
    """Play one episode.

    Args:
        agents: the agent (for every name of the environment), or one for each name.
        env: a fresh environment.
        seed: of the environment and of agents that have `fresh(seed)`.
        max_steps: turns after which the episode is cut with reason `max_steps`.
        loops: stops an agent that repeats itself, with reason `loop`; None allows it.
        episode: the record to fill, of the scope's recorder; when None a new one is made, with a scope of its own.

    Returns:
        The episode. A budget that runs out ends it with reason `budget`.

    Raises:
        BadInput: an agent is missing for a name of the environment.
        EnvironmentFault: the environment broke its contract.
        BudgetExceeded: the budget of the whole study is used up.
        Exception: whatever an agent or the environment raised.
    """
    if episode is not None:
        return await _fill(episode, current().recorder, agents, env, seed=seed, max_steps=max_steps, loops=loops)
    outer = current()
    recorder = Recorder(outer.recorder.agent_budget)
    recorder.accounts = outer.recorder.accounts
    inner = Scope(
        account=outer.account,
        recorder=recorder,
        agent=outer.agent,
        role=outer.role,
        stage=outer.stage,
        seed=derive(outer.seed, "rollout", seed),
    )
    episode = Episode(study="", index=0, agent=_title(agents), task="", seed=seed)
    before = enter(inner)
    try:
        return await _fill(episode, recorder, agents, env, seed=seed, max_steps=max_steps, loops=loops)
    finally:
        enter(before)
        outer.recorder.calls.extend(recorder.calls)  # a rollout inside an episode is part of that episode's cost


async def _fill(
    record: Episode,
    recorder: Recorder,
    agents: Agent | Mapping[str, Agent],
    env: Environment,
    *,
    seed: int,
    max_steps: int,
    loops: LoopDetector | None,
) -> Episode:
    record.steps, record.calls = recorder.steps, recorder.calls
    try:
        rewards = await _play(agents, env, record, recorder, seed=seed, max_steps=max_steps, loops=loops)
        record.reward = float(sum(rewards.values()) / len(rewards))
        _measure(env, record)
    finally:
        for call in recorder.calls:
            record.usage.add(call.usage)
        if (close := getattr(env, "close", None)) is not None:
            closing = close()
            if isawaitable(closing):
                await closing
    return record


async def _play(
    agents: Agent | Mapping[str, Agent],
    env: Environment,
    record: Episode,
    recorder: Recorder,
    *,
    seed: int,
    max_steps: int,
    loops: LoopDetector | None,
) -> dict[str, float]:
    """Turn by turn to the end, whose reason goes into `record`; returns the sum of rewards of each agent."""
    names = tuple(env.agents)
    if not names:
        raise EnvironmentFault("the environment names no agents")
    players = _players(agents, names, seed)
    rewards = dict.fromkeys(names, 0.0)
    watch = {name: LoopDetector(period=loops.period, repeats=loops.repeats) for name in names} if loops else {}
    try:
        frame = _frame(await env.reset(seed), names)
        acting = {name: seen for name, seen in frame.items() if not (seen.terminated or seen.truncated)}
        turn = 0
        while acting and turn < max_steps:
            recorder.step = turn
            actions = await _act(players, acting)
            frame = _frame(await env.step(actions), names)
            for name, action in actions.items():
                after = frame.get(name)
                reward = after.reward if after is not None else 0.0
                text = action.text or _show(action)
                recorder.steps.append(Step(turn, name, acting[name].text, text, float(reward), action.info))
            for name, seen in frame.items():
                rewards[name] += seen.reward
            for name, detector in watch.items():
                if name in actions:
                    detector.see(acting[name].text, actions[name].text or _show(actions[name]))
            acting = {name: seen for name, seen in frame.items() if not (seen.terminated or seen.truncated)}
            turn += 1
        if acting:
            record.reason = "max_steps"
        else:
            record.reason = "truncated" if any(seen.truncated for seen in frame.values()) else "terminated"
    except (BudgetExceeded, LoopDetected, BaseExceptionGroup) as stop:
        cause = cause_of(stop) if isinstance(stop, BaseExceptionGroup) else stop  # pyright: ignore
        if isinstance(cause, LoopDetected):
            record.reason, record.error = "loop", str(cause)
        elif isinstance(cause, BudgetExceeded) and cause.level != "study":
            record.reason, record.error = "budget", str(cause)
        elif cause is stop:  # the study's: the episode was cut by its siblings' spending, so it does not count
            raise
        else:
            raise cause from stop
    return rewards


def _measure(env: Environment, record: Episode) -> None:
    """Take over what the environment says of the episode."""
    if (metrics := getattr(env, "metrics", None)) is not None:
        found: dict[str, Any] = metrics()
        try:
            record.metrics = {str(name): float(value) for name, value in found.items()}
        except (TypeError, ValueError, AttributeError):
            raise EnvironmentFault(f"metrics() must return numbers by name, not {found!r:.200}") from None
    if (output := getattr(env, "output", None)) is not None:
        record.output = output()
    record.score = record.metrics.get("score", record.reward)


async def _act(players: Mapping[str, Agent], acting: Mapping[str, Observation]) -> dict[str, Action]:
    if len(acting) == 1:
        ((name, seen),) = acting.items()
        return {name: await _one(name, players[name], seen)}
    async with asyncio.TaskGroup() as group:  # a failing agent cancels its siblings: the episode has failed
        tasks = {name: group.create_task(_one(name, players[name], seen)) for name, seen in acting.items()}
    return {name: task.result() for name, task in tasks.items()}


async def _one(name: str, player: Agent, seen: Observation) -> Action:
    with scope(agent=player.name if name == AGENT else name):
        action = await player.act(seen)
    if not isinstance(action, Action):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise BadInput("action", action, f"an Action from agent {player.name!r}")
    return action


def _players(agents: Agent | Mapping[str, Agent], names: tuple[str, ...], seed: int) -> dict[str, Agent]:
    if isinstance(agents, Mapping):
        for name in names:
            if name not in agents:
                raise BadInput("agents", list(agents), f"an agent for each of {', '.join(names)}")
        chosen = {name: agents[name] for name in names}
    else:
        chosen = dict.fromkeys(names, agents)
    return {
        name: agent.fresh(derive(seed, name)) if hasattr(agent, "fresh") else agent  # pyright: ignore
        for name, agent in chosen.items()
    }


def _title(agents: Agent | Mapping[str, Agent]) -> str:
    return "+".join(one.name for one in agents.values()) if isinstance(agents, Mapping) else agents.name


def _frame(frame: Frame, names: tuple[str, ...]) -> Mapping[str, Observation]:
    if isinstance(frame, Observation):
        if len(names) != 1:
            raise EnvironmentFault(f"one observation for {len(names)} agents: return one by each agent's name")
        return {names[0]: frame}
    if not isinstance(frame, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise EnvironmentFault(f"reset and step must return observations, not {frame!r:.100}")
    for name, seen in frame.items():
        if name not in names:
            raise EnvironmentFault(f"observation for {name!r}, who is not among the agents {list(names)}")
        if not isinstance(seen, Observation):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise EnvironmentFault(f"reset and step must return observations, not {seen!r:.100} for {name!r}")
    return frame


def _show(action: Action) -> str:
    shown: Any = [msgspec.to_builtins(call) for call in action.tool_calls] if action.tool_calls else action.value
    return "" if shown is None else _encoder.encode(shown).decode()
