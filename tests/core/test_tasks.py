"""Tasks: a benchmark item is a one-step environment with a scorer."""

from typing import Any

import pytest

from palestra.core import Action, Benchmark, EnvironmentTask, Item, rollout, tasks_of
from palestra.core.errors import BadInput, EnvironmentFault

ITEMS = [Item("a", "1+1=", "2", legal=("2", "3")), Item("b", "2+2=", "4", info={"class": "sum"})]


class Says:
    name = "says"

    def __init__(self, text: str) -> None:
        self.text = text

    async def act(self, observation: Any) -> Action:
        self.seen = observation
        return Action(text=self.text)


def _exact(item: Item, action: Action) -> float:
    return float(action.text == item.answer)


def test_a_benchmark_is_a_sequence_of_tasks() -> None:
    bench = Benchmark("sums", ITEMS, scorer=_exact)
    assert [task.id for task in bench] == ["sums/a", "sums/b"]
    assert bench[1].id == "sums/b"
    assert len(bench[:1]) == 1
    assert bench[1:][0].id == "sums/b"
    assert repr(bench) == "Benchmark('sums', 2 items)"


def test_two_items_of_one_id_are_refused() -> None:
    with pytest.raises(BadInput, match="item id='a'"):
        Benchmark("sums", [*ITEMS, Item("a", "?")], scorer=_exact)


async def test_the_agent_sees_the_question_and_the_scorer_its_answer() -> None:
    agent = Says("2")
    episode = await rollout(agent, Benchmark("sums", ITEMS, scorer=_exact)[0].env())
    assert agent.seen.text == "1+1="
    assert agent.seen.legal == ("2", "3")
    assert (episode.score, episode.reward, episode.reason, episode.output) == (1.0, 1.0, "terminated", "2")
    assert episode.metrics == {"score": 1.0}


async def test_a_scorer_may_wait_and_give_several_numbers() -> None:
    async def judged(item: Item, action: Action) -> dict[str, float]:
        return {"score": 0.5, "length": len(action.text)}

    episode = await rollout(Says("four"), Benchmark("sums", ITEMS, scorer=judged)[1].env())
    assert (episode.score, episode.metrics) == (0.5, {"score": 0.5, "length": 4.0})


async def test_a_scorer_without_a_score_breaks_the_contract() -> None:
    with pytest.raises(EnvironmentFault, match="no 'score', only \\['length'\\]"):
        await rollout(Says("x"), Benchmark("sums", ITEMS, scorer=lambda item, action: {"length": 1.0})[0].env())


def test_an_environment_task_makes_a_fresh_one_each_time() -> None:
    task = EnvironmentTask("maze", lambda: Benchmark("sums", ITEMS, scorer=_exact)[0].env())
    assert task.env() is not task.env()
    assert list(tasks_of(task)) == [task]


@pytest.mark.parametrize("source", [3, "text", {}, {"a": 1}, [], [1], Benchmark("none", [], scorer=_exact)])
def test_what_is_no_task_is_refused(source: object) -> None:
    with pytest.raises(BadInput, match="task"):
        tasks_of(source)  # type: ignore[arg-type]
