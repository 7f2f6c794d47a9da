"""A run: what is on disk is not run again, what failed stays, budgets and curves survive a resume."""

import asyncio
import math
import time
from typing import Any

import numpy as np
import pytest

from palestra.core import Action, Budget, Card, PaperClaim
from palestra.core.errors import BadInput, BudgetExceeded, StoreError
from palestra.models.model import Model
from palestra.models.scripted import Scripted
from palestra.runner import Local, Run
from palestra.runner import run as run_module
from palestra.store import Reading, Store


async def test_a_study_is_recorded_and_read_back(store: Store, kit: Any) -> None:
    run = kit.start(store)
    result = await run.evaluate([kit.Solver("a"), kit.Solver("b")], kit.digits(5), seeds=2)
    run.close("done")
    assert {name: (one.episodes, one.failed, one.score) for name, one in result.summary().items()} == {
        "a": (10, 0, 1.0), "b": (10, 0, 1.0),
    }  # fmt: skip
    assert result.of("a").usage.calls == 10
    assert len(result.frame()) == 20
    assert result.scores("a") == {(f"digits/{n}", seed): 1.0 for n in range(5) for seed in range(2)}
    assert store.run(run.id).status == "done"


@pytest.mark.parametrize("concurrency", [1, 64])
async def test_the_records_do_not_depend_on_concurrency(store: Store, kit: Any, concurrency: int) -> None:
    prints = []
    for seed, several in ((0, 8), (0, concurrency), (1, concurrency)):
        run = kit.start(store, seed=seed, executor=Local(several))
        agents = [kit.Solver("a", latency=0.0005), kit.Solver("b")]
        await run.evaluate(agents, kit.digits(60), seeds=2)
        run.close("done")
        prints.append(Reading(store, run.id).fingerprint())
    assert prints[0] == prints[1] != prints[2]


async def test_a_resumed_run_does_only_what_is_missing(store: Store, kit: Any) -> None:
    run, agent = kit.start(store), kit.Solver()
    await run.evaluate(agent, kit.digits(40))
    run._writer.forget(1, [3, 17, 39])
    run.close("interrupted")
    again, agent = kit.start(store, run.row), kit.Solver()
    display = again.display = kit.Acknowledged()
    result = await again.evaluate(agent, kit.digits(40))
    again.close("done")
    assert sorted(agent.acted) == sorted(f"the last digit of {n}" for n in (3, 17, 39))
    assert sorted(display.indices) == [3, 17, 39]
    assert [row["index"] for row in result.rows()] == list(range(40))
    whole = kit.start(store)
    await whole.evaluate(kit.Solver(), kit.digits(40))
    whole.close("done")
    assert Reading(store, run.id).fingerprint() == Reading(store, whole.id).fingerprint()


async def test_a_finished_study_runs_nothing(store: Store, kit: Any) -> None:
    run = kit.start(store)
    await run.evaluate(kit.Solver(), kit.digits(5))
    run.close("done")
    again, agent = kit.start(store, run.row), kit.Solver()
    await again.evaluate(agent, kit.digits(5))
    again.close("done")
    assert agent.acted == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"task": 6}, "tasks, task_ids changed"),
        ({"agents": ["a", "c"]}, "agents changed"),
        ({"seeds": 3}, "seeds changed"),
    ],
)
async def test_another_plan_under_the_same_name_is_refused(store: Store, kit: Any, change: Any, words: str) -> None:
    plan = {"agents": ["a", "b"], "task": 5, "seeds": 2}

    async def evaluate(run: Run, agents: Any, task: Any, seeds: Any) -> None:
        await run.evaluate([kit.Solver(name) for name in agents], kit.digits(task), seeds=seeds)

    run = kit.start(store)
    await evaluate(run, **plan)
    run.close("done")
    again = kit.start(store, run.row)
    with pytest.raises(BadInput, match=words):
        await evaluate(again, **(plan | change))
    again.close("failed")
    assert len(Reading(store, run.id).rows("episodes")) == 20


