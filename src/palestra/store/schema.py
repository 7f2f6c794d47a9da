"""The tables of the run store, its version, and how older stores are brought up to date.

A conversation is stored as a tree: a message points to the one before it and to its text, and each text is kept once a
run. A call points to the last message of its prompt and to its reply, so a long episode costs only its new text.

A number that is not one (NaN) is NULL in a column. Texts are Unicode: half a surrogate pair becomes U+FFFD, and so does
NUL on PostgreSQL, which cannot hold it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Float,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    insert,
    inspect,
    select,
    update,
)
from sqlalchemy.exc import NoResultFound, OperationalError, ProgrammingError

from palestra.core.errors import StoreError

VERSION = 1
STUDY_SHIFT = 32  # an episode's number is study << 32 | index in the study's plan; studies count from 1
metadata = MetaData()

meta = Table("meta", metadata, Column("name", Text, primary_key=True), Column("value", Text, nullable=False))

runs = Table(
    "runs",
    metadata,
    Column("key", Integer, primary_key=True, autoincrement=True),
    Column("id", Text, nullable=False, unique=True),
    Column("system", Text, nullable=False),
    Column("status", Text, nullable=False),  # running, done, failed, interrupted, stopped
    Column("scale", Text, nullable=False),
    Column("seed", BigInteger, nullable=False),
    Column("seeds", Integer, nullable=False),
    Column("models", Text, nullable=False),  # JSON: role -> model
    Column("config", Text, nullable=False),  # JSON
    Column("options", Text, nullable=False),  # JSON: what else is needed to resume
    Column("version", Text, nullable=False),
    Column("host", Text, nullable=False),
    Column("pid", Integer, nullable=False),
    Column("heartbeat", Float, nullable=False),  # seconds since the epoch
    Column("created", Float, nullable=False),
    Column("finished", Float),
    Column("error", Text),
)

studies = Table(
    "studies",
    metadata,
    Column("run", Integer, primary_key=True, autoincrement=False),
    Column("study", Integer, primary_key=True, autoincrement=False),
    Column("name", Text, nullable=False),
    Column("plan", Text, nullable=False),  # JSON: agents, tasks (count and digest), seeds
    Column("total", Integer, nullable=False),
)


def _clustered(name: str, *columns: Column[Any]) -> Table:
    """A table whose rows lie in the order of its key: episodes and what belongs to them are written in that order."""
    return Table(name, metadata, *columns, sqlite_with_rowid=False)


def _key(name: str) -> Column[int]:
    return Column(name, BigInteger, primary_key=True, autoincrement=False)


episodes = _clustered(
    "episodes",
    _key("run"),
    _key("episode"),  # study number * 2**32 + index in the study's plan
    Column("study", Integer, nullable=False),
    Column("index", BigInteger, nullable=False),
    Column("agent", Text, nullable=False),
    Column("task", Text, nullable=False),
    Column("seed", BigInteger, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("status", Text, nullable=False),  # done, failed
    Column("reason", Text, nullable=False),
    Column("score", Float),
    Column("reward", Float),
    Column("metrics", Text, nullable=False),  # JSON
    Column("steps", Integer, nullable=False),
    Column("calls", Integer, nullable=False),
    Column("input_tokens", BigInteger, nullable=False),
    Column("output_tokens", BigInteger, nullable=False),
    Column("cached_tokens", BigInteger, nullable=False),
    Column("usd", Float, nullable=False),
    Column("model_seconds", Float, nullable=False),
    Column("started", Float, nullable=False),
    Column("seconds", Float, nullable=False),
    Column("error", Text),
    Column("output", Text),  # JSON
)

steps = _clustered(
    "steps",
    _key("run"),
    _key("episode"),
    _key("number"),
    Column("step", Integer, nullable=False),
    Column("agent", Text, nullable=False),
    Column("observation", BigInteger, nullable=False),  # texts.text
    Column("action", BigInteger, nullable=False),  # texts.text
    Column("reward", Float),
    Column("info", Text),  # JSON
)

calls = _clustered(
    "calls",
    _key("run"),
    _key("episode"),  # 0: made by the recipe itself, outside any episode
    _key("number"),
    Column("step", Integer, nullable=False),
    Column("agent", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("stage", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("engine", Text, nullable=False),
    Column("request", LargeBinary(16), nullable=False),
    Column("prompt", BigInteger),  # messages.message: the last one of the prompt
    Column("reply", BigInteger),  # messages.message
    Column("calls", Integer, nullable=False),
    Column("input_tokens", BigInteger, nullable=False),
    Column("output_tokens", BigInteger, nullable=False),
    Column("cached_tokens", BigInteger, nullable=False),
    Column("usd", Float, nullable=False),
    Column("seconds", Float, nullable=False),
    Column("finish_reason", Text, nullable=False),
    Column("started", Float, nullable=False),
    Column("retries", Integer, nullable=False),
    Column("seed", BigInteger),
    Column("error", Text),
    Column("output", Text),  # JSON
)

texts = _clustered("texts", _key("run"), _key("text"), Column("body", Text, nullable=False))

messages = _clustered(
    "messages",
    _key("run"),
    _key("message"),
    Column("parent", BigInteger),  # messages.message, None at the start of a conversation
    Column("role", Text, nullable=False),
    Column("text", BigInteger, nullable=False),  # texts.text
    Column("extra", Text),  # JSON: parts, name, tool calls
)

metrics = Table(
    "metrics",
    metadata,
    Column("run", Integer, primary_key=True, autoincrement=False),
    Column("name", Text, primary_key=True),
    Column("step", Float, primary_key=True, autoincrement=False),
    Column("value", Float),
    Column("time", Float, nullable=False),  # seconds since the epoch
)

claims = Table(
    "claims",
    metadata,
    Column("run", Integer, primary_key=True, autoincrement=False),
    Column("name", Text, primary_key=True),
    Column("position", Integer, nullable=False),
    Column("holds", Integer),  # 1, 0, or None: not shown at this scale
    Column("measured", Text, nullable=False),
    Column("evidence", Text, nullable=False),
    Column("scale", Text, nullable=False),
    Column("record", Text, nullable=False),  # JSON: the whole ClaimResult
    Column("time", Float, nullable=False),
)

artifacts = Table(
    "artifacts",
    metadata,
    Column("run", Integer, primary_key=True, autoincrement=False),
    Column("name", Text, primary_key=True),
    Column("kind", Text, nullable=False),  # figure, file, checkpoint
    Column("path", Text, nullable=False),  # relative to the run's folder
    Column("time", Float, nullable=False),
)

READABLE = {t.name: t for t in (runs, studies, episodes, steps, calls, texts, messages, metrics, claims, artifacts)}

# MIGRATIONS[n] turns a store of version n into version n + 1, inside the transaction that records it.
MIGRATIONS: dict[int, Callable[[Connection], None]] = {}


def current(connection: Connection) -> bool:
    """Whether the database is a store of this version; says nothing of why it is not."""
    if not inspect(connection).has_table("meta"):
        return False
    return _version(connection) == VERSION


def prepare(connection: Connection) -> None:
    """Create the tables, or bring an older store up to date.

    Raises:
        StoreError: the store was written by a newer palestra, or is some other database.
    """
    found = set(inspect(connection).get_table_names())
    if "meta" not in found:
        if found if connection.dialect.name == "sqlite" else found & metadata.tables.keys():
            raise StoreError("this database has tables of another program: choose another --store")
        metadata.create_all(connection)
        connection.execute(insert(meta).values(name="schema", value=str(VERSION)))
        return
    version = _version(connection)
    if version > VERSION:
        raise StoreError(f"the store has schema {version}, this palestra reads up to {VERSION}: upgrade palestra")
    for step in range(version, VERSION):
        if step not in MIGRATIONS:
            raise StoreError(f"the store has schema {version}, which this palestra cannot bring up to date")
        MIGRATIONS[step](connection)
        connection.execute(update(meta).where(meta.c.name == "schema").values(value=str(step + 1)))


def _version(connection: Connection) -> int:
    try:
        return int(connection.execute(select(meta.c.value).where(meta.c.name == "schema")).scalar_one())
    except (NoResultFound, ProgrammingError, OperationalError, ValueError) as error:
        if isinstance(error, OperationalError) and "no such column" not in str(error):
            raise
        raise StoreError("this database has tables of another program: choose another --store") from None
