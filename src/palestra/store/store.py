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
from collections.abc import Callable
from contextlib import AbstractContextManager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import URL, Connection, Engine, create_engine, delete, event, insert, select, update
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, SQLAlchemyError

from palestra.core.errors import BadInput, MissingExtra, StoreError, nearest
from palestra.store import schema
from palestra.store.codec import decode, encode

DEFAULT = "palestra-runs/store.db"
ENVIRONMENT = "PALESTRA_STORE"
STALE = 60.0  # seconds without a heartbeat after which a run on another machine counts as dead
BUSY = 60.0  # seconds to wait for another process that writes
_ALONE = {"sqlite": "BEGIN IMMEDIATE", "postgresql": "SELECT pg_advisory_xact_lock(7262378)"}


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
        fresh = time.time() - self.heartbeat < STALE
        if self.host != socket.gethostname():
            return fresh
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass
        started = _process_start(self.pid)  # numbers of dead processes are given out again, soonest in containers
        return fresh if started is None else started <= self.heartbeat + 1.0


class Store:
    """A run store.

    Args:
        where: a file path, or a database URL (`sqlite:///…`, `postgresql://…`); by default `$PALESTRA_STORE`, else
            `palestra-runs/store.db` below the working folder.
        create: make a store that does not exist; otherwise that is a `BadInput`.

    Attributes:
        where: where it is, without a password; `option` is what a command needs to find it again.

    Raises:
        BadInput: the URL is malformed or of an unknown database.
        StoreError: the database cannot be opened, or its schema is newer than this palestra.
    """

    def __init__(self, where: str | os.PathLike[str] | None = None, *, create: bool = True) -> None:
        usual = os.environ.get(ENVIRONMENT) or DEFAULT
        given = os.fspath(usual if where is None else where)
        if not given.strip():
            raise BadInput("store", given, "a file path or a database URL")
        if not create and not _exists(given):
            raise BadInput("store", given, "a store that exists: nothing has been recorded there yet")
        self.engine, self.folder = _engine(given)
        file = self.engine.url.database if self.engine.dialect.name == "sqlite" else None
        self.where = file or make_url(given).render_as_string()  # hides a password
        self.option = "" if given == usual else f" --store {self.where}"
        try:
            with self.read() as connection:
                ready = schema.current(connection)
            if not ready:
                with self.write() as connection:
                    connection.exec_driver_sql(_ALONE[self.engine.dialect.name])  # two processes may create it at once
                    schema.prepare(connection)
        except StoreError:
            self.close()
            raise

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
            "system": system,
            "status": "running",
            "scale": scale,
            "seed": seed,
            "seeds": seeds,
            "models": encode(models),
            "config": encode(config),
            "options": encode(options),
            "version": version,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "heartbeat": now,
            "created": now,
        }
        for length in (2, 4, 8):  # bytes: a short suffix may be taken when many runs start within one second
            name = f"{system}-{stamp}-{secrets.token_hex(length)}"
            try:
                with self.engine.begin() as connection:
                    connection.execute(insert(schema.runs).values(id=name, **values))
                return self.run(name)
            except IntegrityError:
                continue
            except SQLAlchemyError as error:
                raise store_error(error, self.where) from None
        raise StoreError(f"the store {self.where} has no free id for a run")

    def take(self, run: RunRow) -> RunRow:
        """Make this process the one that executes `run`.

        Raises:
            StoreError: a living process executes it already.
        """
        mine = run.pid == os.getpid() and run.host == socket.gethostname()
        if run.alive and not mine:
            raise StoreError(
                f"run {run.id} is being executed by process {run.pid} on {run.host}: wait or stop it first"
            )
        table = schema.runs
        as_read = (table.c.pid == run.pid, table.c.host == run.host, table.c.heartbeat == run.heartbeat)
        with self.write() as connection:
            taken = connection.execute(
                update(table)
                .where(table.c.key == run.key, *as_read)
                .values(
                    status="running",
                    pid=os.getpid(),
                    host=socket.gethostname(),
                    heartbeat=time.time(),
                    finished=None,
                    error=None,
                )
            )
        if taken.rowcount != 1:
            raise StoreError(f"run {run.id} was just taken by another process: wait or stop it first")
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

    def unfinished(self) -> RunRow:
        """The newest run that is not done; when all are done, the newest."""
        runs = self.runs()
        return next((run for run in runs if run.status != "done"), None) or self.run("last")

    def path(self, run: RunRow) -> Path:
        """The folder of the run's figures and artifacts; made when missing."""
        folder = self.folder / run.id
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def read(self) -> _Guarded:
        """A connection for reading, as a context manager; database errors become `StoreError`."""
        return _Guarded(self, self.engine.connect)

    def write(self) -> _Guarded:
        """A transaction, as a context manager; database errors become `StoreError`."""
        return _Guarded(self, self.engine.begin)


