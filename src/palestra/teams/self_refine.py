"""Self-Refine: one model generates, criticises and refines its own answer (Madaan et al. 2023)."""

from __future__ import annotations

from palestra.core.errors import BadInput
from palestra.core.protocols import Agent, LanguageModel
from palestra.core.records import Action, Message, Observation, Sampling
from palestra.core.scope import scope
from palestra.judges.answers import ending, extract, kind_of
from palestra.judges.fence import fence

DONE = "NO CHANGE NEEDED"


class SelfRefine:
    """Generate with `agent`, then feedback and refinement by `model`, up to `rounds` times: 2 calls each.

    Args:
        agent: gives the first answer.
        model: criticises and refines.
        rounds: how often, at least 1.
        sampling: of feedback and refinement.
        name: of the team.
    """

    def __init__(
        self,
        agent: Agent,
        model: LanguageModel,
        *,
        rounds: int = 1,
        sampling: Sampling | None = None,
        name: str = "self_refine",
    ) -> None:
        if rounds < 1:
            raise BadInput("rounds", rounds, "a whole number of at least 1")
        self.agent, self.model, self.rounds, self.sampling, self.name = agent, model, rounds, sampling, name

    async def act(self, observation: Observation) -> Action:
        """The refined answer; `info["answers"]` are all versions, oldest first."""
        kind = kind_of(observation)
        with scope(stage="generate"):
            first = await self.agent.act(observation)
        reply: str = first.info.get("reply") or first.text
        answers: list[str | None] = [first.text or None]
        calls, feedback = first.info.get("calls", 1), ""
        for number in range(1, self.rounds + 1):
            shown = f"Question:\n{fence(observation.text)}\n\nA solution:\n{fence(reply)}\n\n"
            ask = f"Check each step and say what is wrong and how to mend it. If nothing is wrong, write {DONE}."
            feedback = await self._say(shown + ask, observation, f"feedback {number}")
            calls += 1
            if DONE in feedback.upper():
                break
            ask = f"Feedback on it:\n{fence(feedback)}\n\nWrite an improved solution. {ending(kind)}".strip()
            reply = await self._say(shown + ask, observation, f"refine {number}")
            calls += 1
            answers.append(extract(reply, kind))
        info = {"answers": answers, "reply": reply, "process": feedback, "answer": answers[-1], "calls": calls}
        return Action(text=answers[-1] or "", info=info)

    async def _say(self, prompt: str, observation: Observation, stage: str) -> str:
        with scope(role=stage.split()[0], stage=stage):
            return (await self.model.complete([prompt_of(prompt, observation)], sampling=self.sampling)).text


def prompt_of(prompt: str, observation: Observation) -> Message:
    """A user message with the question's images."""
    from palestra.core.records import Text

    return Message("user", (*observation.images, Text(prompt)) if observation.images else prompt)
