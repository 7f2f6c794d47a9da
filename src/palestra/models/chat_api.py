"""The OpenAI-compatible wire format: requests as JSON bodies, replies as Completions. Pure functions, no I/O.

Reference: the public API reference of OpenAI's Chat Completions and Embeddings; llama.cpp, vLLM and others serve the
same format. Bytes from a server are untrusted: whatever they are, they decode or raise `BadReply`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any, TypeVar, cast

import msgspec
from msgspec import Struct, field

from palestra.core.errors import BadReply
from palestra.core.records import JSON, Completion, Image, Message, TokenLogprob, ToolCall, ToolSpec, Usage
from palestra.models.engine import Request

S = TypeVar("S")
SEED_BITS = 0x7FFFFFFF  # what every server takes: some read the seed as a signed 32-bit integer
CHARACTERS_A_TOKEN = 4  # the estimate when a server does not count


class _Details(Struct):
    cached_tokens: int | None = None


class _Usage(Struct):
    prompt_tokens: int = 0
    completion_tokens: int = 0
    prompt_tokens_details: _Details | None = None


class _Function(Struct):
    name: str
    arguments: str | JSON | None = None


class _ToolCall(Struct):
    function: _Function
    id: str | None = None


class _Message(Struct):
    content: str | None = None
    refusal: str | None = None
    tool_calls: list[_ToolCall] | None = None


class _Top(Struct):
    token: str
    logprob: float | None = None


class _Token(Struct):
    token: str
    logprob: float | None = None
    top_logprobs: list[_Top] | None = None


class _Logprobs(Struct):
    content: list[_Token] | None = None


class _Choice(Struct):
    message: _Message
    finish_reason: str | None = None
    logprobs: _Logprobs | None = None


class _Chat(Struct):
    choices: list[_Choice]
    usage: _Usage | None = None
    model: str | None = None


class _Delta(Struct):
    content: str | None = None


class _Piece(Struct):
    delta: _Delta = field(default_factory=_Delta)
    finish_reason: str | None = None


class Chunk(Struct):
    """One event of a streamed reply."""

    choices: list[_Piece] = []
    usage: _Usage | None = None
    model: str | None = None
    error: Any = None

    @property
    def text(self) -> str:
        """The new text."""
        return (self.choices[0].delta.content or "") if self.choices else ""

    @property
    def finish_reason(self) -> str | None:
        """Why the reply ended, in the event that ends it."""
        return self.choices[0].finish_reason if self.choices else None


class _Embedding(Struct):
    embedding: list[float]
    index: int | None = None


class Embeddings(Struct):
    """The reply to an embeddings request."""

    data: list[_Embedding]
    usage: _Usage | None = None


def chat_body(
    request: Request, name: str, *, stream: bool = False, modern: bool = False, without: Collection[str] = ()
) -> bytes:
    """The JSON body of a chat completion.

    Args:
        request: what is asked.
        name: the model's name on the server.
        stream: ask for server-sent events, with usage in the last one.
        modern: for OpenAI itself: `max_completion_tokens`, and no `top_k` and `min_p` where they limit nothing. Other
            servers have limits of their own unless told otherwise, so they are always told.
        without: parameters that this server refuses.
    """
    sampling = request.sampling
    body: JSON = {"model": name, "messages": [_message(message) for message in request.messages]}
    body["max_completion_tokens" if modern or "max_tokens" in without else "max_tokens"] = sampling.max_tokens
    body["temperature"], body["top_p"] = sampling.temperature, sampling.top_p
    if sampling.top_k or not modern:
        body["top_k"] = sampling.top_k
    if sampling.min_p or not modern:
        body["min_p"] = sampling.min_p
    if sampling.seed is not None:
        body["seed"] = sampling.seed & SEED_BITS
    if sampling.stop:
        body["stop"] = sampling.stop
    if sampling.logprobs:
        body["logprobs"], body["top_logprobs"] = True, sampling.logprobs
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
    if request.schema is not None:
        form = {"name": "reply", "schema": request.schema, "strict": is_strict(request.schema)}
        body["response_format"] = {"type": "json_schema", "json_schema": form}
    if stream:
        body["stream"], body["stream_options"] = True, {"include_usage": True}
    for parameter in without:
        body.pop(parameter, None)
    return msgspec.json.encode(body)


def read_chat(content: bytes, request: Request, *, name: str, seconds: float, engine: str) -> Completion:
    """The reply in `content`.

    Args:
        name: the model's name on the server; when the server says that another one answered, `engine` says so too.
        seconds: how long the server took.
        engine: what answered.

    Raises:
        BadReply: it is not a chat completion. With `error.usage` when a reply was made (and paid for), but its tool
            call cannot be read.
    """
    reply = decode(content, _Chat)
    if not reply.choices:
        raise BadReply("the server's reply holds no choice")
    choice = reply.choices[0]
    message = choice.message
    text = message.content or message.refusal or ""
    usage, notes = _usage(reply.usage, request, text, seconds)
    try:
        calls = tuple(_call(call, number) for number, call in enumerate(message.tool_calls or ()))
    except BadReply as error:
        error.usage = usage  # pyright: ignore[reportAttributeAccessIssue]
        raise
    reason = choice.finish_reason or "stop"
    return Completion(
        message=Message("assistant", text, tool_calls=calls),
        usage=usage,
        finish_reason="tool_calls" if reason == "function_call" else reason,
        engine=engine + served_as(reply.model, name) + notes,
        logprobs=_logprobs(choice.logprobs),
    )


def read_stream(
    pieces: Sequence[str], usage: _Usage | None, request: Request, *, reason: str, seconds: float, engine: str
) -> Completion:
    """The whole reply of a stream, from its pieces and its last events."""
    text = "".join(pieces)
    counted, notes = _usage(usage, request, text, seconds)
    return Completion(Message("assistant", text), counted, finish_reason=reason, engine=engine + notes)


def served_as(model: str | None, name: str) -> str:
    """A note for the engine's name when a server answers for `name` with another `model` (a dated version, a file).

    >>> served_as("gpt-5-2025-08-07", "gpt-5"), served_as("/srv/models/tiny.gguf", "tiny"), served_as("a/b", "a/b")
    (' gpt-5-2025-08-07', ' tiny.gguf', '')
    """
    if not model or model == name:
        return ""
    return " " + (re.split(r"[/\\\\]", model)[-1] if re.match(r"/|[A-Za-z]:", model) else model)


def read_embeddings(content: bytes, texts: Sequence[str], *, seconds: float) -> tuple[list[list[float]], Usage]:
    """One vector a text, in the order of `texts`.

    Raises:
        BadReply: it is not a reply to these texts.
    """
    reply = decode(content, Embeddings)
    rows: dict[int, list[float]] = {}
    for place, item in enumerate(reply.data):
        rows[place if item.index is None else item.index] = item.embedding
    if sorted(rows) != list(range(len(texts))):
        raise BadReply(f"the server returned {len(reply.data)} embeddings for {len(texts)} texts")
    if len({len(row) for row in rows.values()}) != 1 or not rows[0]:
        raise BadReply("the server returned embeddings of different or no width")
    tokens = reply.usage.prompt_tokens if reply.usage else _estimate(sum(map(len, texts)))
    return [rows[place] for place in range(len(texts))], Usage(calls=1, input_tokens=tokens, seconds=seconds)


def decode(content: bytes, kind: type[S]) -> S:
    """`content` as `kind`.

    Raises:
        BadReply: it is not JSON of that form.
    """
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        shown = content[:60].decode("utf-8", "replace")
        raise BadReply(f"the server's reply cannot be read ({error}): {shown!r}") from None


class Events:
    """Cuts a stream of bytes into the data of its server-sent events (HTML standard, section 9.2.6).

    >>> events = Events()
    >>> events.feed(b'data: {"a"'), events.feed(b": 1}\\r\\n\\r\\n: note\\n\\ndata: [DONE]\\n\\n")
    ([], [b'{"a": 1}', b'[DONE]'])
    """

    def __init__(self) -> None:
        self._parts: list[bytes] = []  # of the line that is not complete yet
        self._data: list[bytes] = []

    def feed(self, content: bytes) -> list[bytes]:
        """The data of the events that `content` completes."""
        self._parts.append(content)
        if b"\n" not in content and b"\r" not in content:
            return []
        *lines, rest = _LINE_END.split(b"".join(self._parts))
        if not rest and content.endswith(b"\r"):  # the other half of this line end may still come
            rest = lines.pop() + b"\r"
        self._parts = [rest]
        found: list[bytes] = []
        for line in lines:
            if line.startswith(b"data:"):
                self._data.append(line[6:] if line[5:6] == b" " else line[5:])
            elif not line and self._data:
                found.append(b"\n".join(self._data))
                self._data = []
        return found


_LINE_END = re.compile(rb"\r\n|\n|\r")


def is_strict(schema: Any) -> bool:
    """Whether OpenAI's strict mode takes `schema`: every object lists all its keys as required and allows no others."""
    if isinstance(schema, list):
        return all(is_strict(part) for part in cast("list[Any]", schema))
    if not isinstance(schema, dict):
        return True
    form = cast(JSON, schema)
    if form.get("type") == "object" or "properties" in form:
        names = set[str](form.get("properties", {}))
        if form.get("additionalProperties") is not False or set[str](form.get("required", ())) != names:
            return False
    return all(is_strict(part) for part in form.values())


