"""The store: opened by path or URL, its runs found by id, a run executed by one living process at a time."""

import os
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sqlalchemy import update

from palestra.core.errors import BadInput, StoreError
from palestra.store import Reading, Store, schema


def _change(store: Store, run: int, **values: Any) -> None:
    with store.write() as connection:
        connection.execute(update(schema.runs).where(schema.runs.c.key == run).values(**values))


def test_a_folder_a_file_and_a_url_name_the_same_store(tmp_path: Path, kit: Any) -> None:
    first = Store(tmp_path)
    row = kit.begin(first)
    for where in (tmp_path / "store.db", f"sqlite:///{tmp_path}/store.db"):
        assert Store(where).run(row.id) == row


def test_the_environment_names_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PALESTRA_STORE", str(tmp_path / "a" / "b.db"))
    Store()
    assert (tmp_path / "a" / "b.db").is_file()


@pytest.mark.parametrize("name", ["a?b#c%20.db", "ein Ordner/ü.db", "x:y.db"])
def test_odd_file_names_are_only_names(tmp_path: Path, name: str) -> None:
    Store(tmp_path / name)
    assert (tmp_path / name).is_file()


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("mysql://x/y", "sqlite:///FILE or postgresql"),
        ("://", "a file path"),
        (":memory:", "a file"),
        ("sqlite://", "a file"),
    ],
)
def test_a_store_that_cannot_be_is_refused(where: str, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        Store(where)


def test_a_folder_that_cannot_be_made_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for where in (str(tmp_path / "file" / "store.db"), f"sqlite:///{tmp_path}/file/store.db"):
        with pytest.raises(StoreError, match=r"cannot be made: (Not a directory|File exists)"):
            Store(where)


def test_a_server_that_is_not_there_is_one_clear_line() -> None:
    with pytest.raises(StoreError, match=r"the store postgresql://.* failed") as caught:
        Store("postgresql://nobody@localhost:1/none?connect_timeout=2")
    assert "\n" not in str(caught.value)


def test_a_file_that_is_no_database_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "store.db").write_bytes(b"these are notes, not a database\n" * 200)
    with pytest.raises(StoreError, match="is not a palestra store: file is not a database"):
        Store(tmp_path / "store.db")
    assert (tmp_path / "store.db").read_bytes().startswith(b"these are notes")


