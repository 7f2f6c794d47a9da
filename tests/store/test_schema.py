"""The schema has a version: older stores are brought up to date, newer ones and strangers are left alone."""

import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, text

from palestra.core.errors import StoreError
from palestra.store import Reading, Store, schema


def _version(path: Path) -> str:
    with sqlite3.connect(path) as connection:
        return connection.execute("SELECT value FROM meta WHERE name = 'schema'").fetchone()[0]


def _set_version(path: Path, value: str) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE meta SET value = ?", (value,))


@pytest.fixture
def path(tmp_path: Path, kit: Any) -> Path:
    """A store with one episode."""
    store = Store(tmp_path / "store.db")
    kit.record(store, [kit.episode(score=0.5)])
    store.close()
    return tmp_path / "store.db"


def test_a_newer_store_is_refused_and_left_as_it_is(path: Path) -> None:
    _set_version(path, "999")
    with pytest.raises(StoreError, match=r"the store has schema 999, this palestra reads up to .*upgrade palestra"):
        Store(path)
    assert _version(path) == "999"


@pytest.mark.parametrize(
    "statements",
    [
        ["CREATE TABLE moz_places (url TEXT)"],
        ["CREATE TABLE runs (id TEXT)"],
        ["CREATE TABLE meta (key TEXT, body TEXT)"],
        ["CREATE TABLE meta (name TEXT, value TEXT)"],
        ["CREATE TABLE meta (name TEXT, value TEXT)", "INSERT INTO meta VALUES ('schema', 'v2-final')"],
    ],
)
def test_a_database_of_another_program_is_refused_and_left_as_it_is(tmp_path: Path, statements: list[str]) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as connection:
        for statement in statements:
            connection.execute(statement)
    with pytest.raises(StoreError, match="tables of another program"):
        Store(path)
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT count(*) FROM sqlite_master WHERE type = 'table'").fetchone() == (1,)


def test_tables_of_others_may_stand_beside_ours_on_postgresql(postgres_url: str, postgres: Store) -> None:
    with postgres.engine.begin() as connection:
        connection.execute(text("DROP SCHEMA public CASCADE; CREATE SCHEMA public; CREATE TABLE theirs (x int)"))
    Store(postgres_url)
    with postgres.engine.begin() as connection:
        connection.execute(text("DROP SCHEMA public CASCADE; CREATE SCHEMA public; CREATE TABLE runs (x int)"))
    with pytest.raises(StoreError, match="tables of another program"):
        Store(postgres_url)


def test_an_older_store_is_brought_up_to_date_step_by_step(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = schema.VERSION
    steps: list[int] = []

    def add_column(connection: Connection) -> None:
        steps.append(now)
        connection.exec_driver_sql("ALTER TABLE runs ADD COLUMN owner TEXT DEFAULT 'me'")

    def fill_column(connection: Connection) -> None:
        steps.append(now + 1)
        connection.exec_driver_sql("UPDATE runs SET owner = 'us'")

    monkeypatch.setattr(schema, "VERSION", now + 2)
    monkeypatch.setattr(schema, "MIGRATIONS", {now: add_column, now + 1: fill_column})
    store = Store(path)
    assert steps == [now, now + 1]
    assert _version(path) == str(now + 2)
    with store.read() as connection:
        assert connection.exec_driver_sql("SELECT owner FROM runs").scalar_one() == "us"
    assert next(Reading(store).episodes()).score == 0.5
    Store(path)
    assert steps == [now, now + 1], "once"


def test_a_migration_that_fails_leaves_the_store_as_it_was(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = schema.VERSION

    def breaks(connection: Connection) -> None:
        connection.exec_driver_sql("ALTER TABLE runs ADD COLUMN owner TEXT")
        connection.exec_driver_sql("UPDATE absent SET x = 1")

    monkeypatch.setattr(schema, "VERSION", now + 1)
    monkeypatch.setattr(schema, "MIGRATIONS", {now: breaks})
    with pytest.raises(StoreError, match="no such table: absent"):
        Store(path)
    assert _version(path) == str(now)
    with sqlite3.connect(path) as connection:
        assert "owner" not in {row[1] for row in connection.execute("PRAGMA table_info(runs)")}


def test_a_store_too_old_to_bring_up_to_date_is_one_clear_line(path: Path) -> None:
    _set_version(path, "0")
    with pytest.raises(StoreError, match="schema 0, which this palestra cannot bring up to date"):
        Store(path)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_many_may_open_a_new_store_at_once(tmp_path: Path, kind: str, request: pytest.FixtureRequest) -> None:
    where = str(tmp_path / "new.db")
    if kind == "postgresql":
        where = request.getfixturevalue("postgres_url")
        empty = request.getfixturevalue("postgres")
        with empty.engine.begin() as connection:
            connection.execute(text("DROP SCHEMA public CASCADE; CREATE SCHEMA public"))
    failures: list[Exception] = []

    def open_it() -> None:
        try:
            Store(where).close()
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=open_it) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
