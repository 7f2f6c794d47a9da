"""Meta-reasoning prompting: the model reads the methods' descriptions and picks the one to use (Gao et al. 2024)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from palestra.core.errors import BadInput, BadReply
from palestra.core.protocols import Agent, LanguageModel
from palestra.core.records import Action, Observation, Sampling
from palestra.core.scope import scope
from palestra.core.seeds import derive
from palestra.judges.fence import fence
from palestra.teams.self_refine import prompt_of


class MRP:
    """One call picks among `agents`, then that agent answers.

    Args:
        model: picks.
        agents: the methods to choose from: agents, or a mapping from a description to an agent.
        seed: of the draw when the reply names no method.
        sampling: of the picking call.
        name: of the team.
    """

    def __init__(
        self,
        model: LanguageModel,
        agents: Sequence[Agent] | Mapping[str, Agent],
        *,
        seed: int = 0,
        sampling: Sampling | None = None,
        name: str = "mrp",
    ) -> None:
        self.agents = dict(agents) if isinstance(agents, Mapping) else {_describe(one): one for one in agents}
        if len(self.agents) < 2:
            raise BadInput("agents", list(self.agents), "at least two agents to choose from")
        self.model, self.seed, self.sampling, self.name = model, seed, sampling, name

    def fresh(self, seed: int) -> MRP:
        """A copy with another seed."""
        return MRP(self.model, self.agents, seed=seed, sampling=self.sampling, name=self.name)

    async def act(self, observation: Observation) -> Action:
        """The chosen agent's answer; `info["chosen"]` is its name, `info["drawn"]` whether it was drawn at random."""
        listed = "\n".join(f"{place}. {text}" for place, text in enumerate(self.agents, 1))
        prompt = (
            f"Question:\n{fence(observation.text)}\n\nWays to reason:\n{listed}\n\n"
            'Which one suits this question best? Reply with JSON: {"Reason": why, "Index": its number}.'
        )
        agents, drawn = list(self.agents.values()), False
        try:
            with scope(role="pick", stage="pick"):
                reply = await self.model.complete(
                    [prompt_of(prompt, observation)], schema=_schema(len(agents)), sampling=self.sampling
                )
            chosen = agents[int(reply.parsed["Index"]) - 1]
        except BadReply:
            chosen, drawn = Random(derive(self.seed, observation.text)).choice(agents), True
        with scope(agent=chosen.name, stage="answer"):
            action = await chosen.act(observation)
        info = {**action.info, "chosen": chosen.name, "drawn": drawn, "calls": 1 + action.info.get("calls", 1)}
        return Action(text=action.text, value=action.value, info=info)


def _describe(agent: Agent) -> str:
    how = getattr(agent, "how", None)
    return f"{agent.name}: {how.description}" if how is not None else agent.name


def _schema(count: int) -> dict[str, object]:
    return {
        "type": "object",
        "properties": {
            "Reason": {"type": "string", "maxLength": 200},
            "Index": {"type": "integer", "minimum": 1, "maximum": count},
        },
        "required": ["Reason", "Index"],
        "additionalProperties": False,
    }
