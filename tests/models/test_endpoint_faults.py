"""A server that hangs, drops, refuses, lies or sends garbage: the call succeeds after retries or fails with one typed error."""

import asyncio
import gzip
import random
import time
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from palestra.core.errors import (
    BadReply,
    ContextOverflow,
    MissingKey,
    ModelError,
    RateLimited,
    ServerFault,
    UnknownModel,
    Unreachable,
)
from palestra.core.records import Completion, Image, Message, Sampling, Text, ToolCall, ToolSpec
from palestra.core.seeds import SeedTree
from palestra.models import Endpoint, Model, Price, Request
from palestra.models.backoff import Backoff

Behaviour = Callable[["Exchange"], Awaitable[None]]
FAST = Backoff(attempts=4, base=0.01, cap=0.02)


class Exchange:
    """One request at the loopback server, and the means to answer it, rightly or wrongly."""

    def __init__(self, writer: asyncio.StreamWriter, path: str, headers: dict[str, str], body: Any) -> None:
        self.writer, self.path, self.headers, self.body = writer, path, headers, body

    def raw(self, content: bytes) -> None:
        self.writer.write(content)

    def reply(self, content: bytes, *, status: int = 200, **headers: str) -> None:
        lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        head = "\r\n".join([f"HTTP/1.1 {status} X", f"content-length: {len(content)}", *lines])
        self.raw(head.encode() + b"\r\n\r\n" + content)

    def drop(self) -> None:
        self.writer.transport.abort()


class Server:
    """Answers each request by the next behaviour, the last one again after that."""

    def __init__(self, *behaviours: Behaviour) -> None:
        self.behaviours, self.seen, self.times = list(behaviours), list[Exchange](), list[float]()
        self.url = ""

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:])}
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                exchange = Exchange(writer, head[0].split()[1], headers, msgspec.json.decode(body))
                behaviour = self.behaviours.pop(0) if len(self.behaviours) > 1 else self.behaviours[0]
                self.seen.append(exchange)
                self.times.append(time.monotonic())
                await behaviour(exchange)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def serving(*behaviours: Behaviour) -> AsyncIterator[Server]:
    server = Server(*behaviours)
    listening = await asyncio.start_server(server.handle, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
    try:
        yield server
    finally:
        listening.close()


def chat(text: str | None = "ok", **more: Any) -> bytes:
    message = {"role": "assistant", "content": text, **more.pop("message", {})}
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 1}}
    choice = {"index": 0, "message": message, "finish_reason": "stop", **more.pop("choice", {})}
    return msgspec.json.encode({"id": "1", "choices": [choice], "usage": usage, **more})


async def right(exchange: Exchange) -> None:
    exchange.reply(chat())


async def hang(exchange: Exchange) -> None:
    await asyncio.sleep(30)


async def hang_in_the_body(exchange: Exchange) -> None:
    exchange.raw(b"HTTP/1.1 200 OK\r\ncontent-length: 900\r\n\r\n{")
    await asyncio.sleep(30)


