"""JSON schemas for structured replies: validation of every reply, and the guard of what llama.cpp can enforce.

llama.cpp compiles a schema to a grammar. A keyword it does not know makes it drop the schema without a word, and the
reply is free text; `for_grammar` therefore refuses whatever is not on a measured allow-list, before the call.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, cast

import msgspec

from palestra.core.errors import BadInput, BadReply, MissingExtra
from palestra.core.records import JSON, Completion

MAX_LENGTH = 400  # characters: a string without a limit can run to the end of the context
MAX_ITEMS = 32  # likewise for arrays

HONOURED = frozenset({
    "type", "enum", "const", "properties", "required", "additionalProperties", "items", "minItems", "maxItems",
    "minLength", "maxLength", "pattern", "format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
    "multipleOf", "anyOf", "oneOf", "$ref", "$defs",
})  # fmt: skip
ANNOTATIONS = frozenset({
    "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$schema", "$id", "$comment",
})  # fmt: skip
FORMATS = frozenset({"date", "uuid"})  # time and date-time may write fractions of a second without end
TYPES = frozenset({"object", "array", "string", "integer", "number", "boolean", "null"})


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


def for_grammar(schema: JSON) -> JSON:
    """A copy of `schema` that llama.cpp enforces to the letter; whatever fits the copy fits the original.

    Objects are closed (`additionalProperties: false`), texts and arrays without a limit get one (`MAX_LENGTH`,
    `MAX_ITEMS`), annotations are dropped, and white space is fixed to one blank after `:` and `,`: left free, the
    model can write blank lines to the token limit.

    Raises:
        BadInput: a keyword that the grammar would drop or that admits any JSON, with its place as a JSON pointer.

    >>> for_grammar({"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]})["properties"]
    {'age': {'type': 'integer'}}
    >>> for_grammar({"type": "array", "items": {"type": "integer"}, "uniqueItems": True})
    Traceback (most recent call last):
    palestra.core.errors.BadInput: schema#/uniqueItems=True is not allowed: expected a keyword that ... can enforce
    """
    try:
        key = msgspec.json.encode(schema)
    except (TypeError, ValueError) as error:
        raise BadInput("schema#", schema, f"a JSON object ({error})") from None
    return msgspec.json.decode(_for_grammar(key))


@lru_cache(256)
def _for_grammar(encoded: bytes) -> bytes:
    """The same on encoded schemas, since a study asks with one schema thousands of times."""
    from jsonschema import Draft202012Validator, SchemaError

    schema = msgspec.json.decode(encoded)
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        at = "/".join(("#", *(_escape(str(part)) for part in error.absolute_path)))
        raise BadInput(f"schema{at}", error.instance, f"a valid JSON schema ({error.message[:80]})") from None
    closed = _node(schema, "#")
    closed["x-guidance"] = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
    return msgspec.json.encode(closed)


def _node(schema: Any, at: str) -> JSON:
    if not isinstance(schema, Mapping):
        raise BadInput(f"schema{at}", schema, "a JSON object: true, false and other values leave the reply free")
    given = cast("Mapping[str, Any]", schema)
    node: JSON = {key: value for key, value in given.items() if key not in ANNOTATIONS and not key.startswith("x-")}
    for key, value in node.items():
        if key not in HONOURED:
            raise BadInput(f"schema{at}/{_escape(key)}", value, _supported())
    named: Mapping[str, Any] = node.pop("$defs", None) or {}
    definitions = {name: _node(inner, f"{at}/$defs/{_escape(name)}") for name, inner in named.items()}
    closed = _closed(node, at)
    if definitions:
        closed["$defs"] = definitions
    return closed


def _closed(node: JSON, at: str) -> JSON:
    """The node without its definitions, limited; which rule applies depends on its keywords."""
    for alone in ("$ref", "anyOf", "oneOf"):
        if alone in node:
            return _reference_or_union(node, at, alone)
    if "enum" in node or "const" in node:
        if "enum" in node and not node["enum"]:
            raise BadInput(f"schema{at}/enum", node["enum"], "at least one value")
        return node
    if "type" not in node and "properties" in node:
        node["type"] = "object"
    kinds = node.get("type")
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if not kinds:
        raise BadInput(f"schema{at}", node, "a type, enum, const, anyOf, oneOf or $ref: anything else admits any JSON")
    for kind in kinds:
        if kind not in TYPES:
            raise BadInput(f"schema{at}/type", kind, choices=sorted(TYPES))
    if "object" in kinds:
        _close_object(node, at)
    if "array" in kinds:
        _close_array(node, at)
    if "string" in kinds:
        _close_string(node, at)
    if "number" in kinds and "multipleOf" not in node:
        warnings.warn(
            f"schema{at}: a bare number can write digits to the token limit: prefer integer, enum or multipleOf",
            stacklevel=2,
        )
    return node


def _reference_or_union(node: JSON, at: str, alone: str) -> JSON:
    beside = sorted(set(node) - {alone, "type"})
    if beside:
        raise BadInput(f"schema{at}/{_escape(beside[0])}", node[beside[0]], f"no other keyword beside {alone}")
    value: Any = node[alone]
    if alone == "$ref":
        if not (isinstance(value, str) and value.startswith("#")):
            raise BadInput(f"schema{at}/$ref", value, "a reference inside the schema (#/$defs/…)")
        return {"$ref": value}
    return {alone: [_node(branch, f"{at}/{alone}/{index}") for index, branch in enumerate(value)]}


def _close_object(node: JSON, at: str) -> None:
    properties: Mapping[str, Any] = node.get("properties") or {}
    if not properties and node.get("additionalProperties") is not False:
        raise BadInput(f"schema{at}", node, "an object that lists its properties: free keys run on without end")
    for name in node.get("required", ()):
        if name not in properties:
            raise BadInput(f"schema{at}/required", name, "a property of the object", choices=properties)
    node["properties"] = {name: _node(inner, f"{at}/properties/{_escape(name)}") for name, inner in properties.items()}
    node["additionalProperties"] = False


def _close_array(node: JSON, at: str) -> None:
    if "items" not in node:
        raise BadInput(f"schema{at}", node, "items: an array without them admits any JSON")
    node["items"] = _node(node["items"], f"{at}/items")
    node.setdefault("maxItems", max(MAX_ITEMS, node.get("minItems", 0)))


def _close_string(node: JSON, at: str) -> None:
    if (form := node.get("format")) is not None:
        if form not in FORMATS:
            raise BadInput(f"schema{at}/format", form, choices=sorted(FORMATS))
        return
    if (pattern := node.get("pattern")) is not None and not anchored(pattern):
        raise BadInput(
            f"schema{at}/pattern", pattern, "a pattern from ^ to $ without look-around, back-references or open choices"
        )
    node.setdefault("maxLength", max(MAX_LENGTH, node.get("minLength", 0)))


def anchored(pattern: str) -> bool:
    """Whether `pattern` speaks of the whole text, in the regular-expression dialect of the grammar.

    >>> [anchored(text) for text in ("^[a-c]+$", "[a-c]+", "^a|b$", "^(a|b)$", "^(?=a)a$")]
    [True, False, False, True, False]
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", FutureWarning)  # sets within sets, which dialects read differently
            re.compile(pattern)
    except (re.error, FutureWarning):
        return False
    if len(pattern) < 2 or pattern[0] != "^" or pattern[-1] != "$":
        return False
    depth, in_class, index = 0, False, 1
    last = len(pattern) - 1
    while index < last:
        sign, after = pattern[index], pattern[index + 1]
        if sign == "\\":
            if (not in_class and after in "bBAZzG123456789") or index + 1 == last:
                return False
            index += 2
            continue
        if in_class:
            in_class = sign != "]"
        elif sign == "[":
            in_class = True
            index += 1 + (after == "^")  # a class may open with a literal bracket
        elif sign == "(":
            if after == "?" and pattern[index + 2] != ":":
                return False
            depth += 1
        elif sign == ")":
            depth -= 1
        elif sign in "^$" or (sign == "|" and depth == 0):
            return False
        index += 1
    return not in_class


def _supported() -> str:
    return f"a keyword that the embedded model's grammar can enforce ({', '.join(sorted(HONOURED))})"


def _escape(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