class _Guarded:
    """A connection or transaction whose database errors, on entry, within and on exit, become `StoreError`."""

    def __init__(self, store: Store, make: Callable[[], AbstractContextManager[Connection]]) -> None:
        self._store, self._make = store, make

    def __enter__(self) -> Connection:
        try:
            self._context = self._make()
            return self._context.__enter__()
        except SQLAlchemyError as failure:
            raise store_error(failure, self._store.where) from None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        try:
            self._context.__exit__(kind, error, trace)
        except SQLAlchemyError as failure:
            raise store_error(failure, self._store.where) from None
        if isinstance(error, SQLAlchemyError):
            raise store_error(error, self._store.where) from None


def store_error(error: SQLAlchemyError, where: str) -> StoreError:
    """The one clear line for a database error."""
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    text = " ".join(str(cause).split())
    if "disk is full" in text or "No space left" in text:
        return StoreError(f"the disk of the store {where} is full: free some space, then `palestra resume`")
    if "locked" in text:
        return StoreError(f"the store {where} is locked by another program")
    if "not a database" in text:
        return StoreError(f"{where} is not a palestra store: {text}")
    if "malformed" in text:
        return StoreError(f"the store {where} is damaged ({text}): restore a copy, or see `sqlite3 FILE .recover`")
    return StoreError(f"the store {where} failed: {text[:200]}")


def _exists(where: str) -> bool:
    if "://" in where:
        if not where.startswith("sqlite"):
            return True  # a server answers for itself
        where = make_url(where).database or ""
    path = Path(where).expanduser()
    return (path / "store.db" if path.is_dir() else path).is_file()


def _engine(where: str) -> tuple[Engine, Path]:
    forms = "a file path, sqlite:///FILE or postgresql://USER@HOST/NAME"
    if "://" not in where:
        return _sqlite(where, Path(where).expanduser())
    try:
        url = make_url(where)
    except (ArgumentError, ValueError):
        raise BadInput("store", where, forms) from None
    backend = url.get_backend_name()
    if backend == "sqlite":
        return _sqlite(where, Path(url.database or ":memory:"))
    if backend != "postgresql":
        raise BadInput("store", where, forms, choices=("sqlite", "postgresql"))
    if find_spec("psycopg") is None:
        raise MissingExtra("psycopg", "postgres")
    return create_engine(url.set(drivername="postgresql+psycopg")), Path(DEFAULT).parent


def _sqlite(where: str, path: Path) -> tuple[Engine, Path]:
    if str(path).startswith(":memory:") or "\0" in where:
        raise BadInput("store", where, "a file: a run is written and read through several connections")
    try:
        if path.is_dir():
            path = path / "store.db"
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"the folder of the store {where} cannot be made: {error.strerror}") from None
    url = URL.create("sqlite", database=str(path))
    engine = create_engine(url, connect_args={"timeout": BUSY, "check_same_thread": False})

    @event.listens_for(engine, "connect")
    def _(connection: sqlite3.Connection, _record: object) -> None:  # pyright: ignore[reportUnusedFunction]
        cursor = connection.cursor()
        cursor.execute("PRAGMA journal_mode=WAL")
        cursor.execute("PRAGMA synchronous=FULL")  # a commit is on disk when it returns
        cursor.execute("PRAGMA cache_size=-65536")
        cursor.execute("PRAGMA mmap_size=268435456")
        cursor.close()

    return engine, path.parent


def _process_start(pid: int) -> float | None:
    """When process `pid` started, seconds since the epoch; None where the system does not tell."""
    try:
        ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
        boot = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime "))
        return int(boot.split()[1]) + int(ticks) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, StopIteration):
        return None


def _run_row(row: Any) -> RunRow:
    values = dict(row)
    for name in ("models", "config", "options"):
        values[name] = decode(values[name])
    return RunRow(**values)