async def drip(exchange: Exchange) -> None:
    exchange.raw(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
    while True:
        exchange.raw(b"1\r\n \r\n")
        await exchange.writer.drain()
        await asyncio.sleep(0.02)


async def drop(exchange: Exchange) -> None:
    exchange.drop()


async def drop_in_the_body(exchange: Exchange) -> None:
    exchange.raw(b"HTTP/1.1 200 OK\r\ncontent-length: 900\r\n\r\n" + chat()[:20])
    await exchange.writer.drain()
    exchange.drop()


async def half_a_json(exchange: Exchange) -> None:
    exchange.reply(chat()[:30])


async def garbage(exchange: Exchange) -> None:
    exchange.reply(b"\x00\xff\xfe not json")


async def not_http(exchange: Exchange) -> None:
    exchange.raw(b"\x16\x03\x01 SSH-2.0-garbage\r\n\r\n")


async def html(exchange: Exchange) -> None:
    exchange.reply(b"<html>502 Bad Gateway</html>", status=502)


async def no_choice(exchange: Exchange) -> None:
    exchange.reply(b'{"choices": []}')


async def bad_gzip(exchange: Exchange) -> None:
    exchange.reply(b"not gzip at all", content_encoding="gzip")


def refuse(status: int, body: Any = None, **headers: str) -> Behaviour:
    async def behave(exchange: Exchange) -> None:
        exchange.reply(msgspec.json.encode(body if body is not None else {}), status=status, **headers)

    return behave


def sse(*events: Any, end: bytes = b"data: [DONE]\n\n") -> bytes:
    return b"".join(b"data: " + msgspec.json.encode(event) + b"\n\n" for event in events) + end


def delta(text: str | None, reason: str | None = None) -> Any:
    return {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": reason}], "model": "m"}


def stream_of(content: bytes) -> Behaviour:
    async def behave(exchange: Exchange) -> None:
        exchange.reply(content, content_type="text/event-stream")

    return behave


def ask_at(server: Server, **options: Any) -> Model:
    options = {"timeout": 0.3, "total_timeout": 0.8, "backoff": FAST, **options}
    return Model(Endpoint(server.url, "m", **options), name="m")


FAULTS: dict[str, tuple[Behaviour, type[ModelError]]] = {
    "hang": (hang, Unreachable),
    "hang in the body": (hang_in_the_body, Unreachable),
    "drip without end": (drip, Unreachable),
    "drop": (drop, Unreachable),
    "drop in the body": (drop_in_the_body, Unreachable),
    "not http": (not_http, Unreachable),
    "half a json": (half_a_json, BadReply),
    "garbage": (garbage, BadReply),
    "bad gzip": (bad_gzip, BadReply),
    "no choice": (no_choice, BadReply),
    "html 502": (html, ServerFault),
    "500": (refuse(500, {"error": {"message": "boom"}}), ServerFault),
    "503 with a pause": (refuse(503, retry_after="0.02"), ServerFault),
    "408": (refuse(408), ServerFault),
    "429": (refuse(429, {"error": {"message": "slow down"}}), RateLimited),
    "429 with a pause": (refuse(429, retry_after="0.02"), RateLimited),
}


@pytest.mark.parametrize("name", FAULTS)
async def test_a_server_that_recovers_is_asked_again(name):
    behaviour, _ = FAULTS[name]
    async with serving(behaviour, behaviour, right) as server:
        reply = await ask_at(server).complete("x")
    assert (reply.text, reply.retries) == ("ok", 2)
    assert len(server.seen) == 3


@pytest.mark.parametrize("name", FAULTS)
async def test_a_server_that_does_not_recover_is_given_up_with_a_typed_error(name):
    behaviour, kind = FAULTS[name]
    async with serving(behaviour) as server:
        with pytest.raises(kind) as found:
            await ask_at(server, backoff=Backoff(attempts=2, base=0.01), total_timeout=0.5).complete("x")
    assert type(found.value) is kind
    assert "\n" not in str(found.value)
    assert found.value.transient
    assert vars(found.value)["retries"] == 1
    assert len(server.seen) == 2


FINAL: dict[str, tuple[int, Any, type[ModelError], str]] = {
    "key": (
        401,
        {"error": {"message": "bad key"}},
        MissingKey,
        r"refused the key in PALESTRA_API_KEY \(401: bad key\)",
    ),
    "forbidden": (403, {}, MissingKey, "refused the key"),
    "model": (404, {"error": {"message": "no such model"}}, UnknownModel, "no model 'm' at http://127.0.0.1"),
    "request": (400, {"error": {"message": "bad thing"}}, ModelError, "answered 400: bad thing"),
    "fastapi": (422, {"detail": [{"msg": "field required"}]}, ModelError, "field required"),
    "redirect": (301, {}, ModelError, "it redirects to .* check the base URL"),
    "quota": (429, {"error": {"code": "insufficient_quota", "message": "pay"}}, ModelError, "quota of the key"),
    "not implemented": (501, {"error": "no"}, ModelError, "answered 501: no"),
    "context, llama.cpp": (
        400,
        {"error": {"type": "exceed_context_size_error", "message": "too long", "n_prompt_tokens": 9, "n_ctx": 8}},
        ContextOverflow,
        "prompt of 9 tokens does not fit the 8-token context of m",
    ),
    "context, OpenAI": (
        400,
        {
            "error": {
                "code": "context_length_exceeded",
                "message": "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens.",
            }
        },
        ContextOverflow,
        "prompt of 9001 tokens does not fit the 8192-token context of m",
    ),
    "context, vLLM": (
        400,
        {"message": "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (4000 in)"},
        ContextOverflow,
        "prompt of 5000 tokens",
    ),
    "context, no numbers": (
        400,
        {"error": "prompt is too long"},
        ModelError,
        "the prompt does not fit the context of m",
    ),
}


@pytest.mark.parametrize("name", FINAL)
async def test_a_refusal_that_will_not_change_is_raised_at_once(name):
    status, body, kind, line = FINAL[name]
    async with serving(refuse(status, body, location="/v2")) as server:
        with pytest.raises(kind, match=line) as found:
            await ask_at(server, key="sk-secret").complete("x")
    assert type(found.value) is kind
    assert not found.value.transient
    assert "sk-secret" not in str(found.value)
    assert len(server.seen) == 1


async def test_retry_after_is_honoured_and_holds_back_all_calls_to_the_endpoint():
    async with serving(refuse(429, retry_after="0.3"), right) as server:
        ask = ask_at(server)
        started = time.monotonic()
        first = asyncio.create_task(ask.complete("first"))
        await asyncio.sleep(0.1)
        others = await asyncio.gather(*(ask.complete(f"{n}") for n in range(5)))
        assert (await first).retries == 1
    assert [reply.retries for reply in others] == [0] * 5
    assert min(server.times[1:]) - started >= 0.3


async def test_a_reply_that_says_nothing_is_left_holds_the_next_call_until_the_reset():
    async def last_one(exchange: Exchange) -> None:
        exchange.reply(chat(), x_ratelimit_remaining_requests="0", x_ratelimit_reset_requests="250ms")

    async with serving(last_one, right) as server:
        ask = ask_at(server)
        await ask.complete("x")
        await ask.complete("y")
    assert server.times[1] - server.times[0] >= 0.25


async def test_a_pause_longer_than_our_patience_is_not_waited_for():
    async with serving(refuse(429, retry_after="3600")) as server:
        with pytest.raises(RateLimited) as found:
            await ask_at(server).complete("x")
    assert found.value.retry_after == 3600.0


async def test_waiting_does_not_touch_the_seeds_of_the_run():
    random.seed(1)
    np.random.seed(1)
    states = random.getstate(), np.random.get_state()[1].tolist(), SeedTree(0).seed("x")
    async with serving(refuse(500), right) as server:
        await ask_at(server).complete("x")
    assert states == (random.getstate(), np.random.get_state()[1].tolist(), SeedTree(0).seed("x"))


async def test_a_parameter_that_the_server_refuses_is_left_out_and_the_record_says_so():
    body = {
        "error": {"code": "unsupported_value", "param": "temperature", "message": "'temperature' does not support 0.7"}
    }
    names = {
        "error": {
            "message": "Unsupported parameter: 'max_tokens'",
            "param": "max_tokens",
            "code": "unsupported_parameter",
        }
    }
    async with serving(refuse(400, body), refuse(400, names), right) as server:
        ask = ask_at(server)
        replies = [await ask.complete("x"), await ask.complete("y")]
    assert [reply.engine for reply in replies] == ["endpoint without temperature"] * 2
    assert [reply.retries for reply in replies] == [0, 0]
    assert "temperature" not in server.seen[2].body
    assert server.seen[2].body["max_completion_tokens"] == 256
    assert len(server.seen) == 4


async def test_a_request_carries_everything_in_the_public_format():
    look = ToolSpec("look", "Looks.", {"type": "object"}, example={"where": "here"})
    messages = [
        Message("system", "Be brief."),
        Message("user", (Text("See:"), Image("data:image/png;base64,AAAA"))),
        Message("assistant", tool_calls=(ToolCall("c1", "look", {"where": "ü"}),)),
        Message("tool", "a cat", tool_call_id="c1"),
    ]
    schema = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    sampling = Sampling(0.5, 0.9, 7, 0.1, 33, ("END",), 2**62 + 5, 2)
    async with serving(right) as server:
        engine = Endpoint(server.url, "org/name", key="sk-1")
        await engine.complete(Request("complete", "x", tuple(messages), (look,), schema, sampling))
    (seen,) = server.seen
    assert seen.path == "/v1/chat/completions"
    assert seen.headers["authorization"] == "Bearer sk-1"
    assert seen.body == {
        "model": "org/name",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "See:"},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
                ],
            },
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"where":"ü"}'}}
                ],
            },
            {"role": "tool", "content": "a cat", "tool_call_id": "c1"},
        ],
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "look",
                    "description": 'Looks.\nExample arguments: {"where":"here"}',
                    "parameters": {"type": "object"},
                },
            }
        ],
        "response_format": {"type": "json_schema", "json_schema": {"name": "reply", "schema": schema, "strict": True}},
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 7,
        "min_p": 0.1,
        "max_tokens": 33,
        "stop": ["END"],
        "seed": 5,
        "logprobs": True,
        "top_logprobs": 2,
    }


