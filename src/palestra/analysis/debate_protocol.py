"""The debate protocol checked on a scripted model whose every reply says who wrote it, in which round and call.

A reply that turns up in a prompt where it must not be is a leak; one that is absent where it must be is a loss.
"""

from __future__ import annotations

import asyncio

from msgspec import Struct

from palestra.agents.reasoner import Reasoner
from palestra.core.budget import Account
from palestra.core.records import Call, Observation
from palestra.core.scope import Recorder, Scope, current, enter
from palestra.models.engine import Request
from palestra.models.model import Model
from palestra.models.scripted import Scripted
from palestra.teams.debate import Debate

METHODS = ("cot", "step_back", "pot")


class Protocol(Struct, frozen=True):
    """What a debate did: model calls, prompts with a peer's message of the same round, prompts that miss one due."""

    calls: int
    leaks: int
    losses: int


async def check_protocol(*, rounds: int = 3) -> Protocol:
    """Debate once with CoT, step-back and PoT: 5 calls a round are due, no leak and no loss.

    >>> asyncio.run(check_protocol())
    Protocol(calls=15, leaks=0, losses=0)
    """
    recorder = Recorder()
    model = Model(Scripted(_signed), name="signing")

    async def work() -> None:
        enter(Scope(account=Account("protocol"), recorder=recorder))
        await Debate([Reasoner(model, method) for method in METHODS], rounds=rounds).act(
            Observation(text="What is 6 x 7?", info={"kind": "number"})
        )

    await asyncio.create_task(work())
    leaks = losses = 0
    for call in recorder.calls:
        leaked, lost = _compare(call, rounds)
        leaks, losses = leaks + leaked, losses + lost
    return Protocol(len(recorder.calls), leaks, losses)


def _signature(agent: str, number: int) -> str:
    return f"signed {agent} round {number}."


def _signed(request: Request) -> str:
    scope = current()
    signature = _signature(scope.agent, int(scope.stage.split()[-1]))
    if scope.agent == "pot" and scope.role == "process":
        return f"```python\nprint(42)  # {signature}\n```"
    return f"{signature} \\boxed{{42}}"


def _compare(call: Call, rounds: int) -> tuple[int, int]:
    """Leaked and lost messages of peers in the prompt of one call."""
    prompt = "\n".join(message.text for message in call.messages)
    now = int(call.stage.split()[-1])
    leaks = losses = 0
    for peer in METHODS:
        for number in range(1, rounds + 1):
            if peer != call.agent:
                heard = _signature(peer, number) in prompt
                leaks += heard and number >= now
                losses += not heard and number < now
    return leaks, losses
