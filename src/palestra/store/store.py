"""The run store: one database that holds everything runs recorded. SQLite (WAL) by default, PostgreSQL by URL.

Opening is cheap and safe for several processes at once. Writing goes through `Writer`; this file opens, lists and
starts runs. Reading back as records and tables is in `reading`.
"""

from __future__ import annotations

import os
import secrets
import socket
import sqlite3
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import Connection, Engine, create_engine, delete, event, insert, select, update
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from palestra.core.errors import BadInput, MissingExtra, StoreError, nearest
from palestra.store import schema

DEFAULT = "palestra-runs/store.db"
ENVIRONMENT = "PALESTRA_STORE"
STALE = 60.0  # seconds without a heartbeat after which a run on another machine counts as dead


class RunRow(msgspec.Struct, frozen=True):
    """A run as the store describes it."""

    key: int
    id: str
    system: str
    status: str
    scale: str
    seed: int
    seeds: int
    models: dict[str, str]
    config: dict[str, Any]
    options: dict[str, Any]
    version: str
    host: str
    pid: int
    heartbeat: float
    created: float
    finished: float | None
    error: str | None

    @property
    def alive(self) -> bool:
        """Whether the process that executes the run still lives."""
        if self.status != "running":
            return False
        if self.host != socket.gethostname():
            return time.time() - self.heartbeat < STALE
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return True


class Store:
    """A run store.

    Args:
        where: a file path, or a database URL (`sqlite:///…`, `postgresql://…`); by default `$PALESTRA_STORE`, else
            `palestra-runs/store.db` below the working folder.

    Raises:
        BadInput: the URL is malformed or of an unknown database.
        StoreError: the database cannot be opened, or its schema is newer than this palestra.
    """

    def __init__(self, where: str | os.PathLike[str] | None = None) -> None:
        self.where = os.fspath(where or os.environ.get(ENVIRONMENT) or DEFAULT)
        self.engine, self.folder = _engine(self.where)
        try:
            with self.engine.begin() as connection:
                if self.engine.dialect.name == "sqlite":
                    connection.exec_driver_sql("BEGIN IMMEDIATE")  # two processes may create the store at once
                schema.prepare(connection)
        except StoreError:
            self.close()
            raise
        except SQLAlchemyError as error:
            self.close()
            raise store_error(error, self.where) from None

    def __repr__(self) -> str:
        return f"Store({self.where!r})"

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()

    def begin(
        self,
        system: str,
        *,
        scale: str,
        seed: int,
        seeds: int,
        models: dict[str, str],
        config: dict[str, Any],
        options: dict[str, Any],
        version: str,
    ) -> RunRow:
        """Record that a run starts now, in this process."""
        now = time.time()
        stamp = time.strftime("%y%m%d-%H%M%S", time.localtime(now))
        values = {
            "id": f"{system}-{stamp}-{secrets.token_hex(2)}",
            "system": system,
            "status": "running",
            "scale": scale,
            "seed": seed,
            "seeds": seeds,
            "models": _json(models),
            "config": _json(config),
            "options": _json(options),
            "version": version,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "heartbeat": now,
            "created": now,
        }
        with self.write() as connection:
            connection.execute(insert(schema.runs).values(values))
        return self.run(str(values["id"]))

    def take(self, run: RunRow) -> RunRow:
        """Make this process the one that executes `run`.

        Raises:
            StoreError: a living process executes it already.
        """
        if run.alive and not (run.pid == os.getpid() and run.host == socket.gethostname()):
            raise StoreError(
                f"run {run.id} is being executed by process {run.pid} on {run.host}: wait or stop it first"
            )
        with self.write() as connection:
            connection.execute(
                update(schema.runs)
                .where(schema.runs.c.key == run.key)
                .values(
                    status="running",
                    pid=os.getpid(),
                    host=socket.gethostname(),
                    heartbeat=time.time(),
                    finished=None,
                    error=None,
                )
            )
        return self.run(run.id)

    def finish(self, run: RunRow, status: str, *, error: str | None = None) -> None:
        """Record how the run ended: done, failed, interrupted or stopped (out of budget)."""
        with self.write() as connection:
            connection.execute(
                update(schema.runs)
                .where(schema.runs.c.key == run.key)
                .values(status=status, finished=time.time(), error=error)
            )

    def discard(self, run: RunRow) -> bool:
        """Forget a run that recorded nothing; returns whether it was forgotten."""
        with self.write() as connection:
            for table in (schema.studies, schema.episodes, schema.claims, schema.metrics, schema.artifacts):
                if connection.execute(select(table.c.run).where(table.c.run == run.key).limit(1)).first() is not None:
                    return False
            connection.execute(delete(schema.runs).where(schema.runs.c.key == run.key))
        return True

    def runs(self, *, system: str | None = None, limit: int | None = None) -> list[RunRow]:
        """Runs, newest first."""
        query = select(schema.runs).order_by(schema.runs.c.key.desc())
        if system is not None:
            query = query.where(schema.runs.c.system == system)
        with self.read() as connection:
            return [_run_row(row) for row in connection.execute(query.limit(limit)).mappings()]

    def run(self, id: str = "last") -> RunRow:
        """The run called `id`; `last` is the newest; the start of an id suffices when it fits only one.

        Raises:
            BadInput: no run, or several, have this id.
        """
        table = schema.runs
        query = select(table).order_by(table.c.key.desc())
        with self.read() as connection:
            if id == "last":
                found = connection.execute(query.limit(1)).mappings().all()
            else:
                found = connection.execute(query.where(table.c.id == id)).mappings().all()
                if not found and id:
                    found = connection.execute(query.where(table.c.id.startswith(id, autoescape=True))).mappings().all()
            if len(found) == 1:
                return _run_row(found[0])
            ids = [row["id"] for row in found] or list(connection.execute(select(table.c.id)).scalars())
        if not ids:
            raise BadInput("run", id, f"the id of a run, and {self.where} holds none yet")
        if found:
            raise BadInput("run", id, f"an id that fits one run, and {len(found)} start like this")
        near = nearest(id, ids) or max(ids)
        raise BadInput("run", id, "the id of a run (see `palestra list runs`)", choices=[near])

    def path(self, run: RunRow) -> Path:
        """The folder of the run's figures and artifacts; made when missing."""
        folder = self.folder / run.id
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def read(self) -> Connection:
        """A connection for reading, as a context manager."""
        try:
            return self.engine.connect()
        except SQLAlchemyError as error:
            raise store_error(error, self.where) from None

    def write(self) -> _Writing:
        """A transaction, as a context manager; database errors become `StoreError`."""
        return _Writing(self)