async def test_tool_calls_are_read_and_unreadable_arguments_are_charged_and_not_asked_for_again():
    def calling(arguments: Any) -> Behaviour:
        call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": arguments}}

        async def behave(exchange: Exchange) -> None:
            exchange.reply(chat(None, message={"tool_calls": [call]}, choice={"finish_reason": "tool_calls"}))

        return behave

    async with serving(
        calling('{"where": "ü"}'), calling({"where": "x"}), calling(""), calling('{"where": ')
    ) as server:
        ask = ask_at(server)
        for arguments in ({"where": "ü"}, {"where": "x"}, {}):
            reply = await ask.complete("x")
            assert reply.message.tool_calls == (ToolCall("c1", "look", arguments),)
            assert reply.finish_reason == "tool_calls"
        with pytest.raises(BadReply, match="arguments of the call of tool 'look'") as found:
            await ask.complete("x")
    assert vars(found.value)["usage"].tokens == 5
    assert len(server.seen) == 4


async def test_usage_is_priced_by_the_users_prices():
    async with serving(right) as server:
        reply = await ask_at(server, price=Price(input=1.0, cached=0.5, output=10.0)).complete("x")
    assert (reply.usage.input_tokens, reply.usage.cached_tokens, reply.usage.output_tokens) == (3, 1, 2)
    assert reply.usage.usd == pytest.approx((2 * 1.0 + 1 * 0.5 + 2 * 10.0) / 1e6)


