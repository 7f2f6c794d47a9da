"""What a prefix cache saves in a debate: the same debate with one cache slot a debater, and re-prompting from scratch.

With `history="as_sent"` every prompt of a debater begins with all it sent and received before, so a slot of its own
has read that part already; only the new messages are evaluated. Decoding is not saved: long answers dilute the gain.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from msgspec import Struct

from palestra.agents.methods import Example
from palestra.agents.reasoner import Reasoner
from palestra.core.errors import BadInput
from palestra.core.records import Observation, Sampling
from palestra.core.scope import Recorder, Scope, current, enter
from palestra.models.model import Model
from palestra.teams.debate import Debate
from palestra.teams.debater import History
from palestra.teams.mad import MAD


class Cost(Struct, frozen=True):
    """One mode's cost. `evaluated`: prompt tokens that the cache did not serve. Seconds are of the first run."""

    prompt: int
    evaluated: int
    written: int
    wall: float
    cpu: float
    texts: tuple[str, ...]
    repeats: bool | None  # whether a second run wrote the same texts; None: not run twice


class Comparison(Struct, frozen=True):
    """The cached debate against the naive one."""

    cached: Cost
    naive: Cost

    @property
    def tokens(self) -> float:
        """Prompt tokens evaluated with the cache, as a share of those without."""
        return self.cached.evaluated / self.naive.evaluated

    @property
    def speedup(self) -> float:
        """Wall time without the cache over wall time with it."""
        return self.naive.wall / self.cached.wall

    @property
    def cpu_speedup(self) -> float:
        """The same in processor seconds of this process, which other load on the machine disturbs less."""
        return self.naive.cpu / self.cached.cpu

    @property
    def equal(self) -> float:
        """Share of replies that are the same text in both modes (batch shapes change last bits, so 1 is not sure)."""
        pairs = list(zip(self.cached.texts, self.naive.texts, strict=True))
        return sum(a == b for a, b in pairs) / len(pairs)


async def compare_prefix_cache(
    make_model: Callable[[bool], Model],
    *,
    questions: Sequence[str],
    tokens: int = 32,
    n: int = 3,
    rounds: int = 3,
    method: str = "cot",
    examples: Sequence[Example] = (),
    history: History = "as_sent",
    twice: bool = True,
) -> Comparison:
    """Debate with greedy replies in both modes, each mode from a cold start.

    Args:
        make_model: an in-process model, with (True) or without (False) prompt cache, one slot a debater.
        questions: what is debated, one debate each.
        tokens: limit of each reply.
        n, rounds, method: of the debate; a method of one call makes n x rounds calls.
        examples: worked examples that every prompt begins with, as the debaters in question have them.
        history: `plain` shows what the cache loses when the history is rewritten.
        twice: run each mode twice and compare the texts.

    >>> from palestra.models import Scripted
    >>> model = Model(Scripted(), name="echo")
    >>> found = asyncio.run(compare_prefix_cache(lambda cached: model, questions=["1 + 1?"]))
    >>> found.equal, found.tokens, found.cached.repeats
    (1.0, 1.0, True)
    """
    if not questions or tokens < 1:
        raise BadInput("questions", list(questions), "at least one question, and at least 1 token")
    costs: list[Cost] = []
    for cached in (True, False):
        runs = [
            await _debate(
                make_model(cached),
                questions,
                lambda model: MAD(
                    Reasoner(model, method, sampling=Sampling(temperature=0.0, max_tokens=tokens), examples=examples),
                    n=n,
                    rounds=rounds,
                    history=history,
                ),
            )
            for _ in range(1 + twice)
        ]
        costs.append(runs[0] if not twice else _with_repeat(runs[0], runs[1]))
    return Comparison(*costs)


async def _debate(model: Model, questions: Sequence[str], make_team: Callable[[Model], Debate]) -> Cost:
    """One cold run of all debates, one after the other."""
    close = getattr(model.engine, "close", None)
    if close is not None:
        close()  # the next call loads the model again, with empty slots
    recorder, outer = Recorder(), current()

    async def work() -> tuple[float, float]:
        enter(Scope(account=outer.account, recorder=recorder, agent=outer.agent, seed=outer.seed))
        await model.complete(".", sampling=Sampling(temperature=0.0, max_tokens=1))  # loading is not part of the time
        recorder.calls.clear()
        wall, cpu = time.perf_counter(), time.process_time()
        for question in questions:
            await make_team(model).act(Observation(text=question, info={"kind": "number"}))
        return time.perf_counter() - wall, time.process_time() - cpu

    wall, cpu = await asyncio.create_task(work())  # a task of its own: the scope ends with it
    outer.recorder.calls.extend(recorder.calls)  # recorded with whatever asked for the measurement
    if close is not None:
        close()
    calls = sorted(recorder.calls, key=lambda call: (call.stage, call.agent))
    prompt = sum(call.usage.input_tokens for call in calls)
    return Cost(
        prompt=prompt,
        evaluated=prompt - sum(call.usage.cached_tokens for call in calls),
        written=sum(call.usage.output_tokens for call in calls),
        wall=wall,
        cpu=cpu,
        texts=tuple(call.reply.text if call.reply else "" for call in calls),
        repeats=None,
    )


def _with_repeat(first: Cost, second: Cost) -> Cost:
    from msgspec import structs

    return structs.replace(first, repeats=first.texts == second.texts)
