"""JSON schemas for structured replies: validation of every reply, and the allow-list of what an engine can enforce."""

from __future__ import annotations

from typing import Any

import msgspec

from palestra.core.errors import BadInput, BadReply, MissingExtra
from palestra.core.records import JSON, Completion


def check_value(completion: Completion, schema: JSON) -> Any:
    """The reply's JSON value, valid for `schema`.

    Raises:
        BadReply: cut off, not JSON, or not valid.
    """
    if completion.finish_reason == "length":
        raise BadReply(f"the reply of {completion.model} was cut off at max_tokens, so its JSON is incomplete")
    try:
        value = msgspec.json.decode(completion.text.strip().encode())
    except msgspec.DecodeError as error:
        raise BadReply(f"the reply of {completion.model} is not JSON ({error}): {completion.text[:80]!r}") from None
    try:
        import jsonschema
    except ImportError as error:
        raise MissingExtra("jsonschema", "lm") from error
    try:
        jsonschema.validate(value, schema)
    except jsonschema.ValidationError as error:
        raise BadReply(f"the reply of {completion.model} does not fit the schema: {error.message[:120]}") from None
    except jsonschema.SchemaError as error:
        raise BadInput("schema", error.message[:80], "a valid JSON schema") from None
    return value
