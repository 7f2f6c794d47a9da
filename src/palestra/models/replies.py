"""Recorded replies: a cache on disk that grows with every run, and the replies of one recorded run for its replay.

Both answer by the digest of the request, which covers everything that determines a reply, its seed included. What they
return is equal to what was recorded, field by field, down to the seconds it took.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections import deque
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from palestra.core.errors import StoreError
from palestra.core.records import Call, Completion
from palestra.models.engine import Failure, Output, Reply
from palestra.models.recording import reply_of

VERSION = 1  # PRAGMA user_version of a cache file
BUSY = 30.0  # seconds to wait for another process that writes
_TABLE = "CREATE TABLE IF NOT EXISTS replies (request BLOB PRIMARY KEY, kind TEXT NOT NULL, reply BLOB NOT NULL)"
_KINDS: Mapping[str, type[Reply]] = {"completion": Completion, "output": Output}


class Cache:
    """A reply cache in one SQLite file, shared safely by threads and processes. The first reply to a request stays.

    Args:
        path: the file; made with its folder when it does not exist.

    Raises:
        StoreError: the file is not a reply cache, is of a newer version, or cannot be read or written.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).expanduser()
        self._lock = threading.Lock()
        self._pid = 0
        self._connection: sqlite3.Connection | None = None
        with self._lock:
            self._open()

    def __repr__(self) -> str:
        return f"Cache({str(self.path)!r})"

    def __reduce__(self) -> tuple[type[Cache], tuple[str]]:
        return Cache, (str(self.path),)

    def __len__(self) -> int:
        return self._run("SELECT count(*) FROM replies")[0][0]

    def get(self, request: bytes) -> Reply | None:
        """The reply kept for `request`, or None."""
        rows = self._run("SELECT kind, reply FROM replies WHERE request = ?", request)
        if not rows:
            return None
        kind, reply = rows[0]
        try:
            return msgspec.msgpack.decode(reply, type=_KINDS[kind])
        except (msgspec.DecodeError, KeyError) as error:
            raise StoreError(f"the reply cache {self.path} holds a reply that cannot be read ({error})") from None

    def put(self, request: bytes, reply: Reply) -> None:
        """Keep `reply`, unless one is kept already."""
        kind = "completion" if isinstance(reply, Completion) else "output"
        content = msgspec.msgpack.encode(reply)
        self._run("INSERT OR IGNORE INTO replies VALUES (?, ?, ?)", request, kind, content)

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        with self._lock:
            if self._connection is not None and self._pid == os.getpid():
                self._connection.close()
            self._connection = None

    def _run(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._lock:
            connection = self._connection
            if connection is None or self._pid != os.getpid():  # a connection must not cross a fork
                connection = self._open()
            try:
                return connection.execute(statement, values).fetchall()
            except sqlite3.Error as error:
                raise self._fault(error) from None

    def _open(self) -> sqlite3.Connection:
        connection = None
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(self.path, timeout=BUSY, isolation_level=None, check_same_thread=False)
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            if version > VERSION:
                raise StoreError(f"the reply cache {self.path} is of version {version}: upgrade palestra")
            tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            if tables - {"replies"}:
                raise StoreError(f"{self.path} is some other database: choose another file for the reply cache")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            if not tables:
                connection.execute(_TABLE)
                connection.execute(f"PRAGMA user_version = {VERSION}")
        except (sqlite3.Error, OSError) as error:
            if connection is not None:
                connection.close()
            raise self._fault(error) from None
        except StoreError:
            if connection is not None:
                connection.close()
            raise
        self._pid, self._connection = os.getpid(), connection
        return connection

    def _fault(self, error: Exception) -> StoreError:
        return StoreError(f"the reply cache {self.path} cannot be used ({error})")


class Recorded:
    """The replies of a recorded run, by request.

    A request that was made several times gets its replies in the recorded order, the last one again after that.

    >>> from palestra.core.records import Message, Usage
    >>> call = Call(
    ...     "a", "", "", 0, "complete", "m", "e", b"digest", (), Message("assistant", "4"), Usage(), "stop", 0.0
    ... )
    >>> Recorded.of([call]).get(b"digest").text
    '4'
    """

    def __init__(self, replies: Mapping[bytes, Iterable[Reply | Failure]]) -> None:
        self._replies = {request: deque(several) for request, several in replies.items()}

    @classmethod
    def of(cls, calls: Iterable[Call]) -> Recorded:
        """The replies in `calls`; failed calls fail again, calls that record no reply are left out."""
        replies: dict[bytes, list[Reply | Failure]] = {}
        for call in calls:
            reply = reply_of(call)
            if reply is not None:
                replies.setdefault(call.request, []).append(reply)
        return cls(replies)

    def __len__(self) -> int:
        return len(self._replies)

    def get(self, request: bytes) -> Reply | Failure | None:
        """The next recorded reply to `request`, or None."""
        several = self._replies.get(request)
        if not several:
            return None
        return several.popleft() if len(several) > 1 else several[0]

    def put(self, request: bytes, reply: Reply) -> None:
        """A reply that was not recorded is not kept: the recorded run stays what it was."""
