"""From rows back to records: conversations from their tree of messages, calls and episodes from their tables."""

from __future__ import annotations

import math
from typing import Any

import msgspec
from sqlalchemy import Column, Connection, Table, select

from palestra.core.records import Call, Episode, Message, Step, Usage
from palestra.store import schema
from palestra.store.codec import decode

AHEAD = 512  # texts and messages read at a time: neighbours were said one after the other
HELD = 50_000  # texts and messages held at a time


class Texts:
    """Looks up texts and messages of a run by number, with their neighbours: what is read in order is asked for once."""

    def __init__(self, connection: Connection, run: int) -> None:
        self.connection, self.run = connection, run
        self._bodies: dict[int, str] = {}
        self._nodes: dict[int, tuple[int | None, Message]] = {}

    def text(self, number: int) -> str:
        if number not in self._bodies:
            self._fetch(schema.texts, schema.texts.c.text, number, into=self._bodies)
        return self._bodies[number]

    def conversation(self, message: int | None) -> list[Message]:
        said: list[Message] = []
        while message is not None:
            message, one = self._node(message)
            said.append(one)
        return said[::-1]

    def message(self, number: int) -> Message:
        return self._node(number)[1]

    def _node(self, number: int) -> tuple[int | None, Message]:
        if number not in self._nodes:
            self._fetch(schema.messages, schema.messages.c.message, number, into=self._nodes)
        return self._nodes[number]

    def _fetch(self, table: Table, key: Column[Any], number: int, *, into: dict[int, Any]) -> None:
        """Read the entries around `number`: the page of AHEAD in which it lies."""
        if len(into) > HELD:
            into.clear()
        first = number - number % AHEAD
        query = select(table).where(table.c.run == self.run, key >= first, key < first + AHEAD)
        for row in self.connection.execute(query).all():
            into[row[1]] = row[2] if table is schema.texts else (row.parent, self._message(row))

    def _message(self, row: Any) -> Message:
        if row.extra is None:
            return Message(row.role, self.text(row.text))
        message = decode(row.extra, Message)
        return msgspec.structs.replace(message, content=self.text(row.text)) if message.content == "" else message


def json_of(text: str | None) -> Any:
    return None if text is None else decode(text)


def call_of(row: Any, texts: Texts) -> Call:
    return Call(
        agent=row["agent"],
        role=row["role"],
        stage=row["stage"],
        step=row["step"],
        kind=row["kind"],
        model=row["model"],
        engine=row["engine"],
        request=bytes(row["request"]),
        messages=tuple(texts.conversation(row["prompt"])),
        reply=None if row["reply"] is None else texts.message(row["reply"]),
        usage=Usage(
            calls=row["calls"],
            input_tokens=row["input_tokens"],
            output_tokens=row["output_tokens"],
            cached_tokens=row["cached_tokens"],
            usd=row["usd"],
            seconds=row["seconds"],
        ),
        finish_reason=row["finish_reason"],
        started=row["started"],
        retries=row["retries"],
        error=row["error"],
        seed=row["seed"],
        output=json_of(row["output"]),
    )


def episode_of(row: Any, steps: list[Step], calls: list[Call]) -> Episode:
    return Episode(
        study=str(row["study"]),
        index=row["index"],
        agent=row["agent"],
        task=row["task"],
        seed=row["seed"],
        status=row["status"],
        reason=row["reason"],
        score=row["score"],
        reward=number_of(row["reward"]),
        metrics=decode(row["metrics"]),
        steps=steps,
        calls=calls,
        usage=Usage(
            calls=sum(call.usage.calls for call in calls),
            input_tokens=row["input_tokens"],
            output_tokens=row["output_tokens"],
            cached_tokens=row["cached_tokens"],
            usd=row["usd"],
            seconds=row["model_seconds"],
        ),
        started=row["started"],
        seconds=row["seconds"],
        attempt=row["attempt"],
        error=row["error"],
        output=json_of(row["output"]),
    )


def number_of(value: float | None) -> float:
    return math.nan if value is None else value
