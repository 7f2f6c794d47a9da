"""JSON as the store keeps it: whatever an episode brings comes back, and nothing that it brings can break a run.

msgspec does the work. What it cannot write as it is (not-a-number and infinities, texts that are not Unicode, objects
of other libraries) goes the slow way through Python's own JSON, whose `NaN` and `Infinity` are read back as numbers.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec


def encode(value: Any) -> str:
    """`value` as JSON text; arrays become lists, objects that have no JSON form their `str`.

    >>> decode(encode({"loss": float("-inf"), "steps": [1, 2]}))
    {'loss': -inf, 'steps': [1, 2]}
    """
    try:
        text = _encoder.encode(value)
        if b"null" not in text:  # msgspec writes numbers that are not finite as null
            return text.decode()
    except UnicodeEncodeError:
        pass
    return json.dumps(msgspec.to_builtins(value, str_keys=True, enc_hook=plain))


def decode(text: str, type: Any = Any) -> Any:
    """The value that `encode` wrote, as a `type`."""
    try:
        return msgspec.json.decode(text, type=type)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return msgspec.convert(json.loads(text), type)


def plain(value: Any) -> Any:
    """An object that JSON does not know as one that it knows: arrays and numbers of NumPy, JAX and torch, else text."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, BaseException):
        return f"{value.__class__.__name__}: {value}"
    return str(value)


_encoder = msgspec.json.Encoder(enc_hook=plain)
