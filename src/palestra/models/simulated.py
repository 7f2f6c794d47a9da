"""A simulated model of stated skill: right with a given probability on each class of question, to check mechanisms.

It knows the questions it may be asked, recognises the one in the prompt, and draws its answer from the request's seed.
What it shows is how a system behaves at that skill, never what a real model can do: its evidence is "simulated model".
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct

from palestra.core.errors import BadInput, ModelError
from palestra.core.records import Completion, Message, Usage
from palestra.core.seeds import derive
from palestra.core.tasks import Benchmark, Item
from palestra.models.engine import Request

NEAR = (-10, -2, -1, 1, 2, 10)  # distances of wrong answers from a right number
CHARACTERS_A_TOKEN = 4


class Known(Struct, frozen=True):
    """A question the model may be asked: its class, the right answer, wrong ones."""

    kind: str
    right: str
    wrong: tuple[str, ...]


class Simulated:
    """An engine of stated skill.

    Args:
        table: question text to what is known of it.
        skill: probability of the right answer by class of question; wrong answers are uniform over the wrong ones.
        form: how an answer is put into words.

    The answer depends on the question and the request's seed alone.

    >>> items = [Item("a", "7 + 5 = ?", "12"), Item("b", "Capital of France?", "Paris", legal=("Paris", "Rome"))]
    >>> engine = Simulated.for_items(items, skill=1.0)
    >>> engine.answer("Think first. Capital of France?", seed=3)
    'Paris'
    >>> sorted({Simulated.for_items(items, skill=0.0).answer("7 + 5 = ?", seed=seed) for seed in range(99)})
    ['10', '11', '13', '14', '2', '22']
    """

    name = "simulated"

    def __init__(self, table: Mapping[str, Known], skill: Mapping[str, float], *, form: str = "{answer}") -> None:
        if not table:
            raise BadInput("items", list(table), "at least one question")
        for kind, probability in skill.items():
            if not 0 <= probability <= 1:
                raise BadInput(f"skill of {kind}", probability, "a probability from 0 to 1")
        for question, known in table.items():
            if known.kind not in skill:
                raise BadInput("class", known.kind, f"a class with a skill: {', '.join(skill)}", choices=skill)
            if not known.wrong and skill[known.kind] < 1:
                raise BadInput("item", question, "wrong answers: `legal` options, info['wrong'], or a number")
        if "{answer}" not in form:
            raise BadInput("form", form, "a text with {answer} in it")
        self.table, self.skill, self.form = dict(table), dict(skill), form

    @classmethod
    def for_items(
        cls,
        items: Benchmark | Iterable[Item],
        *,
        skill: float | Mapping[str, float],
        kind: Callable[[Item], str] | str = "class",
        form: str = "{answer}",
    ) -> Simulated:
        """The simulated model that knows `items`.

        Args:
            items: a benchmark or items. Wrong answers are the other `legal` ones, or `info["wrong"]`, or numbers near
                the right one.
            skill: probability of the right answer, for all or by class.
            kind: the class of an item: a function, or the key of its `info` (an item without it is of class "").
            form: how an answer is put into words.
        """
        found = items.items if isinstance(items, Benchmark) else list(items)
        table: dict[str, Known] = {}
        for item in found:
            of = kind(item) if callable(kind) else str(item.info.get(kind, ""))
            right = _text(item.answer)
            known = Known(of, right, _wrong(item, right))
            if table.setdefault(item.question, known) != known:
                raise BadInput("question", item.question, "one answer for each question text")
        by_class = skill if isinstance(skill, Mapping) else {known.kind: skill for known in table.values()}
        return cls(table, by_class, form=form)

    def answer(self, prompt: str, *, seed: int) -> str:
        """The answer to the question in `prompt`: the one that ends last, the longest of those.

        Raises:
            ModelError: no known question is in the prompt.
        """
        question = self.recognise(prompt)
        if question is None:
            raise ModelError(f"the simulated model knows no question in {prompt[-80:]!r}")
        known = self.table[question]
        dice = random.Random(derive(seed, "simulated", question))
        if dice.random() < self.skill[known.kind]:
            return known.right
        return dice.choice(known.wrong)

    async def complete(self, request: Request) -> Completion:
        """The answer, in words; usage is one token for every four characters, rounded up."""
        texts = [message.text for message in request.messages if message.role == "user"]
        asked = next((text for text in reversed(texts) if self.recognise(text) is not None), texts[-1] if texts else "")
        answer = self.answer(asked, seed=request.sampling.seed or 0)
        said = self.form.replace("{answer}", answer)
        tokens = sum(len(message.text) for message in request.messages)
        usage = Usage(1, -(-tokens // CHARACTERS_A_TOKEN), -(-len(said) // CHARACTERS_A_TOKEN))
        return Completion(Message("assistant", said), usage, "stop", request.model, self.name)

    def recognise(self, prompt: str) -> str | None:
        """The known question in `prompt` that ends last, the longest of those; None when there is none."""
        if prompt in self.table:
            return prompt
        starts = ((prompt.rfind(question), question) for question in self.table)
        found = [(start + len(question), len(question), question) for start, question in starts if start >= 0]
        return max(found)[2] if found else None


def read_skill(text: str) -> float | dict[str, float]:
    """The skill in `simulated:0.7` or `simulated:algebra=0.9,logic=0.4`.

    >>> read_skill("0.7"), read_skill("algebra=0.9,logic=0.4")
    (0.7, {'algebra': 0.9, 'logic': 0.4})
    """
    try:
        if "=" not in text:
            return float(text)
        pairs = (part.rsplit("=", 1) for part in text.split(","))
        return {name.strip(): float(value) for name, value in pairs}
    except ValueError:
        raise BadInput("model", f"simulated:{text}", "simulated:0.7 or simulated:class=0.9,other=0.4") from None


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _wrong(item: Item, right: str) -> tuple[str, ...]:
    if item.legal is not None:
        given = item.legal
    elif "wrong" in item.info:
        given = tuple(_text(value) for value in item.info["wrong"])
    else:
        given = _near(right)
    return tuple(dict.fromkeys(answer for answer in given if answer != right))


def _near(right: str) -> tuple[str, ...]:
    try:
        return tuple(str(int(right) + step) for step in NEAR)
    except ValueError:
        pass
    try:
        return tuple(f"{float(right) + step:g}" for step in NEAR)
    except ValueError:
        return ()
