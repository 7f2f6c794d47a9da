"""An error model of debaters with blind spots: each method is good at its own class of problems, weak at the others.

It shows the mechanism of DMAD (diverse methods bring different right processes to the table) without a language model.
`simulate` is vectorised; `SimulatedReasoner` is the same model as an agent, so that the real `teams.Debate` runs it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

import numpy as np
from msgspec import Struct

from palestra.core.errors import BadInput
from palestra.core.records import Action, Observation
from palestra.core.seeds import derive
from palestra.core.tasks import Benchmark, Item
from palestra.teams.debater import History, Share, Turn

LETTERS = "ABCDEFG"


class Blindspots(Struct, frozen=True):
    """The error model.

    Attributes:
        own: probability that a method solves a problem of its own class.
        other: the same for the other classes.
        convert: a wrong debater who reads at least one right peer becomes right with this probability.
        adopt: a right debater who reads at least one wrong peer takes the first such answer with this probability.
        wrong: number of wrong options.
        classes: number of problem classes (and of methods).

    In a round a debater draws once, not once for each peer.
    """

    own: float = 0.9
    other: float = 0.3
    convert: float = 0.6
    adopt: float = 0.2
    wrong: int = 3
    classes: int = 3

    def __post_init__(self) -> None:
        for name in ("own", "other", "convert", "adopt"):
            if not 0 <= getattr(self, name) <= 1:
                raise BadInput(name, getattr(self, name), "a probability from 0 to 1")
        if not 1 <= self.wrong < len(LETTERS):
            raise BadInput("wrong", self.wrong, f"a number from 1 to {len(LETTERS) - 1}")
        if self.classes < 1:
            raise BadInput("classes", self.classes, "at least 1")


def simulate(
    methods: Sequence[int],
    *,
    rng: np.random.Generator,
    problems: int = 2000,
    rounds: int = 3,
    model: Blindspots | None = None,
) -> np.ndarray:
    """Whether the majority decision is right: bool array, shape (rounds, problems). Ties are drawn.

    Args:
        methods: the class that each debater's method is good at.
        rng: the randomness.
        problems: how many, of uniformly drawn classes.
        rounds: N, at least 1.
        model: the error model.

    >>> simulate([0, 1, 2], rng=np.random.default_rng(0), problems=20_000).mean(axis=1).round(2).tolist()
    [0.57, 0.78, 0.82]
    """
    model = model or Blindspots()
    skill = np.asarray(methods)
    if skill.size < 2 or skill.min() < 0 or skill.max() >= model.classes:
        raise BadInput("methods", list(methods), f"at least two classes from 0 to {model.classes - 1}")
    if rounds < 1 or problems < 1:
        raise BadInput("rounds", (rounds, problems), "at least 1 round and 1 problem")
    kind = rng.integers(model.classes, size=(problems, 1))
    chance = np.where(kind == skill, model.own, model.other)
    mistakes = rng.integers(1, model.wrong + 1, size=chance.shape)
    answers = np.where(rng.random(chance.shape) < chance, 0, mistakes)  # 0 is right, 1 … wrong are the mistakes
    decided = [_majority(answers, model.wrong, rng)]
    for _ in range(rounds - 1):
        answers = _exchange(answers, model, rng)
        decided.append(_majority(answers, model.wrong, rng))
    return np.stack(decided)


def _exchange(answers: np.ndarray, model: Blindspots, rng: np.random.Generator) -> np.ndarray:
    """One round: everybody reads the answers of the round before."""
    updated = answers.copy()
    draw = rng.random(answers.shape)
    for place in range(answers.shape[1]):
        mine, peers = answers[:, place], np.delete(answers, place, axis=1)
        mended = (mine != 0) & (peers == 0).any(axis=1) & (draw[:, place] < model.convert)
        misled = (mine == 0) & (peers != 0).any(axis=1) & (draw[:, place] < model.adopt)
        first_wrong = np.take_along_axis(peers, (peers != 0).argmax(axis=1)[:, None], axis=1)[:, 0]
        updated[:, place] = np.where(mended, 0, np.where(misled, first_wrong, mine))
    return updated


def _majority(answers: np.ndarray, wrong: int, rng: np.random.Generator) -> np.ndarray:
    votes = (answers[:, :, None] == np.arange(wrong + 1)).sum(axis=1)
    return (votes + rng.random(votes.shape)).argmax(axis=1) == 0  # a fraction below 1 breaks ties evenly


class Problem(Struct, frozen=True):
    """What the error model knows of a problem: its class, the right letter, all letters."""

    kind: int
    right: str
    letters: str


def problems(n: int, *, seed: int = 0, model: Blindspots | None = None) -> tuple[Benchmark, dict[str, Problem]]:
    """`n` problems as a benchmark, and the key by question text, which only simulated debaters are given."""
    model = model or Blindspots()
    letters = LETTERS[: model.wrong + 1]
    key: dict[str, Problem] = {}
    items: list[Item] = []
    for number in range(n):
        rng = Random(derive(seed, "problem", number))
        question = f"Problem {number} of {n}, seed {seed}"
        key[question] = Problem(rng.randrange(model.classes), rng.choice(letters), letters)
        items.append(Item(str(number), question, key[question].right, legal=tuple(letters), info={"kind": "option"}))
    return Benchmark("blindspots", items, scorer=_right), key


def _right(item: Item, action: Action) -> float:
    return float(action.text == item.answer)


class SimulatedReasoner:
    """A debater of the error model: knows the key, errs as `Blindspots` says, draws from its seed.

    Args:
        skill: the class of problems that its method is good at.
        key: what the model knows of each question; see `problems`.
        name: of the debater.
        model: the error model.
        seed: of its draws; `fresh` sets it for each episode.
    """

    planned_calls = 0

    def __init__(
        self, skill: int, key: Mapping[str, Problem], *, name: str | None = None, model: Blindspots | None = None,
        seed: int = 0,
    ) -> None:  # fmt: skip
        self.skill, self.key, self.model, self.seed = skill, key, model or Blindspots(), seed
        self.method = f"method-{skill}"
        self.name = name or self.method

    def fresh(self, seed: int) -> SimulatedReasoner:
        """The same debater with another seed."""
        return SimulatedReasoner(self.skill, self.key, name=self.name, model=self.model, seed=seed)

    def named(self, name: str) -> SimulatedReasoner:
        """The same debater under another name."""
        return SimulatedReasoner(self.skill, self.key, name=name, model=self.model, seed=self.seed)

    async def act(self, observation: Observation) -> Action:
        """Answer alone."""
        turn = await self.respond(observation)
        return Action(text=turn.answer or "", info={"method": self.method, "answer": turn.answer, "calls": 0})

    async def respond(
        self,
        question: Observation,
        *,
        own: Sequence[Turn] = (),
        peers: Sequence[Turn] = (),
        history: History = "as_sent",
        share: Share = "process",
    ) -> Turn:
        """The first answer by skill; later ones by what the peers said."""
        problem = self.key.get(question.text)
        if problem is None:
            raise BadInput("question", question.text, "a question of the key")
        rng = Random(derive(self.seed, question.text, len(own)))
        if not own:
            answer = self._first(problem, rng)
        else:
            answer = own[-1].answer
            draw = rng.random()
            said = [peer.answer for peer in peers]
            wrong = [one for one in said if one != problem.right]
            if answer != problem.right and problem.right in said and draw < self.model.convert:
                answer = problem.right
            elif answer == problem.right and wrong and draw < self.model.adopt:
                answer = wrong[0]
        return Turn(self.name, self.method, answer, process=f"By {self.method}: {answer}")

    def _first(self, problem: Problem, rng: Random) -> str:
        if rng.random() < (self.model.own if problem.kind == self.skill else self.model.other):
            return problem.right
        return rng.choice([letter for letter in problem.letters if letter != problem.right])
