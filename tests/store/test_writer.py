"""The writer: acknowledged means on disk, texts are kept once, and a long episode costs only its new text."""

import subprocess
import sys
import threading
import time
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from sqlalchemy import func, select

from palestra.core import Message
from palestra.core.errors import StoreError
from palestra.store import Reading, Store, Writer, conversations, schema
from palestra.store import store as store_module


def _count(store: Store, table: Any, run: int) -> int:
    with store.read() as connection:
        return connection.execute(select(func.count()).select_from(table).where(table.c.run == run)).scalar_one()


def _characters(store: Store, run: int) -> int:
    texts = schema.texts
    with store.read() as connection:
        return connection.execute(select(func.sum(func.length(texts.c.body))).where(texts.c.run == run)).scalar_one()


@pytest.mark.parametrize("turns", [50, 100, 200])
def test_a_long_episode_costs_only_its_new_text(store: Store, kit: Any, turns: int) -> None:
    said: list[str] = []
    calls, steps, new = [], [], 0
    for turn in range(turns):
        seen, done = f"observation {turn:04d} " + "x" * 400, f"action {turn:04d} " + "y" * 100
        said.append(seen)
        calls.append(kit.call(*said, reply=done))
        said.append(done)
        steps.append(kit.step(turn, seen, done))
        new += len(seen) + len(done)
    reading = kit.record(store, [kit.episode(calls=calls, steps=steps)])
    run = reading.run.key
    assert _characters(store, run) == new, "each text once, though steps, prompts and replies hold it"
    assert _count(store, schema.texts, run) == 2 * turns
    assert _count(store, schema.messages, run) == 2 * turns
    with store.read() as connection:
        extra = connection.execute(select(func.count(schema.messages.c.extra))).scalar_one()
    assert extra == 0
    last = reading.episode(1 << 32).calls[-1]
    assert [message.text for message in last.messages] == said[:-1]


def test_tool_results_are_not_written_a_second_time(store: Store, kit: Any) -> None:
    result = "z" * 10_000
    call = kit.call(reply="ok")
    call.messages = (Message("user", "go"), Message("tool", result, tool_call_id="1"))
    kit.record(store, [kit.episode(calls=[call])])
    with store.read() as connection:
        extra = connection.execute(select(func.sum(func.length(schema.messages.c.extra)))).scalar_one()
    assert extra < 100


def test_what_episodes_share_is_stored_once(store: Store, kit: Any) -> None:
    prompt = "the same long instructions " * 50
    episodes = [kit.episode(n, calls=[kit.call(prompt, reply=f"r{n}")]) for n in range(200)]
    reading = kit.record(store, episodes)
    assert _count(store, schema.texts, reading.run.key) == 201
    assert _count(store, schema.messages, reading.run.key) == 201


def test_sharing_survives_a_pause_only_in_content(store: Store, kit: Any) -> None:
    """Another execution numbers texts anew, behind those on disk: nothing is overwritten, everything is found."""
    row = kit.begin(store)
    kit.record(store, [kit.episode(0, calls=[kit.call("p", reply="r")])], run=row)
    reading = kit.record(store, [kit.episode(1, calls=[kit.call("p", "x", "y", reply="r")])], run=row)
    assert [[m.text for m in one.calls[0].messages] for one in reading.episodes()] == [["p"], ["p", "x", "y"]]


def test_forgetting_old_texts_changes_nothing_that_is_read(
    store: Store, kit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversations, "KNOWN", 3)
    episodes = [kit.episode(n, calls=[kit.call("p", f"{n % 7}", "q", reply=f"r{n}")]) for n in range(50)]
    reading = kit.record(store, episodes)
    assert [[m.text for m in one.calls[0].messages] for one in reading.episodes()] == [
        ["p", f"{n % 7}", "q"] for n in range(50)
    ]


def test_an_episode_is_acknowledged_when_another_connection_can_read_it(store: Store, kit: Any, tmp_path: Path) -> None:
    other = Store(tmp_path / "store.db")
    row = kit.begin(store)
    missing: list[int] = []
    counts: list[int] = []

    def saved(tokens: list[int]) -> None:
        done = set(Reading(other, row).done(1))
        missing.extend(token for token in tokens if token not in done)
        counts.append(len(tokens))

    writer = Writer(store, row, on_saved=saved)
    for index in range(2000):
        writer.episode(1, kit.episode(index), index)
    writer.flush()
    writer.close()
    assert missing == []
    assert sum(counts) == 2000
    assert len(counts) < 2000, "episodes that wait for the disk share a commit"
    other.close()


CRASH = """
    import os, sys
    from palestra.core import Episode
    from palestra.store import Store, Writer, writer

    store = Store(sys.argv[1])
    row = store.begin("t", scale="smoke", seed=0, seeds=1, models={}, config={}, options={}, version="0")
    acknowledged = []
    w = Writer(store, row, on_saved=acknowledged.extend)
    make = lambda index: Episode(study="1", index=index, agent="a", task="t", seed=0)
    for index in range(10):
        w.episode(1, make(index), index)
    w.flush()
    write = w._write
    def crash(*args):
        write(*args)  # everything is written, the commit is not made
        assert acknowledged == list(range(10))
        os.kill(os.getpid(), 9)
    w._write = crash
    for index in range(10, 20):
        w.episode(1, make(index), index)
    w.flush()
"""


