"""Writes episodes with group commit: what is handed over while one commit is being flushed goes into the next.

An episode is acknowledged only after its commit has returned, with everything that belongs to it or nothing. One
thread does all the writing of a run, so numbers need no coordination, and the event loop never waits for the disk.
An episode whose content the database refuses is kept as a failed one, so that it costs its neighbours nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, TypeAlias

from sqlalchemy import Connection, Table, delete, func, select, update
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, NotSupportedError, ProgrammingError, SQLAlchemyError

from palestra.core.errors import StoreError
from palestra.core.records import Call, Episode, Usage
from palestra.store import schema
from palestra.store.codec import encode
from palestra.store.conversations import Conversations
from palestra.store.schema import STUDY_SHIFT
from palestra.store.store import RunRow, Store, store_error

BATCH = 4096  # episodes in one transaction at most
LINGER = 0.005  # seconds to wait for company under load: keeps fsync from setting the pace
HEARTBEAT = 10.0  # seconds between signs of life
RECIPE = 0  # stands in the place of an episode's number for calls that a recipe makes outside any episode
REFUSED = (DataError, IntegrityError, NotSupportedError, ProgrammingError)  # the content's fault, not the database's

Row = tuple[Any, ...]


Handed: TypeAlias = tuple[int, int, Episode, Any]  # study, index, episode, token


def episode_number(study: int, index: int) -> int:
    """The number of an episode within its run."""
    return study << STUDY_SHIFT | index


class Writer:
    """The one writer of a run.

    Args:
        on_saved: called in the writer's thread with the tokens of episodes that are on disk now.
        on_failure: called in the writer's thread when the store has failed; nothing is written after that.
    """

    def __init__(
        self,
        store: Store,
        run: RunRow,
        *,
        on_saved: Callable[[list[Any]], None] = lambda tokens: None,
        on_failure: Callable[[StoreError], None] = lambda error: None,
    ) -> None:
        self.store, self.run = store, run
        self.on_saved, self.on_failure = on_saved, on_failure
        self.failure: StoreError | None = None
        self._episodes: list[Handed] = []
        self._rows: list[tuple[Table, dict[str, Any]]] = []
        self._calls: list[Call] = []
        self._calls_written = 0
        self._busy = False
        self._closing = False
        self._beat = time.time()
        self._changed = threading.Condition()
        with store.read() as connection:
            last_text = connection.execute(
                select(func.max(schema.texts.c.text)).where(schema.texts.c.run == run.key)
            ).scalar()
            last_message = connection.execute(
                select(func.max(schema.messages.c.message)).where(schema.messages.c.run == run.key)
            ).scalar()
        nul = store.engine.dialect.name == "sqlite"
        self._conversations = Conversations(run.key, (last_text or 0) + 1, (last_message or 0) + 1, nul=nul)
        self._thread = threading.Thread(target=self._work, name=f"store-{run.id}", daemon=True)
        self._thread.start()

    def episode(self, study: int, episode: Episode, token: Any = None) -> None:
        """Hand over a finished episode; `token` comes back in `on_saved`."""
        with self._changed:
            self._raise_failure()
            self._episodes.append((study, episode.index, episode, token))
            self._changed.notify_all()

    def row(self, table: Table, values: dict[str, Any]) -> None:
        """Hand over a row of `metrics`, `claims`, `artifacts` or `studies`; one with the same key is replaced."""
        with self._changed:
            self._raise_failure()
            self._rows.append((table, values))
            self._changed.notify_all()

    def calls(self, calls: list[Call]) -> None:
        """Hand over calls that the recipe made outside any episode. They replace those of an earlier execution."""
        with self._changed:
            self._raise_failure()
            self._calls.extend(calls)
            self._changed.notify_all()

    @property
    def waiting(self) -> int:
        """How many episodes are handed over and not yet in a commit."""
        return len(self._episodes)

    def flush(self) -> None:
        """Return when everything handed over is on disk.

        Raises:
            StoreError: it could not be written.
        """
        with self._changed:
            self._changed.wait_for(lambda: self.failure or not (self._pending() or self._busy))
            self._raise_failure()

    def forget(self, study: int, indices: Iterable[int]) -> None:
        """Delete episodes that are to run again. What they shared with others stays."""
        numbers = [episode_number(study, index) for index in indices]
        with self.store.write() as connection:
            for start in range(0, len(numbers), 500):
                some = numbers[start : start + 500]
                for table in (schema.episodes, schema.steps, schema.calls):
                    connection.execute(delete(table).where(table.c.run == self.run.key, table.c.episode.in_(some)))

    def close(self) -> None:
        """Write what is left and stop the thread."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join()

    def _raise_failure(self) -> None:
        if self.failure is not None:
            raise self.failure

    def _pending(self) -> bool:
        return bool(self._episodes or self._rows or self._calls)

    def _work(self) -> None:
        connection: Connection | None = None
        while True:
            with self._changed:
                ready = self._changed.wait_for(lambda: self._pending() or self._closing, HEARTBEAT)
                if ready and not self._pending():
                    break
                if len(self._episodes) > 1 and not self._closing:
                    self._changed.wait(LINGER)
                episodes, self._episodes = self._episodes[:BATCH], self._episodes[BATCH:]
                rows, self._rows = self._rows, []
                calls, self._calls = self._calls, []
                self._busy = True
            try:
                if connection is None:
                    connection = self.store.engine.connect()
                self._commit(connection, episodes, rows, calls)
                if episodes:
                    self.on_saved([token for *_, token in episodes])
            except SQLAlchemyError as error:
                self._fail(store_error(error, self.store.where))
                break
            except Exception as error:  # what cannot be written must not look as if it were saved
                self._fail(StoreError(f"the run cannot be stored: {type(error).__name__}: {error}"))
                break
            with self._changed:
                self._busy = False
                self._changed.notify_all()
        if connection is not None:
            with suppress(SQLAlchemyError):
                connection.close()

    def _fail(self, error: StoreError) -> None:
        with self._changed:
            self.failure = error
            self._busy = False
            self._changed.notify_all()
        self.on_failure(error)

    def _commit(
        self, connection: Connection, episodes: list[Handed], rows: list[tuple[Table, Any]], calls: list[Call]
    ) -> None:
        """Everything in one transaction; when some content is refused, one episode at a time."""
        talk = self._conversations
        start = talk.next_text, talk.next_message
        try:
            with connection.begin():
                self._write(connection, episodes, rows, calls)
        except Exception as error:
            if not episodes or not _refused(error):
                raise
            talk.restart(*start)
            for one in episodes:
                self._commit_one(connection, one)
            with connection.begin():
                self._write(connection, [], rows, calls)

    def _commit_one(self, connection: Connection, handed: Handed) -> None:
        talk = self._conversations
        start = talk.next_text, talk.next_message
        try:
            with connection.begin():
                self._write(connection, [handed], [], [])
        except Exception as error:
            if not _refused(error):
                raise
            talk.restart(*start)
            _strip(handed[2], error)
            with connection.begin():
                self._write(connection, [handed], [], [])

    def _write(
        self, connection: Connection, episodes: list[Handed], rows: list[tuple[Table, Any]], calls: list[Call]
    ) -> None:
        talk = self._conversations
        episode_rows: list[Row] = []
        step_rows: list[Row] = []
        call_rows: list[Row] = []
        for study, index, episode, _ in episodes:
            number = episode_number(study, index)
            episode_rows.append(_episode_row(self.run.key, number, study, episode, talk))
            step_rows.extend(_step_rows(self.run.key, number, episode, talk))
            call_rows.extend(_call_rows(self.run.key, number, episode.calls, talk))
        if calls:
            if not self._calls_written:
                mine = schema.calls.c.run == self.run.key, schema.calls.c.episode == RECIPE
                connection.execute(delete(schema.calls).where(*mine))
            call_rows.extend(_call_rows(self.run.key, RECIPE, calls, talk, first=self._calls_written))
            self._calls_written += len(calls)
        _insert(connection, schema.texts, talk.take_texts())
        _insert(connection, schema.messages, talk.take_messages())
        _insert(connection, schema.steps, step_rows)
        _insert(connection, schema.calls, call_rows)
        _insert(connection, schema.episodes, episode_rows)
        for table, values in rows:
            keys = [column for column in table.primary_key.columns if column.name in values]
            if keys:
                connection.execute(delete(table).where(*(column == values[column.name] for column in keys)))
            connection.execute(table.insert().values(values))
        now = time.time()
        if now - self._beat > HEARTBEAT:
            self._beat = now
            runs = schema.runs
            connection.execute(update(runs).where(runs.c.key == self.run.key).values(heartbeat=now))


