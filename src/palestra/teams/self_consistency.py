"""Self-consistency: several independent samples of one agent, decided by a judge (Wang et al. 2023)."""

from __future__ import annotations

import asyncio
from typing import Any

from palestra.core.errors import BadInput
from palestra.core.protocols import Agent, Judge
from palestra.core.records import Action, Observation
from palestra.core.scope import scope
from palestra.core.seeds import derive
from palestra.judges.answers import kind_of
from palestra.judges.majority import Majority
from palestra.teams.debate import check_judge


class SelfConsistency:
    """Asks one agent several times and lets a judge decide.

    Args:
        agent: who is asked; its sampling temperature should be above 0.
        samples: how often (the reference's "Consistency-num": 3).
        judge: `judges.majority()` when None.
        name: of the team.
    """

    def __init__(
        self, agent: Agent, *, samples: int = 3, judge: Judge | None = None, name: str = "self_consistency"
    ) -> None:
        if samples < 1:
            raise BadInput("samples", samples, "at least 1")
        self.agent, self.samples, self.judge, self.name = agent, samples, judge or Majority(), name

    def fresh(self, seed: int) -> SelfConsistency:
        """A copy whose judge draws ties from `seed`."""
        judge: Any = self.judge
        if hasattr(judge, "fresh"):
            judge = judge.fresh(derive(seed, "judge"))
        return SelfConsistency(self.agent, samples=self.samples, judge=judge, name=self.name)

    async def act(self, observation: Observation) -> Action:
        """The judge's choice; `info["answers"]` are the samples."""
        kind = kind_of(observation)
        check_judge(self.judge, kind)

        async def sample(number: int) -> Action:
            with scope(agent=f"{self.agent.name}-{number}", stage=f"sample {number}"):
                agent: Any = self.agent
                if hasattr(agent, "fresh"):
                    agent = agent.fresh(number)
                return await agent.act(observation)

        actions = await asyncio.gather(*(sample(number) for number in range(1, self.samples + 1)))
        answers = [action.text or None for action in actions]
        with scope(agent=self.judge.name, role="judge"):
            verdict = await self.judge.judge(observation.text, answers)
        chosen = None if verdict.choice is None else answers[verdict.choice]
        calls = sum(action.info.get("calls", 1) for action in actions)
        return Action(text=chosen or "", info={"answers": answers, "verdict": verdict.rationale, "calls": calls})