def test_what_a_crash_cuts_off_before_the_commit_is_absent_as_a_whole(store: Store, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", dedent(CRASH), str(tmp_path / "store.db")], capture_output=True)
    assert done.returncode == -9, done.stderr.decode()
    assert Reading(store, "last").done(1) == list(range(10))


TWO = """
    import sys, time
    from palestra.core import Call, Episode, Message, Usage
    from palestra.store import Store, Writer

    store = Store(sys.argv[1])
    name = sys.argv[2]
    row = store.begin(name, scale="smoke", seed=0, seeds=1, models={}, config={}, options={}, version="0")
    w = Writer(store, row)
    for index in range(1500):
        prompt = (Message("user", f"{name} asks {index}"),)
        call = Call("a", "", "", 0, "complete", "m", "e", bytes(16), prompt, Message("assistant", name), Usage(1), "stop", 0.0)
        w.episode(1, Episode(study="1", index=index, agent=name, task=f"t{index}", seed=0, calls=[call]))
        if index % 50 == 0:
            time.sleep(0.002)
    w.close()
    assert w.failure is None, w.failure
"""


def test_two_processes_write_two_runs_into_one_file(tmp_path: Path) -> None:
    path = str(tmp_path / "new" / "store.db")  # both also create it
    command = [sys.executable, "-c", dedent(TWO), path]
    both = [subprocess.Popen([*command, name], stderr=subprocess.PIPE) for name in ("left", "right")]
    for process in both:
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors.decode()
    store = Store(path)
    for name in ("left", "right"):
        reading = Reading(store, store.runs(system=name)[0])
        found = list(reading.episodes())
        assert [episode.index for episode in found] == list(range(1500))
        assert {call.messages[0].text for episode in found for call in episode.calls} == {
            f"{name} asks {index}" for index in range(1500)
        }
    store.close()


def test_a_full_database_is_one_clear_line_and_what_was_acknowledged_stays(store: Store, kit: Any) -> None:
    row = kit.begin(store)
    saved: list[int] = []
    failed = threading.Event()
    writer = Writer(store, row, on_saved=saved.extend, on_failure=lambda error: failed.set())
    writer.episode(1, kit.episode(0), 0)
    writer.flush()
    with store.read() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
    _limit_pages(store, pages + 20)
    with pytest.raises(StoreError, match=r"the disk of the store .* is full: free some space, then `palestra resume`"):
        for index in range(1, 1000):
            writer.episode(1, kit.episode(index, steps=[kit.step(0, f"{index}" * 2000, "x")]), index)
            writer.flush()
    assert failed.is_set()
    with pytest.raises(StoreError, match="is full"):
        writer.flush()
    with pytest.raises(StoreError, match="is full"):
        writer.episode(1, kit.episode(9999))
    writer.close()
    store.close()
    again = Store(store.where)
    assert Reading(again, row).done(1) == saved == list(range(len(saved)))
    assert len(saved) > 1
    reading = kit.record(again, [kit.episode(index) for index in range(len(saved), 300)], run=row)
    assert reading.done(1) == list(range(300))
    again.close()


def _limit_pages(store: Store, pages: int) -> None:
    """Every connection of `store`, old or new, has room for `pages` pages: as a full disk has."""
    from sqlalchemy import event

    @event.listens_for(store.engine, "begin")
    def _(connection: Any) -> None:
        connection.exec_driver_sql(f"PRAGMA max_page_count={pages}")


def test_a_locked_database_is_one_clear_line(tmp_path: Path, kit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "BUSY", 0.2)
    store = Store(tmp_path / "store.db")
    row = kit.begin(store)
    writer = Writer(store, row)
    with store.engine.connect() as other:
        other.exec_driver_sql("BEGIN IMMEDIATE")
        writer.episode(1, kit.episode(0))
        started = time.monotonic()
        with pytest.raises(StoreError, match=f"the store {store.where} is locked by another program"):
            writer.flush()
        assert time.monotonic() - started < 5
        with pytest.raises(StoreError, match="is locked"):
            kit.begin(store)
        assert Store(tmp_path / "store.db").run(row.id).id == row.id, "reading goes on"
        other.exec_driver_sql("ROLLBACK")
    writer.close()
    store.close()


def test_the_heartbeat_goes_on_while_nothing_is_written(
    store: Store, kit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from palestra.store import writer as module

    monkeypatch.setattr(module, "HEARTBEAT", 0.05)
    row = kit.begin(store)
    writer = Writer(store, row)
    time.sleep(0.3)
    assert store.run(row.id).heartbeat > row.heartbeat
    writer.close()


def test_the_same_point_of_a_curve_is_kept_once(store: Store, kit: Any) -> None:
    row = kit.begin(store)
    writer = Writer(store, row)
    for value in (1.0, 2.0, float("nan")):
        writer.row(schema.metrics, {"run": row.key, "name": "loss", "step": 3, "value": value, "time": 0.0})
        writer.row(schema.metrics, {"run": row.key, "name": "loss", "step": 4, "value": value, "time": 0.0})
    writer.close()
    assert writer.failure is None
    rows = Reading(store, row).rows("metrics")
    assert [(one["step"], one["value"]) for one in rows] == [(3.0, None), (4.0, None)]


def test_forgotten_episodes_can_be_written_again(store: Store, kit: Any) -> None:
    row = kit.begin(store)
    kit.record(
        store, [kit.episode(n, steps=[kit.step(0, "o", "a")], calls=[kit.call("p")]) for n in range(1200)], run=row
    )
    writer = Writer(store, row)
    writer.forget(1, range(0, 1200, 2))
    writer.episode(1, kit.episode(2, score=1.0))
    writer.close()
    reading = Reading(store, row)
    assert reading.done(1) == sorted([*range(1, 1200, 2), 2])
    assert len(reading.rows("steps")) == len(reading.rows("calls")) == 600


def test_a_run_leaves_no_thread_behind(store: Store, kit: Any) -> None:
    before = threading.active_count()
    for _ in range(5):
        kit.record(store, [kit.episode()])
    assert threading.active_count() == before
