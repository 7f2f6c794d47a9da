"""Runs without a recipe: a way to evaluate, and agents and tasks that say what they did."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from palestra.core import Action, Benchmark, Episode, Item, Observation, current
from palestra.models.model import Model
from palestra.models.scripted import Scripted
from palestra.runner import Run, Silent
from palestra.store import RunRow, Store


class Solver:
    """Asks the model once and says what it answers; counts how often it acted on each question."""

    def __init__(self, name: str = "solver", *, latency: float | Callable[[Any], float] = 0.0) -> None:
        self.name = name
        self.model = Model(Scripted(lambda request: request.messages[-1].text[-1], latency=latency), name="scripted")
        self.acted: list[str] = []

    async def act(self, observation: Observation) -> Action:
        self.acted.append(observation.text)
        return Action(text=(await self.model.complete(observation.text)).text)


def digits(count: int) -> Benchmark:
    """Questions 0 … count-1; the right answer is the last digit."""
    items = [Item(str(n), f"the last digit of {n}", str(n % 10)) for n in range(count)]
    return Benchmark("digits", items, scorer=lambda item, action: float(action.text == item.answer))


class Acknowledged(Silent):
    """Keeps the indices of acknowledged episodes, in order."""

    def __init__(self) -> None:
        self.indices: list[int] = []

    def episode(self, name: str, episode: Episode) -> None:
        self.indices.append(episode.index)


def start(store: Store, row: RunRow | None = None, **options: Any) -> Run:
    """A run to evaluate in; with `row`, another execution of an earlier one."""
    if row is None:
        row = store.begin(
            "test", scale="smoke", seed=options.pop("seed", 0), seeds=1, models={}, config={}, options={}, version="0"
        )
    return Run(store, row, models=lambda role: None, **options)


class Kit:
    """The above under one name, for tests to ask for."""

    Solver, Acknowledged = Solver, Acknowledged
    digits, start = staticmethod(digits), staticmethod(start)


@pytest.fixture
def kit() -> type[Kit]:
    return Kit


@pytest.fixture(autouse=True)
def _scope_is_left_as_found() -> Any:
    yield
    assert asyncio.events._get_running_loop() is None
    assert current().agent == ""
