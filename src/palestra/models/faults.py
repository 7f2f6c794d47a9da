"""What an endpoint's refusal means: from an HTTP status, its headers and its body to one typed error in one line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

import msgspec
from msgspec import Struct

from palestra.core.errors import (
    ContextOverflow,
    MissingKey,
    ModelError,
    RateLimited,
    ServerFault,
    UnknownModel,
)
from palestra.models.backoff import pause_asked

# Parameters a server may lack without making the reply useless; a dropped one is named in the recorded engine.
DROPPABLE = ("top_k", "min_p", "top_p", "temperature", "seed", "max_tokens", "stream_options")
_UNSUPPORTED = re.compile(
    r"unsupported|not supported|not support |unrecognized|unknown|not permitted|unexpected", re.IGNORECASE
)
_OVERFLOW = re.compile(r"context|prompt|tokens", re.IGNORECASE)
_TOO_LONG = re.compile(r"exceed|too long|too large|maximum context|context length|context_length", re.IGNORECASE)
_LIMIT = re.compile(
    r"(?:context length (?:is|of)|maximum context \w+ (?:is|of)|context size \()\D{0,3}(\d+)", re.IGNORECASE
)
_ASKED = re.compile(
    r"(?:resulted in|requested|request \(|prompt (?:has|contains|of)|input of)\D{0,12}(\d+)", re.IGNORECASE
)
TEMPORARY = frozenset({408, 409, 425})
NOT_IMPLEMENTED = 501


class Source(Struct, frozen=True):
    """Who refused: for the error's line."""

    where: str  # the base URL, without credentials
    model: str
    key_name: str  # the environment variable with the key
    has_key: bool


class Unsupported(ModelError):
    """The server refuses one request parameter; the call can be made without it."""

    def __init__(self, parameter: str, message: str) -> None:
        self.parameter = parameter
        super().__init__(message)


def fault(status: int, headers: Mapping[str, str], content: bytes, source: Source) -> ModelError:
    """The error that an HTTP reply with `status` means. `error.retry_after` is set when the server asks for a pause."""
    body, text = _body(content)
    where = source.where
    said = f"{where} answered {status}" + (f": {text}" if text else "")
    if status in (401, 403):
        state = f"refused the key in {source.key_name}" if source.has_key else f"needs a key: set {source.key_name}"
        return MissingKey(f"{where} {state} ({status}{': ' + text if text else ''})")
    if status == 429:
        if body.get("code") == "insufficient_quota" or body.get("type") == "insufficient_quota":
            return ModelError(f"the quota of the key in {source.key_name} is used up: {said}")
        return RateLimited(said, pause_asked(headers, refused=True))
    if status in TEMPORARY or (status >= 500 and status != NOT_IMPLEMENTED):
        error = ServerFault(said)
        error.__dict__["retry_after"] = pause_asked(headers, refused=True)
        return error
    if status == 404:
        return UnknownModel(f"no model {source.model!r} at {where} ({status}{': ' + text if text else ''})")
    if 300 <= status < 400:
        return ModelError(f"{said}: it redirects to {headers.get('location', '?')[:80]!r}, check the base URL")
    if status in (400, 413, 422):
        return _refusal(body, text, said, source.model)
    return ModelError(said)


def _refusal(body: Mapping[str, Any], text: str, said: str, model: str) -> ModelError:
    labels = f"{body.get('code', '')} {body.get('type', '')} {text}"
    if _TOO_LONG.search(labels) and _OVERFLOW.search(labels):
        asked = _count(body.get("n_prompt_tokens"), _ASKED, text)
        limit = _count(body.get("n_ctx"), _LIMIT, text)
        if asked is not None and limit is not None:
            return ContextOverflow(asked, limit, model)
        return ModelError(f"the prompt does not fit the context of {model}: {text}")
    if _UNSUPPORTED.search(labels):
        named = str(body.get("param") or "")
        parameter = named if named in DROPPABLE else next((p for p in DROPPABLE if re.search(rf"\b{p}\b", text)), None)
        if parameter is not None:
            return Unsupported(parameter, said)
    return ModelError(said)


def _count(value: Any, pattern: re.Pattern[str], text: str) -> int | None:
    if isinstance(value, int):
        return value
    found = pattern.search(text)
    return int(found[1]) if found else None


def _body(content: bytes) -> tuple[Mapping[str, Any], str]:
    """The error object of a reply, and its message in one short line."""
    try:
        value = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}, _line(content[:400].decode("utf-8", "replace"))
    if not isinstance(value, dict):
        return {}, _line(str(value))
    return error_object(cast("dict[str, Any]", value))


def error_object(value: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
    """The innermost error of a decoded reply, with its message in one short line.

    >>> error_object({"error": {"code": 400, "message": "no"}})[1], error_object({"error": "busy"})[1]
    ('no', 'busy')
    """
    error = value.get("error", value)
    if not isinstance(error, dict):
        return {}, _line(str(error))
    error = cast("dict[str, Any]", error)
    message = error.get("message") or error.get("detail") or error.get("msg") or ""
    return error, _line(message if isinstance(message, str) else str(message))


def _line(text: str, limit: int = 200) -> str:
    line = " ".join(text.split())
    line = "".join(sign if sign.isprintable() else "�" for sign in line)
    return line if len(line) <= limit else line[: limit - 1] + "…"