async def test_a_server_that_does_not_count_gets_an_estimate_that_is_named():
    async def uncounted(exchange: Exchange) -> None:
        exchange.reply(b'{"choices": [{"message": {"content": "four"}}]}')

    async with serving(uncounted) as server:
        reply = await ask_at(server).complete("x" * 9)
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (3, 1)
    assert reply.engine == "endpoint (tokens estimated)"


async def test_unicode_and_a_megabyte_arrive_whole():
    text = "Grüße 世界 🙂\u2028\x00" * 60_000

    async def large(exchange: Exchange) -> None:
        content = chat(text)
        assert len(content) > 1_000_000
        exchange.reply(gzip.compress(content), content_encoding="gzip")

    async with serving(large) as server:
        assert (await ask_at(server, timeout=5, total_timeout=10).complete(text)).text == text
    assert server.seen[0].body["messages"] == [{"role": "user", "content": text}]


async def test_embeddings_come_in_order_with_length_one():
    async def embed(exchange: Exchange) -> None:
        rows = [{"index": 1, "embedding": [0.0, 2.0]}, {"index": 0, "embedding": [3.0, 4.0]}]
        exchange.reply(msgspec.json.encode({"data": rows, "usage": {"prompt_tokens": 6}}))

    async with serving(embed) as server:
        vectors = await ask_at(server).embed(["a", "b"])
    assert server.seen[0].body == {"model": "m", "input": ["a", "b"]}
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, [[0.6, 0.8], [0.0, 1.0]], rtol=1e-6)


