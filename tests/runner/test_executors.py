"""Executors: worker processes give the same records as the event loop, and lose nothing when they die or hang."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from palestra.core import Account, Action, Budget
from palestra.core.errors import BadInput, BudgetExceeded
from palestra.runner import Local, Processes, Retry, Study
from palestra.store import Reading, Store

WORK = """
    import asyncio, os, time
    from palestra.core import Action, Benchmark, Item
    from palestra.models import model

    class Worker:
        '''Answers by what the question tells it to do.'''

        def __init__(self, name="worker"):
            self.name = name
            self.model = model("scripted")

        async def act(self, observation):
            what, _, rest = observation.text.partition(" ")
            if what == "ask":
                return Action(text=(await self.model.complete(rest)).text)
            if what == "spin":
                while True:
                    pass
            if what == "die":
                os.kill(os.getpid(), 9)
            if what == "die-once":
                if not os.path.exists(rest):
                    open(rest, "w").close()
                    os.kill(os.getpid(), 9)
            if what == "raise":
                raise ValueError(rest)
            if what == "sleep":
                await asyncio.sleep(float(rest))
            if what == "odd":
                return Action(text="odd", info={"big": 2**80, "half": "\\ud800", "nan": float("nan")})
            return Action(text=str(os.getpid()))

    def exact(item, action):
        return float(action.text == item.answer)

    def bench(*texts):
        return Benchmark("work", [Item(str(n), text, text.partition(" ")[2]) for n, text in enumerate(texts)], scorer=exact)
"""


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A module that worker processes can import, too."""
    (tmp_path / "palestra_work.py").write_text(dedent(WORK))
    monkeypatch.syspath_prepend(tmp_path)
    import importlib

    yield importlib.import_module("palestra_work")
    del sys.modules["palestra_work"]


async def _run(store: Store, kit: Any, executor: Any, agents: Any, task: Any, **options: Any) -> Any:
    budget = options.pop("budget", None)
    run = kit.start(store, executor=executor, budget=budget)
    try:
        result = await run.evaluate(agents, task, **options)
    finally:
        run.close("done")
    return result


async def test_processes_record_the_same_as_the_event_loop(store: Store, kit: Any, work: Any) -> None:
    task = work.bench(*(f"ask {n}" for n in range(30)), "odd")
    agents = [work.Worker("a"), work.Worker("b")]
    prints = set()
    for executor in (Local(8), Processes(2)):
        result = await _run(store, kit, executor, agents, task)
        assert {one.score for one in result.summary().values()} == {30 / 31}
        prints.add(result.reading.fingerprint())
    assert len(prints) == 1


async def test_an_episode_that_never_waits_is_killed_and_its_neighbours_finish(
    store: Store, kit: Any, work: Any
) -> None:
    task = work.bench("ask 1", "spin", *(f"ask {n}" for n in range(2, 12)))
    result = await _run(store, kit, Processes(2), work.Worker(), task, max_seconds=0.5, retry=Retry(attempts=1))
    rows = result.rows()
    assert [row["index"] for row in rows if row["status"] == "failed"] == [1]
    assert (rows[1]["reason"], rows[1]["error"]) == ("timeout", "no end after 0.5 s; the worker was stopped")
    assert sum(row["score"] or 0 for row in rows) == 11


async def test_the_minutes_of_the_study_end_an_episode_that_never_waits(store: Store, kit: Any, work: Any) -> None:
    started = time.monotonic()
    with pytest.raises(BudgetExceeded, match=r"study budget of 0.03 minutes"):
        await _run(store, kit, Processes(1), work.Worker(), work.bench("spin"), budget=Budget(minutes=0.03))
    assert time.monotonic() - started < 15


async def test_a_worker_that_is_killed_loses_nothing(store: Store, kit: Any, work: Any, tmp_path: Path) -> None:
    task = work.bench("ask 1", f"die-once {tmp_path}/died", *(f"ask {n}" for n in range(2, 12)))
    result = await _run(store, kit, Processes(2), work.Worker(), task)
    rows = result.rows()
    assert [row["status"] for row in rows] == ["done"] * 12
    assert (tmp_path / "died").exists()


async def test_an_episode_that_kills_its_worker_twice_has_failed(store: Store, kit: Any, work: Any) -> None:
    result = await _run(store, kit, Processes(2), work.Worker(), work.bench("ask 1", "die", "ask 2", "ask 3"))
    rows = result.rows()
    assert [row["status"] for row in rows] == ["done", "failed", "done", "done"]
    assert "its worker process died 2 times (exit code -9)" in rows[1]["error"]


async def test_workers_killed_from_outside_lose_nothing(store: Store, kit: Any, work: Any) -> None:
    import multiprocessing

    async def kill_some() -> int:
        killed = 0
        for _ in range(400):
            await asyncio.sleep(0.01)
            children = multiprocessing.active_children()
            if len(run.display.indices) >= 5 * (killed + 1) and children:
                os.kill(children[0].pid, signal.SIGKILL)
                killed += 1
            if killed == 2:
                break
        return killed

    run = kit.start(store, executor=Processes(2))
    run.display = kit.Acknowledged()
    killer = asyncio.create_task(kill_some())
    result = await run.evaluate(work.Worker(), work.bench(*(f"sleep 0.0{n % 5 + 1}" for n in range(60))))
    run.close("done")
    assert await killer == 2
    assert [row["index"] for row in result.rows()] == list(range(60))
    assert {row["status"] for row in result.rows()} == {"done"}


