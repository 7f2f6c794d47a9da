"""Reading runs back: whole episodes as records, conversations, tables as pandas or polars, exports, a fingerprint."""

from __future__ import annotations

import csv
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec
from sqlalchemy import ColumnElement, Connection, Select, case, func, select

from palestra.core.claims import ClaimResult
from palestra.core.errors import BadInput, MissingExtra
from palestra.core.records import Call, Episode, Message, Step, Usage
from palestra.store import schema
from palestra.store.codec import decode, encode
from palestra.store.rebuilding import Texts, call_of, episode_of, json_of, number_of
from palestra.store.schema import STUDY_SHIFT
from palestra.store.store import RunRow, Store

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

CHUNK = 20_000  # rows turned into columns at a time, so that no table is held twice
EXPORTS = ("parquet", "csv")


class Failure(NamedTuple):
    """Episodes that ended badly in the same way: why, the last line of their error, how many, one error in full."""

    reason: str
    line: str
    times: int
    detail: str


class Reading:
    """What a run recorded.

    Args:
        store: the store.
        run: the run, or its id.
    """

    def __init__(self, store: Store, run: RunRow | str = "last") -> None:
        self.store = store
        self.run = store.run(run) if isinstance(run, str) else run

    def table(self, name: str, *, study: int | None = None) -> pd.DataFrame:
        """A table of the run as a pandas DataFrame; texts of steps are filled in.

        Args:
            name: episodes, steps, calls, studies, texts, messages, metrics, claims, artifacts, runs.
            study: only the episodes of this study.
        """
        import pandas as pd

        kinds, chunks = self._chunks(name, study)
        frames = [_frame(rows, kinds) for rows in chunks] or [_frame([], kinds)]
        return pd.concat(frames, ignore_index=True)

    def polars(self, name: str, *, study: int | None = None) -> pl.DataFrame:
        """A table of the run as a polars DataFrame."""
        try:
            import polars as pl
        except ImportError as error:
            raise MissingExtra("polars", "polars") from error
        kinds, chunks = self._chunks(name, study)
        typed = {"int": pl.Int64, "float": pl.Float64, "bytes": pl.Binary, "str": pl.String}
        layout = {column: typed[kind] for column, kind in kinds.items()}
        frames = [pl.DataFrame(rows, schema=layout, orient="row") for rows in chunks]
        return pl.concat(frames) if frames else pl.DataFrame(schema=layout)

    def rows(self, name: str, *, study: int | None = None) -> list[dict[str, Any]]:
        """A table of the run as dictionaries."""
        kinds, chunks = self._chunks(name, study)
        return [dict(zip(kinds, row, strict=True)) for rows in chunks for row in rows]

    def done(self, study: int, *, statuses: Sequence[str] = ("done", "failed")) -> list[int]:
        """The indices of the study's episodes that have one of `statuses`, ascending."""
        table = schema.episodes
        query = (
            select(table.c.index)
            .where(table.c.run == self.run.key, table.c.study == study, table.c.status.in_(statuses))
            .order_by(table.c.episode)
        )
        with self.store.read() as connection:
            return list(connection.execute(query).scalars())

    def usage(self, *, by: Sequence[str] = ("agent", "role", "stage")) -> list[dict[str, Any]]:
        """Calls, tokens, dollars and model seconds, summed over the run's calls for each value of `by`."""
        calls = schema.calls
        for name in by:
            if name not in calls.c:
                raise BadInput("by", name, choices=calls.c.keys())
        groups = [calls.c[name] for name in by]
        sums = ("calls", "input_tokens", "output_tokens", "cached_tokens", "usd", "seconds")
        query = (
            select(*groups, *(func.sum(calls.c[name]).label(name) for name in sums))
            .where(calls.c.run == self.run.key)
            .group_by(*groups)
            .order_by(*groups)
        )
        with self.store.read() as connection:
            return [dict(row) for row in connection.execute(query).mappings()]

    def totals(self, study: int) -> list[dict[str, Any]]:
        """For each agent of a study: how many episodes, how many failed, and sums of what they took and cost."""
        table = schema.episodes
        sums = (
            "steps", "calls", "input_tokens", "output_tokens", "cached_tokens", "usd", "model_seconds", "seconds",
        )  # fmt: skip
        query = (
            select(
                table.c.agent,
                func.count().label("episodes"),
                func.sum(case((table.c.status == "failed", 1), else_=0)).label("failed"),
                *(func.sum(table.c[name]).label(name) for name in sums),
            )
            .where(*self._of_study(study))
            .group_by(table.c.agent)
            .order_by(func.min(table.c.episode))
        )
        with self.store.read() as connection:
            return [dict(row) for row in connection.execute(query).mappings()]

    def scores(self, study: int) -> dict[str, array[float]]:
        """For each agent of a study: the scores of its finished episodes."""
        table = schema.episodes
        query = select(table.c.agent, table.c.score).where(
            *self._of_study(study), table.c.status == "done", table.c.score.is_not(None)
        )
        found: dict[str, array[float]] = {}
        with self.store.read() as connection:
            for agent, score in connection.execution_options(stream_results=True).execute(query):
                found.setdefault(agent, array("d")).append(score)
        return found

    def total(self) -> Usage:
        """What the run's episodes used, in all."""
        table = schema.episodes
        names = ("calls", "input_tokens", "output_tokens", "cached_tokens", "usd", "model_seconds")
        query = select(*(func.coalesce(func.sum(table.c[name]), 0) for name in names)).where(
            table.c.run == self.run.key
        )
        with self.store.read() as connection:
            sums: list[Any] = list(connection.execute(query).one())
        return Usage(*map(int, sums[:4]), *map(float, sums[4:]))

    def failures(self, *, most: int = 20) -> list[Failure]:
        """The episodes that did not end well, grouped by reason and last line of the error, the most frequent first."""
        counts: Counter[tuple[str, str]] = Counter()
        details: dict[tuple[str, str], str] = {}
        table = schema.episodes
        query = select(table.c.reason, table.c.error).where(table.c.run == self.run.key, table.c.error.is_not(None))
        with self.store.read() as connection:
            for reason, error in connection.execute(query):
                key = (reason, error.strip().rsplit("\n", 1)[-1][:200])
                counts[key] += 1
                details.setdefault(key, error)
        return [
            Failure(reason, line, count, details[reason, line]) for (reason, line), count in counts.most_common(most)
        ]

    def claims(self) -> list[ClaimResult]:
        """The claims that the run measured, in the order in which it stated them."""
        table = schema.claims
        query = select(table.c.record).where(table.c.run == self.run.key).order_by(table.c.position)
        with self.store.read() as connection:
            return [decode(text, ClaimResult) for text in connection.execute(query).scalars()]

    def conversation(self, message: int) -> list[Message]:
        """The messages from the start up to the one numbered `message`."""
        with self.store.read() as connection:
            return Texts(connection, self.run.key).conversation(message)

    def episode(self, number: int) -> Episode:
        """One episode, whole.

        Raises:
            BadInput: the run has no such episode.
        """
        for episode in self.episodes(number=number):
            return episode
        raise BadInput("episode", number, f"the number of an episode of run {self.run.id}")

    def episodes(self, *, study: int | None = None, number: int | None = None) -> Iterator[Episode]:
        """The run's episodes in the order of the plan, each with its steps and calls."""
        with self.store.read() as connection:
            texts = Texts(connection, self.run.key)
            for row in self._all(connection, schema.episodes, study=study, number=number).mappings():
                yield episode_of(
                    row, self._steps(connection, row["episode"], texts), self._calls(connection, row, texts)
                )

    def calls(self) -> Iterator[Call]:
        """All calls of the run, in order of episode."""
        with self.store.read() as connection:
            texts = Texts(connection, self.run.key)
            for row in self._all(connection, schema.calls).mappings():
                yield call_of(row, texts)

    def recipe_calls(self) -> list[Call]:
        """The calls that the recipe made outside any episode, in the order in which they ended."""
        with self.store.read() as connection:
            texts = Texts(connection, self.run.key)
            return [call_of(row, texts) for row in self._all(connection, schema.calls, number=0).mappings()]

    def fingerprint(self) -> str:
        """A digest of everything the run recorded except when and how fast it happened.

        Two runs with the same seed, settings and replies have the same fingerprint, at any concurrency.
        """
        digest = blake2b(digest_size=16)
        for episode in self.episodes():
            for call in episode.calls:
                call.started, call.usage.seconds, call.retries = 0.0, 0.0, 0
            episode.calls.sort(key=_order)
            episode.started, episode.seconds, episode.attempt = 0.0, 0.0, 1
            episode.usage.seconds = 0.0
            digest.update(encode(msgspec.to_builtins(episode, order="sorted")).encode())
        for call in sorted(self.recipe_calls(), key=_order):
            digest.update(encode([call.request.hex(), call.reply, call.error]).encode())
        for claim in self.claims():
            digest.update(msgspec.json.encode([claim.name, claim.holds]))
        return digest.hexdigest()

    def export(self, folder: Path, *, format: Literal["parquet", "csv"] = "parquet") -> list[Path]:
        """Write every table of the run into `folder`, one file each; returns the files."""
        if format not in EXPORTS:
            raise BadInput("format", format, choices=EXPORTS)
        folder.mkdir(parents=True, exist_ok=True)
        files: list[Path] = []
        for name in schema.READABLE:
            frame = self.table(name)
            file = folder / f"{name}.{format}"
            if format == "csv":  # every text in quotes: it may hold line ends of any kind
                for column in _binary(name):
                    frame[column] = [value.hex() for value in frame[column]]
                frame.to_csv(file, index=False, quoting=csv.QUOTE_NONNUMERIC)
            else:
                frame.to_parquet(file, index=False)
            files.append(file)
        return files

    def _chunks(self, name: str, study: int | None) -> tuple[dict[str, str], Iterator[list[tuple[Any, ...]]]]:
        """The table's columns with their kinds (int, float, bytes, str), and its rows by CHUNK."""
        if name not in schema.READABLE:
            raise BadInput("table", name, choices=schema.READABLE)
        query = self._query(name, study)
        kinds = {column.name: column.type.python_type.__name__ for column in query.selected_columns}

        def read() -> Iterator[list[tuple[Any, ...]]]:
            with self.store.read() as connection:
                result = connection.execution_options(stream_results=True).execute(query)
                while rows := result.fetchmany(CHUNK):
                    yield [tuple(row) for row in rows]

        return kinds, read()

    def _query(self, name: str, study: int | None) -> Select[Any]:
        table = schema.READABLE[name]
        columns = [column for column in table.columns if column.name != "run"]
        owner = table.c.key if name == "runs" else table.c.run
        if name == "steps":
            seen, done = schema.texts.alias("seen"), schema.texts.alias("done_text")
            columns[columns.index(table.c.observation)] = seen.c.body.label("observation")  # pyright: ignore
            columns[columns.index(table.c.action)] = done.c.body.label("action")  # pyright: ignore
            query = (
                select(*columns)
                .join(seen, (seen.c.run == table.c.run) & (seen.c.text == table.c.observation))
                .join(done, (done.c.run == table.c.run) & (done.c.text == table.c.action))
            )
        else:
            query = select(*columns)
        query = query.where(owner == self.run.key).order_by(*table.primary_key.columns)
        if study is not None and "episode" in table.c:
            query = query.where(table.c.episode >= study << STUDY_SHIFT, table.c.episode < (study + 1) << STUDY_SHIFT)
        return query

    def _of_study(self, study: int) -> tuple[ColumnElement[bool], ...]:
        table = schema.episodes
        return (
            table.c.run == self.run.key,
            table.c.episode >= study << STUDY_SHIFT,
            table.c.episode < (study + 1) << STUDY_SHIFT,
        )

    def _all(self, connection: Connection, table: Any, *, study: int | None = None, number: int | None = None) -> Any:
        query = select(table).where(table.c.run == self.run.key).order_by(*table.primary_key.columns)
        if study is not None:
            query = query.where(table.c.episode >= study << STUDY_SHIFT, table.c.episode < (study + 1) << STUDY_SHIFT)
        if number is not None:
            query = query.where(table.c.episode == number)
        return connection.execute(query)

    def _steps(self, connection: Connection, episode: int, texts: Texts) -> list[Step]:
        return [
            Step(
                index=row["step"],
                agent=row["agent"],
                observation=texts.text(row["observation"]),
                action=texts.text(row["action"]),
                reward=number_of(row["reward"]),
                info=json_of(row["info"]) or {},
            )
            for row in self._all(connection, schema.steps, number=episode).mappings()
        ]

    def _calls(self, connection: Connection, episode: Any, texts: Texts) -> list[Call]:
        rows = self._all(connection, schema.calls, number=episode["episode"]).mappings()
        return [call_of(row, texts) for row in rows]


def _binary(table: str) -> list[str]:
    """The columns of a table that hold bytes."""
    return [column.name for column in schema.READABLE[table].columns if column.type.python_type is bytes]


def _order(call: Call) -> tuple[Any, ...]:
    """A key that does not depend on which of several calls ended first."""
    return call.step, call.agent, call.role, call.stage, call.request, encode([call.reply, call.error, call.output])


def _frame(rows: Sequence[tuple[Any, ...]], kinds: dict[str, str]) -> pd.DataFrame:
    """Rows as a DataFrame whose types are those of the table: a missing whole number must not make the rest floats."""
    import pandas as pd

    nothing: tuple[Any, ...] = ()
    columns = zip(*rows, strict=True) if rows else (nothing,) * len(kinds)
    series: dict[str, pd.Series[Any]] = {}
    for (name, kind), values in zip(kinds.items(), columns, strict=True):
        whole = "Int64" if kind == "int" and None in values else "int64"
        dtype = {"int": whole, "float": "float64", "bytes": "object", "str": "str"}[kind]
        series[name] = pd.Series(values, dtype=dtype)
    return pd.DataFrame(series)