def _message(message: Message) -> JSON:
    content = message.content
    body: JSON = {
        "role": message.role,
        "content": content if isinstance(content, str) else [_part(part) for part in content],
    }
    if message.name is not None:
        body["name"] = message.name
    if message.tool_call_id is not None:
        body["tool_call_id"] = message.tool_call_id
    if message.tool_calls:
        body["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": msgspec.json.encode(call.arguments).decode()},
            }
            for call in message.tool_calls
        ]
    return body


def _part(part: Any) -> JSON:
    if isinstance(part, Image):
        return {"type": "image_url", "image_url": {"url": part.url}}
    return {"type": "text", "text": part.text}


def _tool(tool: ToolSpec) -> JSON:
    description = tool.description
    if tool.example is not None:
        description += f"\nExample arguments: {msgspec.json.encode(tool.example).decode()}"
    function = {"name": tool.name, "description": description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


def _call(call: _ToolCall, number: int) -> ToolCall:
    arguments = call.function.arguments
    if isinstance(arguments, str):
        try:
            arguments = msgspec.json.decode(arguments, type=JSON) if arguments.strip() else {}
        except (msgspec.DecodeError, RecursionError) as error:
            name = call.function.name
            raise BadReply(f"the arguments of the call of tool {name!r} are not a JSON object ({error})") from None
    return ToolCall(call.id or f"call_{number}", call.function.name, arguments or {})


def _logprobs(found: _Logprobs | None) -> tuple[TokenLogprob, ...]:
    if found is None or not found.content:
        return ()
    return tuple(
        TokenLogprob(
            token.token,
            _finite(token.logprob),
            tuple((top.token, _finite(top.logprob)) for top in token.top_logprobs or ()),
        )
        for token in found.content
    )


def _finite(value: float | None) -> float:
    return float("-inf") if value is None else value


def _usage(found: _Usage | None, request: Request, text: str, seconds: float) -> tuple[Usage, str]:
    """What the reply cost, and a note for the engine's name when the server did not count."""
    if found is not None:
        cached = found.prompt_tokens_details.cached_tokens if found.prompt_tokens_details else None
        return Usage(
            calls=1,
            input_tokens=max(0, found.prompt_tokens),
            output_tokens=max(0, found.completion_tokens),
            cached_tokens=min(max(0, cached or 0), max(0, found.prompt_tokens)),
            seconds=seconds,
        ), ""
    asked = sum(len(message.text) for message in request.messages)
    usage = Usage(calls=1, input_tokens=_estimate(asked), output_tokens=_estimate(len(text)), seconds=seconds)
    return usage, " (tokens estimated)"


def _estimate(characters: int) -> int:
    return -(-characters // CHARACTERS_A_TOKEN)
