"""Self-Contrast: several perspectives, their contrast, a checklist, a revision (Zhang et al. 2024)."""

from __future__ import annotations

import asyncio
import re

from palestra.core.errors import BadInput
from palestra.core.protocols import LanguageModel
from palestra.core.records import Action, Observation, Sampling
from palestra.core.scope import scope
from palestra.judges.answers import ending, extract, kind_of
from palestra.judges.fence import fence
from palestra.teams.self_refine import prompt_of

_SPARE = ("work forwards from what is given", "work backwards from what is asked", "check small or extreme cases")


class SelfContrast:
    """One model: 1 call for perspectives, one solution each, then contrast, checklist and revision: perspectives + 4.

    Args:
        model: the language model.
        perspectives: how many solutions to contrast, at least 2.
        sampling: how to draw replies.
        name: of the team.
    """

    def __init__(
        self,
        model: LanguageModel,
        *,
        perspectives: int = 3,
        sampling: Sampling | None = None,
        name: str = "self_contrast",
    ) -> None:
        if perspectives < 2:
            raise BadInput("perspectives", perspectives, "at least 2")
        self.model, self.perspectives, self.sampling, self.name = model, perspectives, sampling, name

    async def act(self, observation: Observation) -> Action:
        """The revised answer; `info["answers"]` are those of the perspectives, then the revised one."""
        kind, count = kind_of(observation), self.perspectives
        question = f"Question:\n{fence(observation.text)}\n\n"
        listing = await self._say(
            f"{question}Name {count} different ways to approach it, one a line, numbered. Do not solve it.",
            observation,
            "perspectives",
        )
        ways = [
            found[1].strip() for found in re.finditer(r"^\s*(?:\d+[.):]|[-*])\s*(.+)$", listing, flags=re.MULTILINE)
        ]
        ways = [*ways, *(_SPARE[number % len(_SPARE)] for number in range(count))][:count]
        solutions = await asyncio.gather(
            *(
                self._say(
                    f"{question}Solve it in this way: {way}. {ending(kind)}".strip(), observation, f"solve {place}"
                )
                for place, way in enumerate(ways, 1)
            )
        )
        shown = "\n\n".join(f"Solution {place}:\n{fence(text)}" for place, text in enumerate(solutions, 1))
        contrast = await self._say(
            f"{question}{shown}\n\nCompare the solutions: where do they differ, and what makes them differ?",
            observation,
            "contrast",
        )
        checklist = await self._say(
            f"{question}Differences found:\n{fence(contrast)}\n\nWrite a checklist to find out which are errors.",
            observation,
            "checklist",
        )
        revised = await self._say(
            f"{question}{shown}\n\nChecklist:\n{fence(checklist)}\n\n"
            f"Go through the checklist and write one revised solution. {ending(kind)}".strip(),
            observation,
            "revise",
        )
        answers = [extract(text, kind) for text in (*solutions, revised)]
        info = {
            "perspectives": ways,
            "answers": answers,
            "answer": answers[-1],
            "process": checklist,
            "reply": revised,
            "calls": count + 4,
        }
        return Action(text=answers[-1] or "", info=info)

    async def _say(self, prompt: str, observation: Observation, stage: str) -> str:
        with scope(role=stage.split()[0], stage=stage):
            return (await self.model.complete([prompt_of(prompt, observation)], sampling=self.sampling)).text
