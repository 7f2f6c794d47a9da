"""Debate in simultaneous rounds (DMAD: Liu et al., ICLR 2025, Alg. 1): diverse methods, shared processes, a judge.

In round j every debater answers with its own method, having read all messages of round j-1, its own first. Nobody
sees a message of the running round. A debater starts its round as soon as the messages it reads are there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from palestra.core.errors import BadInput, cause_of
from palestra.core.protocols import Judge
from palestra.core.records import JSON, Action, Observation, Verdict
from palestra.core.scope import scope
from palestra.core.seeds import derive
from palestra.judges.answers import kind_of
from palestra.judges.equivalence import equivalent
from palestra.judges.majority import Majority
from palestra.teams.debater import HISTORIES, SHARES, Debater, History, Share, Turn


class Debate:
    """A team of debaters with a judge that decides every round.

    Args:
        agents: at least two debaters with different methods and names.
        rounds: N, at least 1. The first round is without messages.
        judge: decides among the answers of a round: `judges.majority()` for closed answers (the default),
            `judges.pick_best(model)` for open ones.
        history: how a debater sees its own earlier turns: `as_sent` keeps the conversation byte for byte, so that a
            prefix cache serves it; `plain` stores the plain question and "method + process + answer", as the
            reference does.
        share: what peers are shown: the whole `process`, or the `answer` only (an ablation).
        sync: True for simultaneous rounds; False lets a debater also read the messages that debaters before it
            already wrote in the running round (an ablation: sequential debate).
        sees: for each debater the indices of the peers it reads; None: all.
        early_stop: end after a round in which all answer the same; `Action.info` reports the calls saved.
        allow_duplicates: allow several debaters with one method (MAD).
        name: of the team.

    Raises:
        BadInput: one agent, repeated methods or names, rounds < 1, an unknown setting.
    """

    def __init__(
        self,
        agents: Sequence[Debater],
        *,
        rounds: int = 3,
        judge: Judge | None = None,
        history: History = "as_sent",
        share: Share = "process",
        sync: bool = True,
        sees: Sequence[Sequence[int]] | None = None,
        early_stop: bool = False,
        allow_duplicates: bool = False,
        name: str = "debate",
    ) -> None:
        self.agents = tuple(agents)
        if len(self.agents) < 2:
            raise BadInput("agents", [agent.name for agent in self.agents], "at least two debaters")
        methods = [agent.method for agent in self.agents]
        if not allow_duplicates and (again := _repeated(methods)):
            raise BadInput(
                "agents", methods, f"different methods ({again!r} is repeated; or set allow_duplicates=True)"
            )
        if again := _repeated([agent.name for agent in self.agents]):
            raise BadInput("agents", again, "a different name for each debater")
        if not isinstance(rounds, int) or rounds < 1:
            raise BadInput("rounds", rounds, "a whole number of at least 1")
        if history not in HISTORIES:
            raise BadInput("history", history, choices=HISTORIES)
        if share not in SHARES:
            raise BadInput("share", share, choices=SHARES)
        self.rounds, self.judge = rounds, judge or Majority()
        self.history: History = history
        self.share: Share = share
        self.sync, self.early_stop, self.name = sync, early_stop, name
        self.sees = _visibility(sees, len(self.agents))

    def __repr__(self) -> str:
        return f"Debate({[agent.name for agent in self.agents]}, rounds={self.rounds}, judge={self.judge.name!r})"

    def fresh(self, seed: int) -> Debate:
        """A copy for one episode: debaters and judge get seeds of their own below `seed`."""
        copy = Debate.__new__(Debate)
        copy.__dict__.update(self.__dict__)
        copy.agents = tuple(_fresh(agent, derive(seed, agent.name)) for agent in self.agents)
        copy.judge = _fresh(self.judge, derive(seed, "judge"))
        return copy

    async def act(self, observation: Observation) -> Action:
        """Debate the question and return the last round's decision.

        `Action.info` holds, by round: `answers`, `processes`, `decisions`, `verdicts`; and `contexts` (each debater's
        conversation in the stored form, two messages a round), `methods`, `agents`, `calls`, `calls_planned`,
        `rounds`, `consensus`.

        Raises:
            BadInput: the judge cannot judge this kind of answer.
            Exception: whatever a debater or the judge raised; the other debaters are cancelled.
        """
        kind = kind_of(observation)
        check_judge(self.judge, kind)
        table = await self._play(observation)
        decisions: list[str | None] = []
        verdicts: list[Verdict] = []
        for number, turns in enumerate(table, 1):
            candidates = [turn.reply or turn.answer if kind == "open" else turn.answer for turn in turns]
            with scope(agent=self.judge.name, role="judge", stage=f"round {number}"):
                verdict = await self.judge.judge(observation.text, candidates)
            verdicts.append(verdict)
            decisions.append(None if verdict.choice is None else turns[verdict.choice].answer)
        return Action(text=decisions[-1] or "", info=self._report(table, decisions, verdicts))

    async def _play(self, question: Observation) -> list[list[Turn]]:
        """The turns of all rounds, as a flow of data: a turn starts when the turns it reads are done."""
        size = len(self.agents)
        tasks: list[list[asyncio.Task[Turn | None]]] = []

        async def turn(number: int, place: int) -> Turn | None:
            before = tasks[number - 1] if number else []
            if number and self.early_stop:
                earlier = await asyncio.gather(*before)
                if any(one is None for one in earlier) or _consensus([one for one in earlier if one is not None]):
                    return None
            own = [await tasks[k][place] for k in range(number)]
            peers = [
                await (tasks[number] if not self.sync and peer < place else before)[peer]
                for peer in self.sees[place]
                if number or (not self.sync and peer < place)
            ]
            agent = self.agents[place]
            with scope(agent=agent.name, stage=f"round {number + 1}"):
                return await agent.respond(
                    question,
                    own=[one for one in own if one is not None],
                    peers=[one for one in peers if one is not None],
                    history=self.history,
                    share=self.share,
                )

        try:
            async with asyncio.TaskGroup() as group:
                for number in range(self.rounds):
                    row: list[asyncio.Task[Turn | None]] = []
                    tasks.append(row)
                    row.extend(group.create_task(turn(number, place)) for place in range(size))
        except BaseExceptionGroup as several:
            raise cause_of(several) from None
        done = [[task.result() for task in row] for row in tasks]
        return [[one for one in row if one is not None] for row in done if row[0] is not None]

    def _report(self, table: list[list[Turn]], decisions: list[str | None], verdicts: list[Verdict]) -> JSON:
        planned = self.rounds * sum(agent.planned_calls for agent in self.agents)
        return {
            "agents": [agent.name for agent in self.agents],
            "methods": [agent.method for agent in self.agents],
            "answers": [[turn.answer for turn in turns] for turns in table],
            "processes": [[turn.process for turn in turns] for turns in table],
            "errors": [[turn.error for turn in turns] for turns in table],
            "outputs": [[turn.output for turn in turns] for turns in table],
            "decisions": decisions,
            "verdicts": [{"reason": one.rationale, "index": one.choice, **one.scores} for one in verdicts],
            "contexts": [
                [{"role": message.role, "content": message.text} for turns in table for message in turns[place].plain]
                for place in range(len(self.agents))
            ],
            "rounds": len(table),
            "consensus": _consensus(table[-1]),
            "calls": sum(turn.calls for turns in table for turn in turns),
            "calls_planned": planned,
            "calls_saved": sum(agent.planned_calls for agent in self.agents) * (self.rounds - len(table)),
        }


def check_judge(judge: Judge, kind: str) -> None:
    """Raise `BadInput` when `judge` says which kinds of answer it can judge, and `kind` is not among them."""
    kinds = getattr(judge, "kinds", None)
    if kinds is not None and kind not in kinds:
        better = "judges.pick_best(model)" if kind == "open" else "judges.majority()"
        raise BadInput("judge", judge.name, f"a judge for {kind} answers, such as {better}")


def _consensus(turns: Sequence[Turn]) -> bool:
    first = turns[0].answer
    return first is not None and all(equivalent(turn.answer, first) for turn in turns[1:])


def _visibility(sees: Sequence[Sequence[int]] | None, size: int) -> tuple[tuple[int, ...], ...]:
    """For each debater the peers it reads, in order."""
    if sees is None:
        return tuple(tuple(peer for peer in range(size) if peer != place) for place in range(size))
    if len(sees) != size:
        raise BadInput("sees", sees, f"one list of peers for each of the {size} debaters")
    for place, peers in enumerate(sees):
        for peer in peers:
            if not 0 <= peer < size or peer == place:
                raise BadInput("sees", peer, f"indices of other debaters, 0 to {size - 1}")
    return tuple(tuple(peers) for peers in sees)


def _repeated(names: Sequence[str]) -> str | None:
    return next((name for place, name in enumerate(names) if name in names[:place]), None)


def _fresh(one: Any, seed: int) -> Any:
    return one.fresh(seed) if hasattr(one, "fresh") else one