class _Writing:
    def __init__(self, store: Store) -> None:
        self.store = store
        self._context = store.engine.begin()

    def __enter__(self) -> Connection:
        return self._context.__enter__()

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        try:
            self._context.__exit__(kind, error, trace)
        except SQLAlchemyError as failure:
            raise store_error(failure, self.store.where) from None
        if isinstance(error, SQLAlchemyError):
            raise store_error(error, self.store.where) from None


def store_error(error: SQLAlchemyError, where: str) -> StoreError:
    """The one clear line for a database error."""
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    text = " ".join(str(cause).split())
    if "disk is full" in text or "No space left" in text:
        return StoreError(f"the disk of the store {where} is full: free some space, then `palestra resume`")
    if "locked" in text:
        return StoreError(f"the store {where} is locked by another program")
    if "not a database" in text or "malformed" in text:
        return StoreError(f"{where} is not a palestra store: {text}")
    return StoreError(f"the store {where} failed: {text[:200]}")


def _engine(where: str) -> tuple[Engine, Path]:
    if "://" not in where:
        path = Path(where).expanduser()
        if path.is_dir():
            path = path / "store.db"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"the folder of the store {where} cannot be made: {error.strerror}") from None
        return _sqlite(f"sqlite:///{path}"), path.parent
    try:
        url = make_url(where)
    except ArgumentError:
        raise BadInput("store", where, "a file path, sqlite:///FILE or postgresql://USER@HOST/NAME") from None
    backend = url.get_backend_name()
    if backend == "sqlite":
        path = Path(url.database or "")
        path.parent.mkdir(parents=True, exist_ok=True)
        return _sqlite(where), path.parent
    if backend != "postgresql":
        raise BadInput("store", where, choices=("sqlite", "postgresql"))
    if find_spec("psycopg") is None:
        raise MissingExtra("psycopg", "postgres")
    return create_engine(url.set(drivername="postgresql+psycopg")), Path(DEFAULT).parent


def _sqlite(url: str) -> Engine:
    engine = create_engine(url, connect_args={"timeout": 60, "check_same_thread": False})

    @event.listens_for(engine, "connect")
    def _(connection: sqlite3.Connection, _record: object) -> None:  # pyright: ignore[reportUnusedFunction]
        cursor = connection.cursor()
        cursor.execute("PRAGMA journal_mode=WAL")
        cursor.execute("PRAGMA synchronous=FULL")  # a commit is on disk when it returns
        cursor.execute("PRAGMA cache_size=-65536")
        cursor.execute("PRAGMA mmap_size=268435456")
        cursor.close()

    return engine


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _run_row(row: Any) -> RunRow:
    values = dict(row)
    for name in ("models", "config", "options"):
        values[name] = msgspec.json.decode(values[name])
    return RunRow(**values)
