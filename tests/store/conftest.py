"""Stores of every kind, and the way from episodes to what is read back."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from palestra.core import Call, Episode, Message, Step, Usage
from palestra.store import Reading, RunRow, Store, Writer


def begin(store: Store, system: str = "test", **changes: Any) -> RunRow:
    """A new run of `store`."""
    options: dict[str, Any] = {"scale": "smoke", "seed": 0, "seeds": 1, "models": {}, "config": {}, "options": {}}
    return store.begin(system, **(options | {"version": "0"} | changes))


def record(store: Store, episodes: Sequence[Episode], *, run: RunRow | None = None) -> Reading:
    """Write `episodes` as study 1 and return what is read back."""
    row = run or begin(store)
    writer = Writer(store, row)
    for episode in episodes:
        writer.episode(1, episode)
    writer.flush()
    writer.close()
    return Reading(store, row)


def call(*said: str, reply: str | None = None, **changes: Any) -> Call:
    """A call whose prompt is `said`, user and assistant in turn."""
    messages = tuple(Message("assistant" if n % 2 else "user", text) for n, text in enumerate(said))
    values: dict[str, Any] = {
        "agent": "a", "role": "", "stage": "", "step": 0, "kind": "complete", "model": "m", "engine": "e",
        "request": bytes(16), "messages": messages, "reply": None if reply is None else Message("assistant", reply),
        "usage": Usage(1, 2, 3), "finish_reason": "stop", "started": 1.5,
    }  # fmt: skip
    return Call(**(values | changes))


def episode(index: int = 0, **changes: Any) -> Episode:
    """A small episode of study 1."""
    return Episode(**({"study": "1", "index": index, "agent": "a", "task": f"t/{index}", "seed": 7} | changes))


def step(index: int, observation: str, action: str, reward: float = 0.0, **info: Any) -> Step:
    return Step(index, "a", observation, action, reward, info)


class Kit:
    """The helpers above under one name, for tests to ask for."""

    begin, record, call, episode, step = map(staticmethod, (begin, record, call, episode, step))


@pytest.fixture
def kit() -> type[Kit]:
    return Kit


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A PostgreSQL server of our own, on a socket in a temporary folder; stopped in the end."""
    pytest.importorskip("psycopg")
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), reverse=True)  # as Debian has it
    found = shutil.which("initdb") or next(iter(installed), None)
    if found is None:
        pytest.skip("PostgreSQL is not installed")
    programs = Path(found).resolve().parent
    with tempfile.TemporaryDirectory(prefix="pg") as folder:
        as_user: dict[str, Any] = {}
        if Path("/").owner() == "root" and subprocess.run(["id", "-u"], capture_output=True, text=True).stdout == "0\n":
            shutil.chown(folder, "nobody")  # the server refuses to run as root
            as_user = {"user": "nobody"}
        data = f"{folder}/data"
        quiet: dict[str, Any] = {
            "check": True,
            "stdout": subprocess.DEVNULL,
            "stderr": subprocess.DEVNULL,
            "cwd": folder,
        }
        subprocess.run(
            [programs / "initdb", "-D", data, "-U", "p", "-A", "trust", "-E", "UTF8", "-N"], **quiet, **as_user
        )
        server = subprocess.Popen(
            [programs / "postgres", "-D", data, "-k", folder, "-c", "listen_addresses=", "-c", "fsync=off"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            **as_user,
        )
        try:
            deadline = time.monotonic() + 30
            ready = [programs / "pg_isready", "-h", folder, "-U", "p", "-d", "postgres"]
            while subprocess.run(ready, capture_output=True).returncode:
                assert time.monotonic() < deadline, "the PostgreSQL server does not start"
                time.sleep(0.05)
            yield f"postgresql://p@/postgres?host={folder}"
        finally:
            server.terminate()
            server.wait(30)


@pytest.fixture
def postgres(postgres_url: str) -> Iterator[Store]:
    """A new, empty store on PostgreSQL."""
    from sqlalchemy import text

    store = Store(postgres_url)
    yield store
    with store.engine.begin() as connection:
        connection.execute(text("DROP SCHEMA public CASCADE; CREATE SCHEMA public"))
    store.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def any_store(request: pytest.FixtureRequest) -> Store:
    """A new, empty store of each kind."""
    fixture: Callable[[str], Any] = request.getfixturevalue
    return fixture("store" if request.param == "sqlite" else "postgres")
