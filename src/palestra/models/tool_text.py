"""Tools as text: for models whose engine ignores the `tools` argument, as llama.cpp does with the embedded model.

The conversation becomes one raw prompt: the list of tools, one worked request and call for each, then what was said.
The reply is one line of JSON, `{"name": …, "arguments": {…}}`, which a grammar can enforce (`call_schema`). With one
example for each tool a 135M model picks tool and arguments of like-worded requests; without, it is near chance.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, cast

import msgspec

from palestra.core.errors import BadInput
from palestra.core.records import JSON, Message, ToolCall, ToolSpec

STOP = ("\n",)  # a call is one line
REPLY = "reply"  # the stand-in tool that answers in words
REPLY_LENGTH = 300  # characters
_REPLY_TOOL = ToolSpec(
    REPLY,
    "answer in words, when no other tool is needed",
    {"type": "object", "properties": {"text": {"type": "string", "maxLength": REPLY_LENGTH}}, "required": ["text"]},
    example={"text": "You are welcome."},
    request="Thank you.",
)
_SAMPLES: dict[str, Any] = {"string": "text", "integer": 1, "number": 1.5, "boolean": True, "null": None}


def transcript(messages: Sequence[Message], tools: Sequence[ToolSpec], *, may_reply: bool = True) -> str:
    """The conversation as one raw prompt that ends where the next call is due.

    Args:
        messages: system messages come first in the prompt; a tool's reply follows its call.
        tools: what may be called; each is shown with its example, or with one made from its schema.
        may_reply: also offer to answer in words.

    Raises:
        BadInput: no tool, or two with one name.
    """
    offered = _offered(tools, may_reply=may_reply)
    said = "\n".join(message.text for message in messages if message.role == "system" and message.text)
    listed = "\n".join(f"- {_signature(tool)}: {_one_line(tool.description)}" for tool in offered)
    shown = "\n\n".join(_turn(_request(tool), tool.name, _example(tool)) for tool in offered)
    parts = [said, f"Tools:\n{listed}", shown]
    spoken = [message for message in messages if message.role != "system"]
    body = "\n".join(line for message in spoken for line in _lines(message))
    return "\n\n".join(part for part in parts if part) + f"\n\n{body}\nCall:\n"


def call_schema(tools: Sequence[ToolSpec], *, may_reply: bool = True) -> JSON:
    """The JSON schema of one call: one branch for each tool, its name fixed and its argument keys closed."""
    branches: list[JSON] = []
    definitions: JSON = {}
    for tool in _offered(tools, may_reply=may_reply):
        arguments: JSON = dict(tool.parameters)
        own: Mapping[str, Any] = arguments.pop("$defs", None) or {}
        for name, inner in own.items():
            if definitions.setdefault(name, inner) != inner:
                raise BadInput("tools", tool.name, f"one meaning of the schema definition {name!r} in all tools")
        if not arguments.get("properties"):
            arguments = {"type": "object", "properties": {}, "additionalProperties": False}
        properties: JSON = {"name": {"const": tool.name}, "arguments": arguments}
        branches.append({
            "type": "object",
            "properties": properties,
            "required": ["name", "arguments"],
            "additionalProperties": False,
        })  # fmt: skip
    schema: JSON = {"oneOf": branches} if len(branches) > 1 else branches[0]
    return {**schema, "$defs": definitions} if definitions else schema


def parse(text: str, tools: Sequence[ToolSpec]) -> Message:
    """The assistant's message that the reply `text` stands for.

    A call of one of `tools` becomes a ToolCall; the stand-in `reply` becomes its text; anything else stays as it is.
    The call's id is a digest of the call, the same in every run.

    >>> parse('{"name": "add", "arguments": {"a": 1}}', [ToolSpec("add", "adds", {})]).tool_calls[0].arguments
    {'a': 1}
    >>> parse("no JSON", []).text
    'no JSON'
    """
    try:
        value = msgspec.json.decode(text.strip().encode("utf-8", "replace"))
    except msgspec.DecodeError:
        return Message("assistant", text)
    if not isinstance(value, Mapping):
        return Message("assistant", text)
    call = cast("Mapping[str, Any]", value)
    name, arguments = call.get("name"), call.get("arguments")
    if not isinstance(arguments, dict) or not isinstance(name, str):
        return Message("assistant", text)
    known = {tool.name for tool in tools}
    if name in known:
        digest = blake2b(msgspec.json.encode([name, arguments], order="sorted"), digest_size=6).hexdigest()
        return Message("assistant", tool_calls=(ToolCall(f"call_{digest}", name, cast("JSON", arguments)),))
    spoken = cast("JSON", arguments).get("text")
    if name == REPLY and isinstance(spoken, str):
        return Message("assistant", spoken)
    return Message("assistant", text)


def speaks_of_tools(messages: Sequence[Message]) -> bool:
    """Whether a conversation holds calls or their results, which a plain chat template cannot show."""
    return any(message.tool_calls or message.role == "tool" for message in messages)


def in_words(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The conversation with calls and results told as plain text, for a chat template that knows neither.

    >>> in_words([Message("tool", "12", tool_call_id="a")])[0].text
    'Result: 12'
    """
    told: list[Message] = []
    for message in messages:
        if message.role == "tool":
            told.append(Message("user", f"Result: {message.text}"))
        elif message.tool_calls:
            lines = [message.text] if message.text else []
            lines += [f"Call: {_call(call.name, call.arguments)}" for call in message.tool_calls]
            told.append(Message("assistant", "\n".join(lines)))
        else:
            told.append(message)
    return tuple(told)


