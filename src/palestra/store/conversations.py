"""Numbers for texts and messages, each said once: what makes a long conversation cost only its new text.

A message is known by the one before it, its role and its text, so episodes that begin alike share their beginning.
"""

from __future__ import annotations

import codecs
from hashlib import blake2b
from typing import Any

import msgspec

from palestra.core.records import Message
from palestra.store.codec import encode

KNOWN = 100_000  # texts and messages remembered for sharing, per generation
LONG = 200  # characters; a longer text is remembered by its digest, so that memory stays bounded

Row = tuple[Any, ...]


class Conversations:
    """Gives texts and messages their numbers, once each. Forgets the least recent, so memory stays bounded.

    Args:
        nul: whether the database can hold NUL in a text.
    """

    def __init__(self, run: int, next_text: int, next_message: int, *, nul: bool = True) -> None:
        self.run, self.nul = run, nul
        self.restart(next_text, next_message)

    def restart(self, next_text: int, next_message: int) -> None:
        """Go on from these numbers as if nothing had been said: what was numbered since is not on disk."""
        self.next_text, self.next_message = next_text, next_message
        self._texts, self._messages = _Recent(), _Recent()
        self._new_texts: list[Row] = []
        self._new_messages: list[Row] = []

    def clean(self, body: str) -> str:
        """`body` as the database can hold it."""
        if not body.isascii():
            body = body.encode(errors="replace_surrogates").decode()
        return body if self.nul or "\0" not in body else body.replace("\0", "\ufffd")

    def text(self, body: str) -> int:
        """The number of `body`."""
        key = body if len(body) <= LONG else _digest(body)
        found = self._texts.get(key)
        if found is None:
            found = self.next_text
            self.next_text += 1
            self._texts.put(key, found)
            self._new_texts.append((self.run, found, self.clean(body)))
        return found

    def message(self, parent: int | None, message: Message) -> int:
        """The number of `message` said after `parent`."""
        content = message.content
        if (
            content.__class__ is str
            and not message.tool_calls
            and message.name is None
            and message.tool_call_id is None
        ):
            body, extra = content, None
        else:  # a plain text is not written a second time
            body = message.text
            extra = encode(msgspec.structs.replace(message, content="") if isinstance(content, str) else message)
        text = self.text(body)  # pyright: ignore[reportArgumentType]
        key = (parent, text, message.role, extra if extra is None or len(extra) <= LONG else _digest(extra))
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


def _digest(text: str) -> bytes:
    return blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest()


def _replace_surrogates(error: UnicodeError) -> tuple[bytes, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "\ufffd".encode() * (error.end - error.start), error.end


codecs.register_error("replace_surrogates", _replace_surrogates)
