"""Bounded capture of a program's output: the head and the tail are kept, the middle is counted and dropped."""

from __future__ import annotations

import asyncio
from collections import deque


class HeadTail:
    """Keeps the first and the last half of `limit` bytes of a stream.

    >>> kept = HeadTail(8)
    >>> for part in (b"abcdef", b"ghijkl"):
    ...     kept.add(part)
    >>> kept.text
    'abcd\\n[4 bytes left out]\\nijkl'
    """

    def __init__(self, limit: int) -> None:
        self._room = limit - limit // 2
        self._keep = limit // 2
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._held = 0  # bytes in the tail
        self._dropped = 0

    def add(self, data: bytes) -> None:
        """Add a piece."""
        if self._room:
            self._head += data[: self._room]
            data, used = data[self._room :], min(self._room, len(data))
            self._room -= used
        if not data:
            return
        self._tail.append(data)
        self._held += len(data)
        while self._held - len(self._tail[0]) >= self._keep and len(self._tail) > 1:
            oldest = self._tail.popleft()
            self._held -= len(oldest)
            self._dropped += len(oldest)

    async def drain(self, stream: asyncio.StreamReader) -> None:
        """Read `stream` to its end."""
        while data := await stream.read(1 << 18):
            self.add(data)

    @property
    def truncated(self) -> bool:
        """Whether something was left out."""
        return self._dropped + self._held > self._keep

    @property
    def text(self) -> str:
        """What was kept, undecodable bytes as escapes, with a note where the middle is missing."""
        tail = b"".join(self._tail)
        lost = self._dropped + max(0, len(tail) - self._keep)
        kept = tail[len(tail) - min(self._keep, len(tail)) :]
        if not lost:
            return (bytes(self._head) + kept).decode("utf-8", "backslashreplace")
        parts = (bytes(self._head), kept)
        head, end = (part.decode("utf-8", "backslashreplace") for part in parts)
        return f"{head}\n[{lost} bytes left out]\n{end}"