def _offered(tools: Sequence[ToolSpec], *, may_reply: bool) -> list[ToolSpec]:
    names = [tool.name for tool in tools]
    if not names:
        raise BadInput("tools", names, "at least one tool")
    for name in names:
        if names.count(name) > 1:
            raise BadInput("tools", name, "each tool name once")
    return [_REPLY_TOOL, *tools] if may_reply and REPLY not in names else list(tools)


def _lines(message: Message) -> list[str]:
    if message.role == "tool":
        return [f"Result: {_one_line(message.text)}"]
    if message.role == "assistant":
        calls = [_call(call.name, call.arguments) for call in message.tool_calls]
        calls += [_call(REPLY, {"text": message.text})] if message.text else []
        return [f"Call:\n{call}" for call in calls]
    return [f"Request: {_one_line(message.text)}"]


def _turn(request: str, name: str, arguments: JSON) -> str:
    return f"Request: {request}\nCall:\n{_call(name, arguments)}"


def _call(name: str, arguments: JSON) -> str:
    # One blank after : and , as the grammar will have it, so that the examples read like what is to be written.
    return _spaced({"name": name, "arguments": arguments})


def _spaced(value: Any) -> str:
    if isinstance(value, Mapping):
        pairs = cast("Mapping[str, Any]", value).items()
        return "{" + ", ".join(f"{_spaced(key)}: {_spaced(inner)}" for key, inner in pairs) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_spaced(inner) for inner in cast("Sequence[Any]", value)) + "]"
    return msgspec.json.encode(value).decode()


def _signature(tool: ToolSpec) -> str:
    return f"{tool.name}({', '.join(tool.parameters.get('properties') or ())})"


def _request(tool: ToolSpec) -> str:
    """The words that ask for the tool's example: its own, or its description with the arguments' values."""
    if tool.request:
        return _one_line(tool.request)
    asked = _one_line(tool.description).split(". ")[0].rstrip(".") or tool.name
    values = ", ".join(f"{name} {value if isinstance(value, str) else _spaced(value)}"
                       for name, value in _example(tool).items())  # fmt: skip
    return f"{asked}: {values}." if values else f"{asked}."


def _example(tool: ToolSpec) -> JSON:
    if tool.example is not None:
        return tool.example
    return example_of(tool.parameters) if tool.parameters.get("properties") else {}


def example_of(schema: JSON, *, name: str = "text", root: JSON | None = None) -> Any:
    """A value that fits `schema`, made from its own examples, defaults, choices and limits.

    >>> example_of({"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}})
    {'city': 'city', 'days': 1}
    """
    root = schema if root is None else root
    if schema.get("examples"):
        return schema["examples"][0]
    for key in ("default", "const"):
        if key in schema:
            return schema[key]
    if schema.get("enum"):
        return schema["enum"][0]
    if isinstance(reference := schema.get("$ref"), str):
        return example_of(_resolve(reference, root), name=name, root=root)
    for union in ("anyOf", "oneOf"):
        if schema.get(union):
            return example_of(schema[union][0], name=name, root=root)
    kinds: Any = schema.get("type", "object" if "properties" in schema else "string")
    kind: str = kinds if isinstance(kinds, str) else kinds[0]
    if kind == "object":
        wanted = schema.get("required", schema.get("properties", {}))
        inner: Mapping[str, Any] = schema.get("properties", {})
        return {key: example_of(inner[key], name=key, root=root) for key in inner if key in wanted}
    if kind == "array":
        count = max(1, schema.get("minItems", 1))
        return [example_of(schema.get("items", {}), name=name.rstrip("s"), root=root)] * count
    if kind in ("integer", "number"):
        return _number(schema, kind)
    if kind == "string":
        text = {"date": "2024-05-17", "uuid": "12345678-1234-4234-8234-123456789abc"}.get(schema.get("format", ""))
        text = text or name.replace("_", " ").ljust(schema.get("minLength", 0), "x")
        return text[: schema.get("maxLength", len(text))]
    return _SAMPLES.get(kind)


def _number(schema: JSON, kind: str) -> float:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is None and "exclusiveMinimum" in schema:
        low = schema["exclusiveMinimum"] + 1
    if high is None and "exclusiveMaximum" in schema:
        high = schema["exclusiveMaximum"] - 1
    value: Any = _SAMPLES[kind] if low is None else low
    if (step := schema.get("multipleOf")) is not None:
        value = -(-value // step) * step  # the next multiple upwards
    return value if high is None else min(value, high)


def _resolve(reference: str, root: JSON) -> JSON:
    found: Any = root
    for part in reference.removeprefix("#").strip("/").split("/"):
        found = found.get(part.replace("~1", "/").replace("~0", "~"), {}) if part else found
    return cast("JSON", found)


def _one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()