def _refused(error: Exception) -> bool:
    """Whether `error` speaks of what was to be written, and not of the database or its disk."""
    return isinstance(error, REFUSED) if isinstance(error, DBAPIError) else not isinstance(error, OSError | MemoryError)


def _strip(episode: Episode, error: Exception) -> None:
    """Turn an episode that the database refuses into a failed one that says why."""
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    text = " ".join(f"{type(cause).__name__}: {cause}".split())
    episode.status, episode.reason, episode.score, episode.reward = "failed", "error", None, 0.0
    episode.error = f"what this episode recorded cannot be stored: {text}".encode("ascii", "backslashreplace").decode()
    episode.metrics, episode.steps, episode.calls, episode.output, episode.usage = {}, [], [], None, Usage()


def _insert(connection: Connection, table: Table, rows: list[Row]) -> None:
    """Insert full rows. Plain driver statements: building expressions for each row costs more than the insert."""
    if not rows:
        return
    mark = "?" if connection.dialect.paramstyle == "qmark" else "%s"
    marks = ", ".join([mark] * len(table.columns))
    names = ", ".join(f'"{column.name}"' for column in table.columns)
    connection.exec_driver_sql(f'INSERT INTO "{table.name}" ({names}) VALUES ({marks})', rows)


def _optional_json(value: Any) -> str | None:
    return None if value is None else encode(value)