async def test_an_agent_that_raises_in_a_worker_is_told_with_its_traceback(store: Store, kit: Any, work: Any) -> None:
    rows = (await _run(store, kit, Processes(1), work.Worker(), work.bench("raise no idea", "ask 1"))).rows()
    assert rows[0]["error"].endswith("ValueError: no idea")
    assert "Traceback" in rows[0]["error"]
    assert rows[1]["score"] == 1.0


async def test_a_budget_lets_the_workers_finish_and_stops(store: Store, kit: Any, work: Any) -> None:
    task = work.bench(*(f"ask {n}" for n in range(40)))
    with pytest.raises(BudgetExceeded):
        await _run(store, kit, Processes(2), work.Worker(), task, budget=Budget(calls=10))
    reading = Reading(store, "last")
    assert 10 <= len(reading.done(1)) <= 12
    assert reading.total().calls == len(reading.done(1))


async def test_what_cannot_be_sent_to_another_process_is_refused(store: Store, kit: Any, work: Any) -> None:
    class Here:
        name = "here"
        secret = staticmethod(lambda: None)

        async def act(self, observation: Any) -> Action:
            return Action()

    with pytest.raises(BadInput, match="agents and tasks that can be pickled"):
        await _run(store, kit, Processes(1), Here(), work.bench("ask 1"))


async def test_what_another_process_cannot_import_is_refused(store: Store, kit: Any, work: Any, tmp_path: Path) -> None:
    (tmp_path / "palestra_work.py").unlink()
    with pytest.raises(BadInput, match=r"agents and tasks that another process can import .*palestra_work"):
        await asyncio.wait_for(_run(store, kit, Processes(1), work.Worker(), work.bench("ask 1")), 60)


def test_a_script_that_starts_its_study_when_imported_is_told_so(store: Store, tmp_path: Path) -> None:
    script = """
        import sys
        from palestra import evaluate
        from palestra.core import Action, Benchmark, Item
        from palestra.core.errors import BadInput

        class Says:
            name = "says"

            async def act(self, observation):
                return Action(text="x")

        def score(item, action):
            return 1.0

        try:
            evaluate(Says(), Benchmark("b", [Item("1", "?")], scorer=score), store=sys.argv[1], processes=1)
        except BadInput as error:
            sys.exit(str(error))
    """
    (tmp_path / "script.py").write_text(dedent(script))
    command = [sys.executable, str(tmp_path / "script.py"), store.where]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "a script that starts its study below `if __name__ == '__main__':`" in done.stderr.splitlines()[-1]
    assert Reading(store, "last").rows("episodes") == []
    assert len(store.runs()) == 1


@pytest.mark.parametrize("make", [lambda: Local(0), lambda: Processes(0)])
def test_at_least_one_at_a_time(make: Any) -> None:
    with pytest.raises(BadInput, match="at least 1"):
        make()


@pytest.mark.parametrize("concurrency", [1, 3, 16])
async def test_at_most_so_many_episodes_at_a_time(kit: Any, concurrency: int) -> None:
    now = most = 0

    class Counts:
        name = "counts"

        async def act(self, observation: Any) -> Action:
            nonlocal now, most
            now += 1
            most = max(most, now)
            await asyncio.sleep(0.002)
            now -= 1
            return Action()

    saved: list[int] = []

    async def save(episode: Any) -> None:
        saved.append(episode.index)

    study = Study("s", agents=Counts(), tasks=kit.digits(40))
    jobs = (study.job(index) for index in range(40))
    await Local(concurrency).run(study, jobs, account=Account("study"), save=save, stopping=asyncio.Event())
    assert most == concurrency
    assert sorted(saved) == list(range(40))


async def test_nothing_is_started_once_it_is_to_stop(kit: Any) -> None:
    stopping, saved = asyncio.Event(), list[int]()

    async def save(episode: Any) -> None:
        saved.append(episode.index)
        stopping.set()

    study = Study("s", agents=kit.Solver(latency=0.005), tasks=kit.digits(100))
    jobs = (study.job(index) for index in range(100))
    await Local(4).run(study, jobs, account=Account("study"), save=save, stopping=stopping)
    assert len(saved) <= 4
    stopping.set()
    before = len(saved)
    await Local(4).run(study, jobs, account=Account("study"), save=save, stopping=stopping)
    assert len(saved) == before


def test_ten_thousand_jobs_are_made_one_at_a_time(kit: Any) -> None:
    made = 0
    study = Study("s", agents=kit.Solver(), tasks=kit.digits(50))

    def jobs() -> Iterator[Any]:
        nonlocal made
        for index in range(50):
            made += 1
            assert made - len(saved) <= 4
            yield study.job(index)

    saved: list[int] = []

    async def save(episode: Any) -> None:
        saved.append(episode.index)

    work = Local(3).run(study, jobs(), account=Account("study"), save=save, stopping=asyncio.Event())
    asyncio.run(work)
    assert len(saved) == 50
