"""The scope follows the work: calls are attributed to whoever made them, also when all run at once."""

import asyncio

import pytest

from palestra.core import Account, Budget, Recorder, Scope, current, enter, scope
from palestra.core.errors import BudgetExceeded
from palestra.models.model import Model
from palestra.models.scripted import Scripted


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


def _model(latency: float = 0.001) -> Model:
    return Model(Scripted(latency=latency), name="scripted")


async def _ask(model: Model, text: str, **names: str) -> None:
    with scope(**names):
        await asyncio.sleep(0)
        await model.complete(text)


async def test_calls_in_a_gather_keep_their_own_names(recorder: Recorder) -> None:
    enter(Scope(account=Account("episode"), recorder=recorder))
    model = _model()
    await asyncio.gather(*(_ask(model, f"{n}", agent=f"a{n}", role=f"r{n}", stage=f"s{n}") for n in range(50)))
    seen = {call.messages[0].text: (call.agent, call.role, call.stage) for call in recorder.calls}
    assert seen == {f"{n}": (f"a{n}", f"r{n}", f"s{n}") for n in range(50)}
    assert current().agent == ""


async def test_calls_in_a_task_group_keep_their_own_names(recorder: Recorder) -> None:
    enter(Scope(account=Account("episode"), recorder=recorder))
    model = _model()
    with scope(role="panel"):
        async with asyncio.TaskGroup() as group:
            for n in range(20):
                group.create_task(_ask(model, f"{n}", agent=f"a{n}"))
    assert {(call.messages[0].text, call.agent, call.role) for call in recorder.calls} == {
        (f"{n}", f"a{n}", "panel") for n in range(20)
    }


async def test_each_agent_has_its_own_budget(recorder: Recorder) -> None:
    recorder.agent_budget = Budget(calls=2)
    enter(Scope(account=Account("episode", budget=Budget(calls=5)), recorder=recorder))
    model = _model()
    for agent in ("a", "b"):
        for n in range(2):
            await _ask(model, f"{n}", agent=agent)
        with pytest.raises(BudgetExceeded, match=f"agent '{agent}' budget of 2 calls"):
            await _ask(model, "more", agent=agent)
    await _ask(model, "last", agent="c")
    with pytest.raises(BudgetExceeded, match="episode budget of 5 calls"):
        await _ask(model, "over", agent="c")


async def test_a_scope_may_have_a_budget_that_ends_with_it(recorder: Recorder) -> None:
    recorder.agent_budget = Budget(calls=10)
    enter(Scope(account=Account("episode"), recorder=recorder))
    model = _model()
    with scope(stage="search", budget=Budget(calls=2)):
        await _ask(model, "1", agent="a")
        await _ask(model, "2", agent="b")
        with pytest.raises(BudgetExceeded, match="scope 'search' budget of 2 calls"):
            await _ask(model, "3", agent="a")
    await _ask(model, "4", agent="a")
    with scope(stage="again", budget=Budget(calls=1)):
        await _ask(model, "5", agent="a")
        with pytest.raises(BudgetExceeded, match="scope 'again'"):
            await _ask(model, "6", agent="a")
    assert {name: account.used.calls for name, account in recorder.accounts.items()} == {"a": 3, "b": 1}


async def test_a_stage_called_study_does_not_pass_for_the_study(recorder: Recorder) -> None:
    enter(Scope(account=Account("episode"), recorder=recorder))
    with scope(stage="study", budget=Budget(calls=0)):
        with pytest.raises(BudgetExceeded) as caught:
            await _model().complete("x")
    assert caught.value.level != "study"


async def test_seeds_do_not_depend_on_the_order_of_calls() -> None:
    async def seeds(delays: list[float]) -> dict[str, int | None]:
        recorder = Recorder()
        enter(Scope(account=Account("episode"), recorder=recorder, seed=5))

        async def one(n: int) -> None:
            await asyncio.sleep(delays[n])
            await _ask(_model(0.0), f"{n}", agent=f"a{n % 3}")

        await asyncio.gather(*(one(n) for n in range(6)))
        return {call.messages[0].text: call.seed for call in recorder.calls}

    assert await seeds([0.0] * 6) == await seeds([0.01 * (6 - n) for n in range(6)])


async def test_the_same_request_again_gets_another_seed(recorder: Recorder) -> None:
    enter(Scope(account=Account("episode"), recorder=recorder, seed=5))
    model = _model(0.0)
    for _ in range(3):
        await model.complete("x")
    assert len({call.seed for call in recorder.calls}) == 3


def test_outside_any_episode_nothing_is_limited_and_nothing_kept() -> None:
    assert current().account.budget is None
    assert current().recorder is not current().recorder


def test_entering_says_where_one_was() -> None:
    here = Scope(account=Account("x"), recorder=Recorder())
    assert enter(here) is None
    assert enter(None) is here