def _episode_row(run: int, number: int, study: int, episode: Episode, talk: Conversations) -> Row:
    usage = episode.usage
    return (
        run,
        number,
        study,
        episode.index,
        episode.agent,
        episode.task,
        episode.seed,
        episode.attempt,
        episode.status,
        episode.reason,
        None if episode.score != episode.score else episode.score,  # PostgreSQL would keep NaN, SQLite does not
        None if episode.reward != episode.reward else episode.reward,
        encode(episode.metrics),
        len(episode.steps),
        len(episode.calls),
        usage.input_tokens,
        usage.output_tokens,
        usage.cached_tokens,
        usage.usd,
        usage.seconds,
        episode.started,
        episode.seconds,
        None if episode.error is None else talk.clean(episode.error),
        _optional_json(episode.output),
    )


def _step_rows(run: int, number: int, episode: Episode, talk: Conversations) -> Iterable[Row]:
    for position, step in enumerate(episode.steps):
        info = encode(step.info) if step.info else None
        seen, done = talk.text(step.observation), talk.text(step.action)
        reward = None if step.reward != step.reward else step.reward
        yield run, number, position, step.index, step.agent, seen, done, reward, info


def _call_rows(run: int, number: int, calls: list[Call], talk: Conversations, *, first: int = 0) -> Iterable[Row]:
    for position, call in enumerate(calls, first):
        prompt: int | None = None
        for message in call.messages:
            prompt = talk.message(prompt, message)
        usage = call.usage
        yield (
            run,
            number,
            position,
            call.step,
            call.agent,
            call.role,
            call.stage,
            call.kind,
            call.model,
            call.engine,
            call.request,
            prompt,
            None if call.reply is None else talk.message(prompt, call.reply),
            usage.calls,
            usage.input_tokens,
            usage.output_tokens,
            usage.cached_tokens,
            usage.usd,
            usage.seconds,
            call.finish_reason,
            call.started,
            call.retries,
            call.seed,
            None if call.error is None else talk.clean(call.error),
            _optional_json(call.output),
        )
