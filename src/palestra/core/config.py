"""Typed settings: from `key=value` texts or keyword values to a `Config` struct, with the nearest name on a typo."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import Struct

from palestra.core.errors import BadInput, PalestraError

C = TypeVar("C", bound=Struct)


def configure(kind: type[C], values: Mapping[str, Any]) -> C:
    """A `kind` with `values` over its defaults. Texts are read as the field's type; dots reach into nested structs.

    Args:
        kind: a msgspec Struct class.
        values: field name (or `outer.inner`) to value; a text may be JSON for lists and dictionaries.

    Raises:
        BadInput: unknown field, or a value that the field's type does not allow.

    >>> class Config(Struct):
    ...     rounds: int = 3
    ...     methods: tuple[str, ...] = ("cot",)
    >>> configure(Config, {"rounds": "2", "methods": "cot,pot"})
    Config(rounds=2, methods=('cot', 'pot'))
    """
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    given: dict[str, Any] = {}
    nested: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        head, _, rest = name.partition(".")
        if head not in fields:
            raise BadInput("setting", name, choices=fields)
        if rest:
            nested.setdefault(head, {})[rest] = value
        else:
            given[head] = _read(head, value, fields[head].type)
    for head, inner in nested.items():
        inner_kind = _struct_in(fields[head].type)
        if inner_kind is None:
            raise BadInput("setting", f"{head}.{next(iter(inner))}", f"no dot: {head} has no settings of its own")
        outer = given[head] if head in given else _default(fields[head])
        start = msgspec.structs.asdict(outer) if isinstance(outer, inner_kind) else {}
        given[head] = configure(inner_kind, {**start, **inner})
    try:
        return kind(**given)
    except PalestraError:
        raise
    except (TypeError, ValueError) as error:
        raise BadInput("settings", dict(values), str(error)) from None


def parse_pairs(pairs: list[str]) -> dict[str, str]:
    """Split `key=value` texts; the value may hold further equals signs."""
    found: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise BadInput("--set", pair, "key=value")
        found[name.strip()] = value
    return found


def _read(name: str, value: Any, kind: Any) -> Any:
    try:
        if isinstance(value, str):
            return _from_text(value, kind)
        return msgspec.convert(value, kind, strict=False)
    except (ValueError, TypeError) as error:
        raise BadInput(name, value, f"{type_name(kind)}{_why(error)}", choices=_choices(kind)) from None


def _why(error: Exception) -> str:
    """What the type alone does not say: a bound, a rule of the field's own."""
    reason = str(error).split(" - at ")[0]
    bound = re.fullmatch(r"Expected `\w+` (.+)", reason)
    if bound:
        return f" {bound[1]}"
    return "" if reason.startswith(("Expected ", "Invalid enum value")) else f" ({reason})"


def _choices(kind: Any) -> list[Any]:
    """The values that a field lists somewhere in its type."""
    if get_origin(kind) is Literal:
        return list(get_args(kind))
    return [choice for one in get_args(kind) for choice in _choices(one)]


def _from_text(text: str, kind: Any) -> Any:
    """Read `text` as `kind`: as it stands, else as JSON, else as a comma-separated list."""
    readings: list[Any] = [text]
    if text[:1] in '[{"' or text in ("null", "true", "false"):
        try:
            readings.insert(0, msgspec.json.decode(text))
        except (ValueError, RecursionError):  # no JSON, or no Unicode, or absurdly deep
            pass
    readings.append([part.strip() for part in text.split(",") if part.strip()])
    failure: msgspec.ValidationError | None = None
    for reading in readings:
        try:
            return msgspec.convert(reading, kind, strict=False)
        except msgspec.ValidationError as error:
            failure = failure or error
    assert failure is not None
    raise failure


def _struct_in(kind: Any) -> type[Struct] | None:
    """`kind` when it is a Struct, or the Struct of an optional or annotated one."""
    if isinstance(kind, type) and issubclass(kind, Struct):
        return kind
    inner = get_args(kind) if get_origin(kind) in (Union, UnionType, Annotated) else ()
    return next((found for one in inner if (found := _struct_in(one)) is not None), None)


def _default(field: msgspec.structs.FieldInfo) -> Any:
    return field.default_factory() if callable(field.default_factory) else field.default


def type_name(kind: Any) -> str:
    """A field's type as a user would write it: `int`, `one of kl, reverse_kl`, `list of float`.

    >>> type_name(tuple[float, ...])
    'list of float'
    """
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return type_name(inner[0])
    if origin is Literal:
        return f"one of {', '.join(map(str, inner))}"
    if origin in (list, tuple, set):
        return f"list of {type_name(inner[0])}"
    if origin in (Union, UnionType):
        return " or ".join("nothing" if one is type(None) else type_name(one) for one in inner)
    return getattr(kind, "__name__", None) or str(kind)


def description(kind: Any) -> str:
    """What a field is for: the description among its annotations, or nothing."""
    texts = [note.description for note in getattr(kind, "__metadata__", ()) if isinstance(note, msgspec.Meta)]
    return next((text for text in texts if text), "")