async def test_a_study_name_is_used_once(store: Store, kit: Any) -> None:
    run = kit.start(store)
    await run.evaluate(kit.Solver(), kit.digits(1))
    with pytest.raises(BadInput, match="has not used yet"):
        await run.evaluate(kit.Solver(), kit.digits(1))
    run.close("failed")


class Moody:
    """Fails on every third question while it is in a bad mood."""

    name = "solver"

    def __init__(self, *, bad: bool) -> None:
        self.bad, self.times = bad, 0

    async def act(self, observation: Any) -> Action:
        self.times += 1
        number = int(observation.text.rsplit(" ", 1)[1])
        if self.bad and number % 3 == 0:
            raise RuntimeError(f"not {number}")
        return Action(text=str(number % 10))


async def test_an_agent_that_raises_costs_its_neighbours_nothing(store: Store, kit: Any) -> None:
    run = kit.start(store)
    result = await run.evaluate(Moody(bad=True), kit.digits(30))
    run.close("done")
    rows = result.rows()
    assert [row["index"] for row in rows if row["status"] == "failed"] == list(range(0, 30, 3))
    assert all("Traceback" in row["error"] and f"not {row['index']}" in row["error"] for row in rows[::3])
    one = result.of("solver")
    assert (one.episodes, one.failed, one.score) == (30, 10, 1.0)


async def test_failed_episodes_stay_unless_they_are_asked_for_again(store: Store, kit: Any) -> None:
    run = kit.start(store)
    await run.evaluate(Moody(bad=True), kit.digits(30))
    run.close("done")
    for again, times in ((("stopped",), 0), (("stopped", "failed"), 10)):
        resumed, agent = kit.start(store, run.row, again=again), Moody(bad=False)
        result = await resumed.evaluate(agent, kit.digits(30))
        resumed.close("done")
        assert agent.times == times
        assert result.of("solver").failed == 10 - times
        assert result.of("solver").episodes == 30


async def test_a_slow_episode_does_not_hold_its_siblings(store: Store, kit: Any) -> None:
    def latency(request: Any) -> float:
        return 0.8 if request.messages[-1].text.endswith(" 0") else 0.0

    run = kit.start(store, executor=Local(2))
    run.display = kit.Acknowledged()
    await run.evaluate(kit.Solver(latency=latency), kit.digits(200))
    run.close("done")
    assert run.display.indices[-1] == 0
    assert sorted(run.display.indices) == list(range(200))


async def test_studies_side_by_side_do_not_hold_each_other(store: Store, kit: Any) -> None:
    run = kit.start(store)
    async with asyncio.TaskGroup() as group:
        for name in ("x", "y", "z"):
            group.create_task(run.evaluate(kit.Solver(latency=0.002), kit.digits(20), name=name))
    run.close("done")
    reading = Reading(store, run.id)
    assert {row["name"]: len(reading.done(row["study"])) for row in reading.rows("studies")} == {
        "x": 20,
        "y": 20,
        "z": 20,
    }


async def test_a_spent_budget_stops_the_study_and_a_larger_one_completes_it(store: Store, kit: Any) -> None:
    run = kit.start(store, budget=Budget(calls=25), executor=Local(8))
    with pytest.raises(BudgetExceeded, match="study budget of 25 calls"):
        await run.evaluate(kit.Solver(latency=0.001), kit.digits(60))
    run.close("stopped")
    reading = Reading(store, run.id)
    assert len(reading.done(1)) == 25
    assert reading.total().calls == 25

    same, agent = kit.start(store, run.row, budget=Budget(calls=25)), kit.Solver()
    with pytest.raises(BudgetExceeded):
        await same.evaluate(agent, kit.digits(60))
    same.close("stopped")
    assert agent.acted == [], "what was used counts"

    more, agent = kit.start(store, run.row, budget=Budget(calls=60)), kit.Solver()
    result = await more.evaluate(agent, kit.digits(60))
    more.close("done")
    assert len(agent.acted) == 35
    assert result.of("solver").episodes == 60


