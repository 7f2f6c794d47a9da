"""Writes episodes with group commit: what is handed over while one commit is being flushed goes into the next.

An episode is acknowledged only after its commit has returned, with everything that belongs to it or nothing. One
thread does all the writing of a run, so numbers need no coordination, and the event loop never waits for the disk.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from sqlalchemy import Connection, Table, delete, func, select, update
from sqlalchemy.exc import SQLAlchemyError

from palestra.core.errors import StoreError
from palestra.core.records import Episode, Message
from palestra.store import schema
from palestra.store.store import RunRow, Store, store_error

STUDY_SHIFT = 32  # an episode's number is study << 32 | index
BATCH = 4096  # episodes in one transaction at most
LINGER = 0.005  # seconds to wait for company under load: keeps fsync from setting the pace
HEARTBEAT = 10.0  # seconds between signs of life
KNOWN = 100_000  # texts and messages remembered for sharing, per generation

Row = tuple[Any, ...]
_encoder = msgspec.json.Encoder(enc_hook=str)


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
        self._episodes: list[tuple[int, int, Episode, Any]] = []
        self._rows: list[tuple[Table, dict[str, Any]]] = []
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
        self._conversations = _Conversations(run.key, (last_text or 0) + 1, (last_message or 0) + 1)
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
            self._changed.wait_for(lambda: self.failure or not (self._episodes or self._rows or self._busy))
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

    def _work(self) -> None:
        connection: Connection | None = None
        while True:
            with self._changed:
                ready = self._changed.wait_for(lambda: self._episodes or self._rows or self._closing, HEARTBEAT)
                if ready and not (self._episodes or self._rows):
                    break
                if len(self._episodes) > 1 and not self._closing:
                    self._changed.wait(LINGER)
                episodes, self._episodes = self._episodes[:BATCH], self._episodes[BATCH:]
                rows, self._rows = self._rows, []
                self._busy = True
            try:
                if connection is None:
                    connection = self.store.engine.connect()
                with connection.begin():
                    self._write(connection, episodes, rows)
            except SQLAlchemyError as error:
                self._fail(store_error(error, self.store.where))
                break
            except Exception as error:  # an episode that cannot be encoded must not look like one that is saved
                self._fail(StoreError(f"an episode cannot be stored: {type(error).__name__}: {error}"))
                break
            if episodes:
                self.on_saved([token for *_, token in episodes])
            with self._changed:
                self._busy = False
                self._changed.notify_all()
        if connection is not None:
            connection.close()

    def _fail(self, error: StoreError) -> None:
        with self._changed:
            self.failure = error
            self._busy = False
            self._changed.notify_all()
        self.on_failure(error)

    def _write(
        self, connection: Connection, episodes: list[tuple[int, int, Episode, Any]], rows: list[tuple[Table, Any]]
    ) -> None:
        talk = self._conversations
        episode_rows: list[Row] = []
        step_rows: list[Row] = []
        call_rows: list[Row] = []
        for study, index, episode, _ in episodes:
            number = episode_number(study, index)
            episode_rows.append(_episode_row(self.run.key, number, study, episode))
            step_rows.extend(_step_rows(self.run.key, number, episode, talk))
            call_rows.extend(_call_rows(self.run.key, number, episode, talk))
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


class _Conversations:
    """Gives texts and messages their numbers, once each. Forgets the least recent, so memory stays bounded."""

    def __init__(self, run: int, next_text: int, next_message: int) -> None:
        self.run, self.next_text, self.next_message = run, next_text, next_message
        self._texts, self._messages = _Recent(), _Recent()
        self._new_texts: list[Row] = []
        self._new_messages: list[Row] = []

    def text(self, body: str) -> int:
        """The number of `body`."""
        found = self._texts.get(body)
        if found is None:
            found = self.next_text
            self.next_text += 1
            self._texts.put(body, found)
            self._new_texts.append((self.run, found, body))
        return found

    def message(self, parent: int | None, message: Message) -> int:
        """The number of `message` said after `parent`."""
        content = message.content
        if content.__class__ is str and not message.tool_calls and message.name is None and not message.tool_call_id:
            body, extra = content, None
        else:
            body = message.text
            extra = _encoder.encode(message).decode()
        text = self.text(body)  # pyright: ignore[reportArgumentType]
        key = (parent, text, message.role, extra)
        found = self._messages.get(key)
        if found is None:
            found = self.next_message
            self.next_message += 1
            self._messages.put(key, found)
            self._new_messages.append((self.run, found, parent, message.role, text, extra))
        return found

    def take_texts(self) -> list[Row]:
        """The rows of texts that are new since the last time."""
        rows, self._new_texts = self._new_texts, []
        return rows

    def take_messages(self) -> list[Row]:
        """The rows of messages that are new since the last time."""
        rows, self._new_messages = self._new_messages, []
        return rows


class _Recent:
    """A mapping that keeps between KNOWN and 2·KNOWN entries: two generations, the older is dropped whole."""

    def __init__(self) -> None:
        self._young: dict[Any, int] = {}
        self._old: dict[Any, int] = {}

    def get(self, key: Any) -> int | None:
        found = self._young.get(key)
        if found is None and (found := self._old.get(key)) is not None:
            self.put(key, found)
        return found

    def put(self, key: Any, value: int) -> None:
        if len(self._young) >= KNOWN:
            self._old, self._young = self._young, {}
        self._young[key] = value


def _insert(connection: Connection, table: Table, rows: list[Row]) -> None:
    """Insert full rows. Plain driver statements: building expressions for each row costs more than the insert."""
    if not rows:
        return
    mark = "?" if connection.dialect.paramstyle == "qmark" else "%s"
    marks = ", ".join([mark] * len(table.columns))
    names = ", ".join(f'"{column.name}"' for column in table.columns)
    connection.exec_driver_sql(f'INSERT INTO "{table.name}" ({names}) VALUES ({marks})', rows)


def _optional_json(value: Any) -> str | None:
    return None if value is None else _encoder.encode(value).decode()


def _episode_row(run: int, number: int, study: int, episode: Episode) -> Row:
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
        episode.score,
        episode.reward,
        _encoder.encode(episode.metrics).decode(),
        len(episode.steps),
        len(episode.calls),
        usage.input_tokens,
        usage.output_tokens,
        usage.cached_tokens,
        usage.usd,
        usage.seconds,
        episode.started,
        episode.seconds,
        episode.error,
        _optional_json(episode.output),
    )


def _step_rows(run: int, number: int, episode: Episode, talk: _Conversations) -> Iterable[Row]:
    for position, step in enumerate(episode.steps):
        info = _encoder.encode(step.info).decode() if step.info else None
        seen, done = talk.text(step.observation), talk.text(step.action)
        yield run, number, position, step.index, step.agent, seen, done, step.reward, info


def _call_rows(run: int, number: int, episode: Episode, talk: _Conversations) -> Iterable[Row]:
    for position, call in enumerate(episode.calls):
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
            call.error,
            _optional_json(call.output),
        )
