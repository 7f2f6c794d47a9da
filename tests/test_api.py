"""The faces of the library: run a system, evaluate agents, resume, replay; a wrong value leaves nothing behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

import palestra
from palestra import api
from palestra.core import Action, Benchmark, Budget, Card, Item, PaperClaim, System
from palestra.core.errors import BadInput, BudgetExceeded, PalestraError, StoreError
from palestra.models.model import Model
from palestra.models.scripted import Scripted
from palestra.store import Reading, Store


def sums(count: int = 12) -> Benchmark:
    items = [Item(str(n), f"{n}+{n}=", str(n + n)) for n in range(count)]
    return Benchmark("sums", items, scorer=lambda item, action: float(action.text.endswith(item.answer)))


class Asks:
    """Asks its model once."""

    def __init__(self, model: Any, name: str = "asks", *, prefix: str = "") -> None:
        self.model, self.name, self.prefix = model, name, prefix

    async def act(self, observation: Any) -> Action:
        return Action(text=(await self.model.complete(self.prefix + observation.text)).text)


class Config(Struct):
    count: int = 12
    prefix: str = ""
    fail: bool = False
    path: str | None = None


CLAIM = "a statement so long that a careless notebook view would cut it off somewhere in the middle, <b>bold</b>"
CARD = Card("toy", "Toy", "A", "V", "games", "sum", (PaperClaim("gain", CLAIM, "5 % <up>"),), roles=("solver",))


async def toy(run: Any, config: Config) -> None:
    model = run.model("solver")
    plan = await model.complete("plan")
    if config.path == "bad":
        raise BadInput("path", config.path, "a file")
    result = await run.evaluate(Asks(model, prefix=config.prefix), sums(config.count))
    if config.fail:
        raise RuntimeError("the recipe broke")
    score = result.of("asks").score
    run.claim("gain", measured=score, holds=score > 0.5, evidence="simulated model", note=plan.text[:3])


SYSTEM = System(card=CARD, config=Config, run=toy, presets={"smoke": {"count": 4}})


@pytest.fixture(autouse=True)
def _toy_system(monkeypatch: pytest.MonkeyPatch) -> None:
    real = api.system
    monkeypatch.setattr(api, "system", lambda slug: SYSTEM if slug == "toy" else real(slug))


@pytest.fixture
def model() -> Model:
    """Says a number that depends on the seed of the request, so that a replay cannot be right by luck."""
    return Model(Scripted(lambda request: f"{request.sampling.seed} so {request.messages[-1].text}"), name="scripted")


def test_a_system_is_run_recorded_and_claimed(store: Store, model: Model) -> None:
    outcome = palestra.run("toy", model=model, store=store, scale="smoke", seed=5, set={"prefix": "q: "})
    assert (outcome.status, outcome.row.system, outcome.row.scale, outcome.row.seed) == ("done", "toy", "smoke", 5)
    assert (outcome.row.config, outcome.row.models) == (
        {"count": 4, "prefix": "q: ", "fail": False, "path": None},
        {"default": "scripted"},
    )
    (claim,) = outcome.claims
    assert (claim.name, claim.measured, claim.holds) == ("gain", 0.0, False)
    assert outcome.results()["main"].of("asks").episodes == 4
    assert len(outcome.reading.recipe_calls()) == 1


def test_an_outcome_prints_as_a_table_here_and_in_a_notebook(store: Store, model: Model) -> None:
    outcome = palestra.run("toy", model=model, store=store, scale="smoke")
    assert f"toy · smoke · run {outcome.id}" in repr(outcome)
    assert "does not hold" in repr(outcome)
    html = outcome._repr_html_()
    assert "somewhere in the middle, &lt;b&gt;bold&lt;/b&gt;" in html
    assert "<b>" not in html


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"slug": "toyy"}, "system='toyy'"),
        ({"scale": "lptop"}, "did you mean 'laptop'"),
        ({"seeds": 0}, "seeds=0 .* at least 1"),
        ({"seed": 2**64}, "at most 63 bits"),
        ({"set": {"coun": 3}}, "did you mean 'count'"),
        ({"set": {"count": "x"}}, "count='x'"),
        ({"model": "no-such-model"}, "no-such-model"),
        ({"model": 3}, "model=3"),
        ({"model": {"solver": "no-such-model"}}, "no-such-model"),
        ({"budget": "token=3"}, "did you mean 'tokens'"),
        ({"replay": "nothing"}, "run='nothing'"),
        ({"concurrency": 0}, "at least 1"),
        ({"processes": 0}, "at least 1"),
        ({"set": {"path": "bad"}}, "path='bad'"),
    ],
)
def test_a_wrong_value_leaves_nothing_behind(store: Store, model: Model, change: dict[str, Any], words: str) -> None:
    options = {"slug": "toy", "model": model, "store": store} | change
    with pytest.raises(PalestraError, match=words):
        palestra.run(**options)
    assert store.runs() == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"agents": 3}, "agent=3"),
        ({"task": "sums"}, "task="),
        ({"seeds": 0}, "at least one seed"),
        ({"seeds": [1, 1]}, "all different"),
        ({"seed": -(2**64)}, "at most 63 bits"),
        ({"budget": "usd=x"}, "a number"),
        ({"max_steps": 0}, "max_steps=0"),
        ({"resume": "nothing"}, "run='nothing'"),
    ],
)
def test_a_wrong_value_of_evaluate_leaves_nothing_behind(
    store: Store, model: Model, change: dict[str, Any], words: str
) -> None:
    options = {"agents": Asks(model), "task": sums(), "store": store} | change
    with pytest.raises(BadInput, match=words):
        palestra.evaluate(**options)
    assert store.runs() == []


def test_an_unknown_limit_is_told_and_leaves_nothing_behind(store: Store, model: Model) -> None:
    with pytest.raises(BadInput, match="did you mean 'max_steps'"):
        palestra.evaluate(Asks(model), sums(), store=store, max_step=3)
    assert store.runs() == []


def test_evaluate_says_how_each_agent_did(store: Store, model: Model) -> None:
    result = palestra.evaluate([Asks(model, "a"), Asks(model, "b")], sums(), seeds=2, store=store)
    assert {name: one.episodes for name, one in result.summary().items()} == {"a": 24, "b": 24}
    assert store.run().status == "done"


def test_the_default_store_is_the_environments(model: Model, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PALESTRA_STORE", str(tmp_path / "mine.db"))
    palestra.evaluate(Asks(model), sums(1))
    assert Store(tmp_path / "mine.db").run().status == "done"


@pytest.mark.parametrize(
    "call", [lambda: palestra.run("toy"), lambda: palestra.resume(), lambda: palestra.evaluate(1, 2)]
)
async def test_the_synchronous_face_says_what_to_do_inside_an_event_loop(call: Callable[[], Any]) -> None:
    with pytest.raises(
        BadInput, match=r"`await palestra\.a\w+\(\.\.\.\)` here, where an event loop is running"
    ) as caught:
        call()
    assert "coroutine" not in str(caught.value)


async def test_the_asynchronous_face_works_inside_an_event_loop(store: Store, model: Model) -> None:
    outcome = await palestra.arun("toy", model=model, store=store, scale="smoke")
    assert outcome.status == "done"
    several = await asyncio.gather(*(palestra.aevaluate(Asks(model), sums(5), store=store) for _ in range(4)))
    assert len({result.reading.fingerprint() for result in several}) == 1


def test_a_broken_recipe_is_recorded_and_its_episodes_stay(store: Store, model: Model) -> None:
    with pytest.raises(RuntimeError, match="the recipe broke"):
        palestra.run("toy", model="scripted", store=store, scale="smoke", set={"fail": True})
    run = store.run()
    assert (run.status, run.error) == ("failed", "RuntimeError('the recipe broke')")
    assert Reading(store, run).done(1) == [0, 1, 2, 3]


def test_a_stopped_run_is_resumed_with_its_settings(store: Store) -> None:
    with pytest.raises(BudgetExceeded) as caught:
        palestra.run("toy", model="scripted", store=store, budget="calls=6", set={"prefix": "p "}, concurrency=2)
    run = store.run()
    assert run.status == "stopped"
    assert caught.value.__notes__[0].startswith(f"go on with: palestra resume {run.id} --store ")
    assert len(Reading(store, run).done(1)) == 5, "and one call of the recipe"
    with pytest.raises(BudgetExceeded):
        palestra.resume(store=store)
    outcome = palestra.resume(run.id[:-1], store=store, budget=Budget(calls=100))
    assert (outcome.id, outcome.status, len(outcome.claims)) == (run.id, "done", 1)
    assert outcome.results()["main"].of("asks").episodes == 12
    whole = palestra.run("toy", model="scripted", store=store, set={"prefix": "p "})
    assert whole.reading.fingerprint() == outcome.reading.fingerprint()


def test_a_run_of_evaluate_is_resumed_by_calling_it_again(store: Store, model: Model) -> None:
    with pytest.raises(BudgetExceeded):
        palestra.evaluate(Asks(model), sums(), store=store, budget="calls=7", concurrency=1)
    run = store.run()
    with pytest.raises(BadInput, match=rf"evaluate\(..., resume='{run.id}'\)"):
        palestra.resume(run.id, store=store)
    with pytest.raises(BadInput, match="tasks, task_ids changed"):
        palestra.evaluate(Asks(model), sums(13), store=store, resume=run.id)
    result = palestra.evaluate(Asks(model), sums(), store=store, resume=run.id)
    assert result.of("asks").episodes == 12
    assert [one.id for one in store.runs()] == [run.id]
    whole = palestra.evaluate(Asks(model), sums(), store=store)
    assert whole.reading.fingerprint() == result.reading.fingerprint()


def test_the_run_of_a_system_is_not_resumed_by_evaluate(store: Store, model: Model) -> None:
    outcome = palestra.run("toy", model=model, store=store, scale="smoke")
    with pytest.raises(BadInput, match="a run made by evaluate"):
        palestra.evaluate(Asks(model), sums(), store=store, resume=outcome.id)


def test_a_run_that_another_process_executes_is_not_resumed(store: Store, model: Model) -> None:
    import os
    import time

    from sqlalchemy import update

    from palestra.store import schema

    outcome = palestra.run("toy", model="scripted", store=store, scale="smoke")
    with store.write() as connection:
        alive = {"status": "running", "pid": os.getppid(), "heartbeat": time.time()}
        connection.execute(update(schema.runs).values(**alive))
    with pytest.raises(StoreError, match=f"is being executed by process {os.getppid()}"):
        palestra.resume(outcome.id, store=store)


def test_a_replay_is_equal_to_the_run_and_asks_nobody(store: Store, model: Model) -> None:
    first = palestra.run("toy", model=model, store=store, seed=3)
    silent = Model(Scripted(lambda request: 1 / 0), name="scripted")  # type: ignore[arg-type, return-value]
    for concurrency in (1, 64):
        again = palestra.run("toy", model=silent, store=store, seed=3, replay=first.id, concurrency=concurrency)
        assert again.status == "done"
        assert again.reading.fingerprint() == first.reading.fingerprint()
    other = palestra.run("toy", model=model, store=store, seed=4)
    assert other.reading.fingerprint() != first.reading.fingerprint()


def test_a_request_that_was_not_recorded_fails_its_episode_only(store: Store, model: Model) -> None:
    first = palestra.run("toy", model=model, store=store, set={"count": 4})
    again = palestra.run("toy", model=model, store=store, set={"count": 6}, replay=first.id)
    rows = again.results()["main"].rows()
    assert [row["status"] for row in rows] == ["done"] * 4 + ["failed"] * 2
    assert all(row["error"].startswith("NoRecordedReply: no recorded reply of scripted") for row in rows[4:])


def test_failed_episodes_are_run_again_when_asked_for(store: Store, model: Model) -> None:
    first = palestra.run("toy", model="scripted", store=store, set={"count": 4})
    again = palestra.run("toy", model="scripted", store=store, set={"count": 6}, replay=first.id)
    from sqlalchemy import update

    from palestra.store import schema

    with store.write() as connection:
        connection.execute(update(schema.runs).where(schema.runs.c.id == again.id).values(options='{"replay":null,"budget":null,"concurrency":4,"processes":null}'))  # fmt: skip
    assert palestra.resume(again.id, store=store).results()["main"].of("asks").failed == 2
    assert palestra.resume(again.id, store=store, failed=True).results()["main"].of("asks").failed == 0


def test_the_scope_of_a_run_ends_with_it(store: Store, model: Model) -> None:
    from palestra.core import current

    async def both() -> None:
        await palestra.aevaluate(Asks(model), sums(2), store=store, budget="calls=2")
        assert current().account.budget is None
        await model.complete("nobody counts")

    asyncio.run(both())
