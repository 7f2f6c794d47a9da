"""One episode: agents act in an environment from reset to end, and everything they did is recorded.

The loop is the same for one agent or many: each turn the environment shows an observation to the agents that act next,
they act at the same time, and the environment takes their actions together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec

from palestra.core.errors import BadInput, BudgetExceeded, EnvironmentFault, LoopDetected
from palestra.core.loops import LoopDetector
from palestra.core.protocols import Agent, Environment, Frame
from palestra.core.records import Action, Episode, Observation, Step
from palestra.core.scope import Recorder, current, scope
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
        episode: the record to fill; a new one is made when None.

    Returns:
        The episode. A budget that runs out ends it with reason `budget`.

    Raises:
        BadInput: an agent is missing for a name of the environment.
        EnvironmentFault: the environment broke its contract.
        BudgetExceeded: the budget of the whole study is used up.
        Exception: whatever an agent or the environment raised.
    """
    record = episode or Episode(study="", index=0, agent=_title(agents), task="", seed=seed)
    recorder = current().recorder if episode is not None else Recorder()
    record.steps, record.calls = recorder.steps, recorder.calls
    players = _players(agents, env.agents, seed)
    rewards = dict.fromkeys(env.agents, 0.0)
    watch = {name: LoopDetector(period=loops.period, repeats=loops.repeats) for name in players} if loops else {}
    try:
        frame = _frame(await env.reset(seed), env)
        for turn in range(max_steps):
            acting = {name: seen for name, seen in frame.items() if not seen.done}
            if not acting:
                record.reason = "truncated" if any(seen.truncated for seen in frame.values()) else "terminated"
                break
            recorder.step = turn
            actions = await _act(players, acting)
            frame = _frame(await env.step(actions), env)
            for name, action in actions.items():
                after = frame.get(name)
                reward = after.reward if after is not None else 0.0
                text = action.text or _show(action)
                recorder.steps.append(Step(turn, name, acting[name].text, text, reward, action.info))
                if watch:
                    watch[name].see(acting[name].text, text)
            for name, seen in frame.items():
                rewards[name] += seen.reward
        else:
            record.reason = "max_steps"
    except BudgetExceeded as stop:
        if stop.level == "study":  # then the episode was cut by its siblings' spending: it does not count
            raise
        record.reason, record.error = "budget", str(stop)
    except LoopDetected as stop:
        record.reason, record.error = "loop", str(stop)
    finally:
        for call in recorder.calls:
            record.usage.add(call.usage)
        if (close := getattr(env, "close", None)) is not None:
            close()
    record.reward = sum(rewards.values()) / len(rewards)
    if (metrics := getattr(env, "metrics", None)) is not None:
        record.metrics = metrics()
    if (output := getattr(env, "output", None)) is not None:
        record.output = output()
    record.score = record.metrics.get("score", record.reward)
    return record


async def _act(players: Mapping[str, Agent], acting: Mapping[str, Observation]) -> dict[str, Action]:
    if len(acting) == 1:
        ((name, seen),) = acting.items()
        return {name: await _one(name, players[name], seen)}
    try:
        async with asyncio.TaskGroup() as group:  # a failing agent cancels its siblings: the episode has failed
            tasks = {name: group.create_task(_one(name, players[name], seen)) for name, seen in acting.items()}
    except BaseExceptionGroup as several:
        raise several.exceptions[0] from None
    return {name: task.result() for name, task in tasks.items()}


async def _one(name: str, player: Agent, seen: Observation) -> Action:
    with scope(agent=player.name if name == AGENT else name):
        return await player.act(seen)


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


def _frame(frame: Frame, env: Environment) -> Mapping[str, Observation]:
    if isinstance(frame, Observation):
        if len(env.agents) != 1:
            raise EnvironmentFault(f"one observation for {len(env.agents)} agents: return one by each agent's name")
        return {env.agents[0]: frame}
    for name in frame:
        if name not in env.agents:
            raise EnvironmentFault(f"observation for {name!r}, who is not among the agents {list(env.agents)}")
    return frame


def _show(action: Action) -> str:
    shown: Any = [msgspec.to_builtins(call) for call in action.tool_calls] if action.tool_calls else action.value
    return "" if shown is None else _encoder.encode(shown).decode()
