"""The engines that this process holds: one for each model and set of options, until they are unloaded.

A forked child starts with none: threads and servers of the parent do not live in it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

E = TypeVar("E")
_engines: dict[Hashable, Any] = {}
_lock = threading.Lock()


def keep(key: Hashable, make: Callable[[], E]) -> E:
    """The engine known as `key`; made when there is none yet.

    >>> keep("doc", list) is keep("doc", list)
    True
    >>> unload()
    """
    with _lock:
        if key not in _engines:
            _engines[key] = make()
        return _engines[key]


def unload() -> None:
    """Close all engines and forget them; models that hold one load it again when they are used."""
    with _lock:
        engines = list(_engines.values())
        _engines.clear()
    for engine in engines:
        if (close := getattr(engine, "close", None)) is not None:
            close()


def _start_empty() -> None:
    global _lock
    _lock = threading.Lock()
    _engines.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_empty)