def test_a_damaged_database_is_one_clear_line(tmp_path: Path, kit: Any) -> None:
    store = Store(tmp_path / "store.db")
    episodes = [kit.episode(n, steps=[kit.step(0, f"{n} " * 400, "x")]) for n in range(300)]
    reading = kit.record(store, episodes)
    store.close()
    data = bytearray((tmp_path / "store.db").read_bytes())
    for page in range(12, len(data) // 4096):
        data[page * 4096 : page * 4096 + 2000] = os.urandom(2000)
    (tmp_path / "store.db").write_bytes(data)
    with pytest.raises(StoreError, match=r"is damaged .*restore a copy"):
        list(Reading(Store(tmp_path / "store.db"), reading.run).episodes())


def test_a_run_is_found_by_its_id_its_beginning_or_as_the_last(store: Store, kit: Any) -> None:
    one, two = kit.begin(store, "dmad"), kit.begin(store, "rqe")
    assert store.run(one.id) == one
    assert store.run("dm") == one
    assert store.run("last") == store.run() == two
    assert [row.id for row in store.runs()] == [two.id, one.id]
    assert [row.id for row in store.runs(system="dmad")] == [one.id]
    assert store.runs(limit=1) == [two]


def test_a_run_that_cannot_be_told_is_bad_input(store: Store, kit: Any) -> None:
    with pytest.raises(BadInput, match="holds none yet"):
        store.run()
    rows = [kit.begin(store, "dmad") for _ in range(2)]
    with pytest.raises(BadInput, match="2 start like this"):
        store.run("dmad")
    with pytest.raises(BadInput, match="did you mean"):
        store.run(rows[0].id + "x")
    for name in ("", "%", "d_ad", "\0"):
        with pytest.raises(BadInput, match="run="):
            store.run(name)


def test_many_runs_in_one_second_have_different_ids(store: Store, kit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("secrets.token_hex", lambda length: "ab" * length)
    ids = {kit.begin(store).id for _ in range(3)}
    assert len(ids) == 3


def test_a_run_row_is_what_was_said(any_store: Store, kit: Any) -> None:
    row = kit.begin(any_store, "x", seed=2**62, models={"default": "m"}, config={"a": [1]}, options={"b": None})
    assert (row.status, row.seed, row.models, row.config, row.options) == (
        "running", 2**62, {"default": "m"}, {"a": [1]}, {"b": None},
    )  # fmt: skip
    assert (row.pid, row.finished, row.error) == (os.getpid(), None, None)
    any_store.finish(row, "failed", error="it broke")
    again = any_store.run(row.id)
    assert (again.status, again.error, again.alive) == ("failed", "it broke", False)
    assert again.finished is not None


def test_a_run_that_recorded_nothing_can_be_forgotten(store: Store, kit: Any) -> None:
    empty, full = kit.begin(store), kit.begin(store)
    kit.record(store, [kit.episode()], run=full)
    assert store.discard(empty)
    assert not store.discard(full)
    assert [row.id for row in store.runs()] == [full.id]


@pytest.fixture
def sleeper() -> Any:
    """Another process that lives."""
    process = subprocess.Popen([sys.executable, "-c", "import time; print(flush=True); time.sleep(60)"], stdout=-1)
    assert process.stdout is not None
    process.stdout.readline()
    yield process
    process.kill()
    process.wait()


def test_a_run_that_another_process_executes_is_not_taken(store: Store, kit: Any, sleeper: Any) -> None:
    row = kit.begin(store)
    _change(store, row.key, pid=sleeper.pid, heartbeat=time.time())
    row = store.run(row.id)
    assert row.alive
    with pytest.raises(StoreError, match=f"is being executed by process {sleeper.pid}"):
        store.take(row)
    sleeper.kill()
    sleeper.wait()
    taken = store.take(store.run(row.id))
    assert (taken.pid, taken.status) == (os.getpid(), "running")


def test_a_process_that_got_the_number_of_a_dead_one_does_not_hold_its_run(
    store: Store, kit: Any, sleeper: Any
) -> None:
    row = kit.begin(store)
    _change(store, row.key, pid=sleeper.pid, heartbeat=time.time() - 3600)
    row = store.run(row.id)
    assert not row.alive
    assert store.take(row).pid == os.getpid()


def test_a_run_on_another_machine_lives_as_long_as_its_heartbeat(store: Store, kit: Any) -> None:
    row = msgspec.structs.replace(kit.begin(store), host="elsewhere", pid=1)
    assert row.alive
    assert not msgspec.structs.replace(row, heartbeat=time.time() - 100).alive


def test_of_two_processes_that_take_a_dead_run_one_gets_it(store: Store, kit: Any) -> None:
    row = kit.begin(store)
    _change(store, row.key, pid=2**22 + 1)
    row = store.run(row.id)
    store.take(row)
    with pytest.raises(StoreError, match="was just taken by another process"):
        store.take(row)


def test_a_store_that_nobody_may_write_can_be_read(store: Store, kit: Any) -> None:
    """Opening a store that is up to date needs no lock: a list of runs does not wait for one that is written."""
    row = kit.begin(store)
    with store.engine.connect() as other:
        other.exec_driver_sql("BEGIN IMMEDIATE")
        assert Store(store.where).run(row.id) == row
        other.exec_driver_sql("ROLLBACK")


def test_a_store_error_never_shows_the_statement(store: Store, kit: Any) -> None:
    with sqlite3.connect(store.where) as connection:
        connection.execute("DROP TABLE episodes")
    with pytest.raises(StoreError) as caught:
        Reading(store, kit.begin(store)).done(1)
    assert str(caught.value) == f"the store {store.where} failed: no such table: episodes"
