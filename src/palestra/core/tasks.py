"""Tasks: what a study is run on. A benchmark item is a one-step environment with a scorer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from inspect import isawaitable
from typing import Any, TypeAlias, overload

from msgspec import Struct

from palestra.core.errors import BadInput, EnvironmentFault
from palestra.core.protocols import Environment, Task
from palestra.core.records import JSON, Action, Image, Observation

AGENT = "agent"  # the name of the only agent of a one-step environment


class Item(Struct, frozen=True, omit_defaults=True):
    """A question with its right answer; `legal` lists the allowed answers of a multiple choice."""

    id: str
    question: str
    answer: Any = None
    legal: tuple[str, ...] | None = None
    images: tuple[Image, ...] = ()
    info: JSON = {}


Scores: TypeAlias = float | dict[str, float]
Scorer: TypeAlias = Callable[[Item, Action], Scores | Awaitable[Scores]]


class Benchmark:
    """A named sequence of items with the scorer that says how good an answer is.

    The scorer returns one number (the score) or several by name, of which `score` is the main one.

    >>> sums = Benchmark("sums", [Item("1+1", "1+1=", "2")], scorer=lambda item, act: float(act.text == item.answer))
    >>> len(sums), sums[0].id
    (1, 'sums/1+1')
    """

    def __init__(self, name: str, items: Sequence[Item], *, scorer: Scorer) -> None:
        self.name, self.items, self.scorer = name, items, scorer
        ids = [item.id for item in items]
        if len(set(ids)) != len(ids):
            seen: set[str] = set()
            twice = next(one for one in ids if one in seen or seen.add(one))
            raise BadInput("item id", twice, "ids that are different from each other")

    def __len__(self) -> int:
        return len(self.items)

    @overload
    def __getitem__(self, index: int) -> ItemTask: ...
    @overload
    def __getitem__(self, index: slice) -> Benchmark: ...
    def __getitem__(self, index: int | slice) -> ItemTask | Benchmark:
        if isinstance(index, slice):
            return Benchmark(self.name, self.items[index], scorer=self.scorer)
        return ItemTask(self, self.items[index])

    def __iter__(self) -> Iterator[ItemTask]:
        return (ItemTask(self, item) for item in self.items)

    def __repr__(self) -> str:
        return f"Benchmark({self.name!r}, {len(self.items)} items)"


class ItemTask:
    """One item of a benchmark as a task."""

    __slots__ = ("benchmark", "id", "item")

    def __init__(self, benchmark: Benchmark, item: Item) -> None:
        self.benchmark, self.item = benchmark, item
        self.id = f"{benchmark.name}/{item.id}"

    def env(self) -> Question:
        """A fresh one-step environment for the item."""
        return Question(self.item, self.benchmark.scorer)


class Question:
    """A one-step environment: shows an item, scores the answer, ends."""

    __slots__ = ("_answer", "_scores", "item", "scorer")
    agents = (AGENT,)

    def __init__(self, item: Item, scorer: Scorer) -> None:
        self.item, self.scorer = item, scorer
        self._scores: dict[str, float] = {}
        self._answer: Any = None

    async def reset(self, seed: int) -> Observation:
        """Show the question; `seed` changes nothing."""
        item = self.item
        return Observation(text=item.question, images=item.images, legal=item.legal, info=item.info)

    async def step(self, actions: Mapping[str, Action]) -> Observation:
        """Score the answer; the reward is the score."""
        action = actions[AGENT]
        scores = self.scorer(self.item, action)
        if isawaitable(scores):
            scores = await scores
        self._scores = scores if isinstance(scores, dict) else {"score": float(scores)}
        if "score" not in self._scores:
            raise EnvironmentFault(
                f"the scorer of item {self.item.id!r} returned no 'score', only {list(self._scores)}"
            )
        self._answer = action.text if action.value is None else action.value
        return Observation(reward=self._scores["score"], terminated=True)

    def metrics(self) -> dict[str, float]:
        """The scorer's numbers by name."""
        return self._scores

    def output(self) -> Any:
        """The answer given, for later analysis."""
        return self._answer


class EnvironmentTask:
    """A task made from any function that returns a fresh environment."""

    def __init__(self, id: str, make: Callable[[], Environment]) -> None:
        self.id, self._make = id, make

    def env(self) -> Environment:
        """A fresh environment."""
        return self._make()


def tasks_of(source: Task | Sequence[Task] | Benchmark) -> Sequence[Task]:
    """`source` as a sequence of tasks.

    Raises:
        BadInput: it is none, or it is empty.
    """
    found = [source] if isinstance(source, Task) else source
    kinds = "a Task, a Benchmark, or a sequence of tasks"
    if isinstance(found, Mapping) or not hasattr(found, "__len__") or not hasattr(found, "__getitem__"):
        raise BadInput("task", source, kinds)
    if len(found) == 0:
        raise BadInput("task", source, "at least one task")
    if not isinstance(found[0], Task):  # pyright: ignore
        raise BadInput("task", found[0], kinds)
    return found  # pyright: ignore[reportReturnType]