@pytest.mark.parametrize("rows", [[], [[1.0]], [[1.0], [1.0, 2.0]], [[], []]])
async def test_embeddings_that_do_not_fit_the_texts_are_refused(rows):
    async def embed(exchange: Exchange) -> None:
        exchange.reply(msgspec.json.encode({"data": [{"embedding": row} for row in rows]}))

    async with serving(embed) as server:
        with pytest.raises(BadReply, match="embeddings"):
            await ask_at(server, backoff=Backoff(attempts=1)).embed(["a", "b"])


# Streams

GOOD = sse(
    delta(None),
    delta("Gr"),
    delta("üße"),
    delta(None, "stop"),
    {"choices": [], "usage": {"prompt_tokens": 4, "completion_tokens": 2}},
)


async def pieces_of(server: Server, **options: Any) -> list[str | Completion]:
    engine = ask_at(server, **options).engine
    return [piece async for piece in engine.stream(Request("complete", "m", (Message("user", "x"),)))]  # type: ignore


async def test_a_stream_gives_pieces_then_the_whole_with_its_usage():
    async with serving(stream_of(GOOD)) as server:
        *pieces, whole = await pieces_of(server)
    assert pieces == ["Gr", "üße"]
    assert isinstance(whole, Completion)
    assert (whole.text, whole.finish_reason, whole.usage.input_tokens, whole.usage.output_tokens) == (
        "Grüße",
        "stop",
        4,
        2,
    )
    assert server.seen[0].body["stream_options"] == {"include_usage": True}


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
async def test_a_stream_may_be_cut_anywhere_and_end_its_lines_in_any_way(end):
    content = GOOD.replace(b"\n", end)

    async def byte_by_byte(exchange: Exchange) -> None:
        exchange.raw(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        for byte in content:
            exchange.raw(b"1\r\n" + bytes([byte]) + b"\r\n")
            await exchange.writer.drain()
        exchange.raw(b"0\r\n\r\n")

    async with serving(byte_by_byte) as server:
        *pieces, whole = await pieces_of(server)
    assert pieces == ["Gr", "üße"]
    assert isinstance(whole, Completion)


async def test_a_connection_is_used_again_after_a_stream():
    async with serving(stream_of(GOOD)) as server:
        ask = ask_at(server)
        for _ in range(3):
            async for _piece in ask.stream("x"):
                pass
    assert len({id(exchange.writer) for exchange in server.seen}) == 1


@pytest.mark.parametrize("name", [name for name in FAULTS if "drip" not in name])
async def test_a_stream_that_fails_before_its_first_piece_is_asked_for_again(name):
    behaviour, _ = FAULTS[name]
    async with serving(behaviour, stream_of(GOOD)) as server:
        *_, whole = await pieces_of(server)
    assert isinstance(whole, Completion)
    assert (whole.text, whole.retries) == ("Grüße", 1)


async def drop_mid_stream(exchange: Exchange) -> None:
    exchange.raw(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
    content = sse(delta("half"), end=b"")
    exchange.raw(f"{len(content):x}\r\n".encode() + content + b"\r\n")
    await exchange.writer.drain()
    await asyncio.sleep(0.05)
    exchange.drop()


@pytest.mark.parametrize(
    "behaviour, kind",
    [
        (drop_mid_stream, Unreachable),
        (stream_of(sse(delta("half"), end=b"")), BadReply),
        (stream_of(sse(delta("half"), end=b"data: {broken\n\n")), BadReply),
        (stream_of(sse(delta("half"), {"error": {"message": "out of memory"}})), ServerFault),
    ],
)
async def test_a_stream_that_breaks_in_the_middle_fails_with_a_typed_error_and_is_not_started_again(behaviour, kind):
    async with serving(behaviour, stream_of(GOOD)) as server:
        with pytest.raises(kind):
            async for piece in ask_at(server).stream("x"):
                assert piece == "half"
    assert len(server.seen) == 1


async def test_a_stream_that_never_ends_is_given_up():
    async def endless(exchange: Exchange) -> None:
        exchange.raw(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            exchange.raw(sse(delta("x"), end=b""))
            await exchange.writer.drain()
            await asyncio.sleep(0.01)

    async with serving(endless) as server:
        started = time.monotonic()
        with pytest.raises(Unreachable, match="did not answer in time"):
            async for _ in ask_at(server, total_timeout=0.4).stream("x"):
                pass
    assert time.monotonic() - started < 2


# Whatever a server sends

BODIES = st.one_of(
    st.binary(max_size=300),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["choices", "message", "content", "usage", "error", "code", "delta", "logprobs", "data"]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    ).map(lambda value: msgspec.json.encode(value)),
    st.tuples(st.integers(0, 120), st.binary(max_size=4)).map(lambda cut: chat()[: cut[0]] + cut[1] + chat()[cut[0] :]),
)
UNTRUSTED = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


def fetched(content: bytes, status: int, head: bytes | None, streamed: bool) -> None:
    async def behave(exchange: Exchange) -> None:
        if head is None:
            exchange.reply(content, status=status)
        else:
            exchange.raw(head + content)
        await exchange.writer.drain()
        exchange.writer.close()

    async def exchange_once() -> None:
        async with serving(behave) as server:
            ask = ask_at(server, backoff=Backoff(attempts=1), timeout=2.0, total_timeout=3.0)
            try:
                if streamed:
                    async for piece in ask.stream("x"):
                        assert isinstance(piece, str)
                else:
                    assert isinstance(await ask.complete("x"), Completion)
            except ModelError as error:
                assert "\n" not in str(error)

    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        asyncio.run(exchange_once())


@UNTRUSTED
@given(content=BODIES, status=st.sampled_from([200, 204, 400, 404, 429, 500]))
def test_any_body_gives_a_completion_or_a_typed_error(content, status):
    fetched(content, status, None, False)


@UNTRUSTED
@given(
    content=st.lists(
        st.one_of(
            st.binary(max_size=60),
            BODIES.map(lambda body: b"data: " + body + b"\n\n"),
            st.just(sse(delta("x"), end=b"")),
            st.sampled_from([b"data: [DONE]\n\n", b"\r", b"\n", b": note\n", b"event: x\n", b"data:\n\n"]),
        ),
        max_size=6,
    ).map(b"".join)
)
def test_any_stream_gives_pieces_or_a_typed_error(content):
    fetched(content, 200, None, True)


@UNTRUSTED
@given(
    head=st.binary(max_size=200) | st.binary(max_size=80).map(lambda tail: b"HTTP/1.1 200 OK\r\n" + tail + b"\r\n\r\n")
)
def test_any_bytes_in_place_of_http_give_a_typed_error_or_a_completion(head):
    fetched(chat(), 200, head, False)