async def test_a_budget_of_tokens_stops_soon_after_its_limit(store: Store, kit: Any) -> None:
    run = kit.start(store, budget=Budget(tokens=100), executor=Local(4))
    with pytest.raises(BudgetExceeded, match="tokens"):
        await run.evaluate(kit.Solver(latency=0.001), kit.digits(200))
    run.close("stopped")
    assert 100 <= run.account.used.tokens < 100 + 4 * 8
    assert len(Reading(store, run.id).done(1)) < 30


async def test_a_store_that_fails_stops_the_study_at_once(
    store: Store, kit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_module, "UNSAVED", 10)
    run, agent = kit.start(store), kit.Solver()
    monkeypatch.setattr(run._writer, "_commit", lambda *args: (time.sleep(0.05), 1 / 0))
    with pytest.raises(StoreError, match="cannot be stored: ZeroDivisionError"):
        await asyncio.wait_for(run.evaluate(agent, kit.digits(5000)), 20)
    with pytest.raises(StoreError):
        run.close("failed")
    assert len(agent.acted) < 5000
    assert store.run(run.id).status == "failed"


async def test_calls_of_the_recipe_itself_are_recorded_and_charged(store: Store, kit: Any) -> None:
    model = Model(Scripted(), name="scripted")
    run = kit.start(store, budget=Budget(calls=4))
    await model.complete("plan")
    await run.evaluate(kit.Solver(), kit.digits(2))
    await model.complete("plan")
    with pytest.raises(BudgetExceeded):
        await model.complete("more")
    run.close("stopped")
    reading = Reading(store, run.id)
    assert [call.messages[0].text for call in reading.recipe_calls()] == ["plan", "plan"]
    assert len({call.seed for call in reading.recipe_calls()}) == 2
    assert len(list(reading.calls())) == 4
    await model.complete("after the run: nobody counts")


CARD = Card("s", "T", "A", "V", "games", "sum", (PaperClaim("gain", "It gains.", "5 %"),))


async def test_claims_curves_and_files_are_kept(store: Store, kit: Any, tmp_path: Any) -> None:
    row = None
    for _ in range(2):  # a resumed recipe states everything again
        run = kit.start(store, row, card=CARD)
        row = run.row
        for step in range(3):
            run.log("loss", np.float32(1 / (1 + step)), step)
        run.log("loss", math.nan, 3)
        measured = {"a": np.arange(2), "b": [np.float64(0.5)]}
        run.claim("gain", measured=np.float64(math.nan), holds=np.bool_(False), evidence="exact",
                  interval=(math.nan, math.inf), details=measured)  # fmt: skip
        run.artifact("notes/a.txt").write_text("hello")
        with pytest.raises(BadInput, match="inside the run's folder"):
            run.artifact("../a.txt")
        with pytest.raises(BadInput, match=r"claim='gian'.*did you mean 'gain'"):
            run.claim("gian", measured=1, holds=True, evidence="exact")
        run.close("done")
    reading = Reading(store, row.id)
    (claim,) = reading.claims()
    assert math.isnan(claim.measured)
    assert claim.interval is not None
    assert math.isinf(claim.interval[1])
    assert (claim.holds, claim.details) == (False, {"a": [0, 1], "b": [0.5]})
    assert [(point["step"], point["value"]) for point in reading.rows("metrics")] == [
        (0.0, 1.0), (1.0, 0.5), (2.0, pytest.approx(1 / 3)), (3.0, None),
    ]  # fmt: skip
    assert [(one["name"], one["path"]) for one in reading.rows("artifacts")] == [("notes/a.txt", "notes/a.txt")]


async def test_randomness_comes_from_the_run_alone(store: Store, kit: Any) -> None:
    draws = []
    for seed in (3, 3, 4):
        run = kit.start(store, seed=seed)
        draws.append(run.rng("data", 1).random())
        run.close("done")
    assert draws[0] == draws[1] != draws[2]
