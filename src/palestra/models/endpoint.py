"""Any OpenAI-compatible endpoint: chat completions, streams and embeddings over one connection pool an event loop.

Failed requests are repeated with full jitter and exponential backoff; a pause that a server asks for holds back all
calls to it. Nothing waits for ever: connecting, reading, the whole reply and the number of attempts are all limited.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

import msgspec

from palestra.core.errors import BadInput, BadReply, MissingKey, ModelError, RateLimited, ServerFault, Unreachable
from palestra.core.records import Completion, Usage
from palestra.models.backoff import Backoff, Pause, pause_asked
from palestra.models.chat_api import (
    Chunk,
    Events,
    chat_body,
    decode,
    read_chat,
    read_embeddings,
    read_stream,
    served_as,
)
from palestra.models.connections import connections
from palestra.models.engine import Output, Request
from palestra.models.faults import Source, Unsupported, error_object, fault
from palestra.models.prices import Price

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")
MAX_REPLY = 64 << 20  # bytes; a longer reply is a fault of the server
LABEL = 64  # longest name of an engine in the store
LOOPBACK = ("localhost", "127.0.0.1", "::1")
OPENAI_HOST = "api.openai.com"
DRAIN = 0.2  # seconds for the end of a stream that has said it is done, so that its connection can be used again
_pauses: dict[tuple[str, str], Pause] = {}


class Endpoint:
    """A model behind an OpenAI-compatible HTTP API.

    Args:
        base_url: up to and including `/v1`.
        model: the model's name on the server.
        key: sent as bearer token; None sends none.
        key_name: the environment variable that the key comes from, for error messages.
        timeout: seconds without a byte of the reply before the attempt is given up.
        connect_timeout: seconds to connect.
        total_timeout: seconds for one whole attempt.
        backoff: how often and how slowly failed requests are repeated.
        connections: requests under way at once in one event loop; further calls queue.
        price: what tokens cost; None leaves dollars at 0.
    """

    name = "endpoint"

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        key: str | None = None,
        key_name: str = "PALESTRA_API_KEY",
        timeout: float = 120.0,
        connect_timeout: float = 10.0,
        total_timeout: float = 600.0,
        backoff: Backoff | None = None,
        connections: int = 256,
        price: Price | None = None,
    ) -> None:
        limits = {"timeout": timeout, "connect_timeout": connect_timeout, "total_timeout": total_timeout}
        for field, seconds in limits.items():
            if not 0 < seconds < float("inf"):
                raise BadInput(field, seconds, "seconds above 0")
        if connections < 1:
            raise BadInput("connections", connections, "at least 1")
        if key is not None and not (key.isascii() and key.isprintable()):
            raise MissingKey(f"{key_name} holds characters that no key has")
        self.url, self.where, host = _address(base_url)
        self.loopback = host in LOOPBACK
        self.modern = host == OPENAI_HOST
        self.model, self.price, self.backoff = model, price, backoff or Backoff()
        self.total_timeout, self.connections = total_timeout, connections
        self._timeouts = {"connect": connect_timeout, "read": timeout, "write": timeout, "pool": None}
        self._headers = {"content-type": "application/json", "user-agent": "palestra"}
        if key:
            self._headers["authorization"] = f"Bearer {key}"
        self._source = Source(self.where, model, key_name, key is not None)
        self._pause = _pauses.setdefault((self.url, model), Pause())
        self._slots: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()
        self._without: set[str] = set()  # parameters that the server has refused

    def __repr__(self) -> str:
        return f"Endpoint({self.where!r}, {self.model!r})"

    async def complete(self, request: Request) -> Completion:
        """One chat completion.

        Raises:
            Unreachable, RateLimited, ServerFault, BadReply: after the last attempt.
            ContextOverflow, MissingKey, UnknownModel, ModelError: at once.
        """

        def body() -> bytes:
            return chat_body(request, self.model, modern=self.modern, without=self._without)

        def read(content: bytes, seconds: float) -> Completion:
            label = _label(request, self._without)
            reply = read_chat(content, request, name=self.model, seconds=seconds, engine=label)
            return msgspec.structs.replace(reply, engine=reply.engine[:LABEL])

        completion, retries = await self._asked("/chat/completions", body, read)
        self._priced(completion.usage)
        return msgspec.structs.replace(completion, retries=retries) if retries else completion

    async def stream(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """The pieces of a chat completion, then the whole of it.

        Raises:
            As `complete`. A stream that breaks after its first piece is not started again.
        """
        failures = 0
        while True:
            said: list[str] = []
            try:
                async with self._slot(), aclosing(self._streamed(request, said)) as pieces:
                    async for piece in pieces:
                        if isinstance(piece, Completion):
                            self._priced(piece.usage)
                            piece = msgspec.structs.replace(piece, retries=failures)
                        yield piece
                return
            except ModelError as error:
                if said:
                    error.__dict__["retries"] = failures
                    raise
                failures = await self._failed(error, failures)

    async def embed(self, request: Request) -> Output:
        """Embeddings of `request.texts`: float32 array, shape (texts, width), rows of length 1."""
        import numpy as np

        body = msgspec.json.encode({"model": self.model, "input": request.texts})

        def read(content: bytes, seconds: float) -> Output:
            rows, usage = read_embeddings(content, request.texts, seconds=seconds)
            vectors = np.asarray(rows, dtype=np.float32)
            lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
            return Output(vectors / np.where(lengths > 0, lengths, 1.0), usage)

        output, _ = await self._asked("/embeddings", lambda: body, read)
        self._priced(output.usage)
        return output

    async def _asked(self, path: str, body: Callable[[], bytes], read: Callable[[bytes, float], T]) -> tuple[T, int]:
        """What `read` makes of the reply to `body`, and how many attempts failed before it."""
        failures = 0
        while True:
            try:
                async with self._slot():
                    content, seconds = await self._post(path, body())
                return read(content, seconds), failures
            except ModelError as error:
                failures = await self._failed(error, failures)

    async def _failed(self, error: ModelError, failures: int) -> int:
        """Wait before the next attempt and return the new number of failures; or raise `error` when it is final."""
        if isinstance(error, Unsupported) and error.parameter not in self._without:
            self._without.add(error.parameter)
            return failures
        wait = getattr(error, "retry_after", None)
        paid = hasattr(error, "usage")  # the model answered, badly: asking the same again would give the same
        last = failures + 1 >= self.backoff.attempts
        if not error.transient or paid or last or (wait is not None and wait > self.backoff.patience):
            error.__dict__["retries"] = failures
            raise error
        delay = self.backoff.delay(failures)
        if isinstance(error, RateLimited) or wait is not None:
            self._pause.extend(delay if wait is None else wait)
        else:
            await asyncio.sleep(delay)
        return failures + 1

    @asynccontextmanager
    async def _slot(self) -> AsyncGenerator[None]:
        """One of the places for requests under way, once no pause is on."""
        loop = asyncio.get_running_loop()
        slots = self._slots.get(loop)
        if slots is None:
            slots = self._slots[loop] = asyncio.Semaphore(self.connections)
        async with slots:
            await self._pause.over(self.backoff.base)
            yield

    async def _post(self, path: str, body: bytes) -> tuple[bytes, float]:
        """The body of a successful reply, and the seconds it took."""
        started = time.perf_counter()
        async with self._guarded(), asyncio.timeout(self.total_timeout):
            async with connections(loopback=self.loopback).client() as client:
                reply = await self._send(client, path, body)
                try:
                    content = await _content(reply)
                finally:
                    await reply.aclose()
        self._obey(reply.headers)
        if not reply.is_success:
            raise fault(reply.status_code, reply.headers, content, self._source)
        return content, time.perf_counter() - started

    async def _streamed(self, request: Request, said: list[str]) -> AsyncGenerator[str | Completion, None]:
        """One attempt at a stream; `said` collects the pieces that were yielded."""
        started = time.perf_counter()
        body = chat_body(request, self.model, stream=True, modern=self.modern, without=self._without)
        events, usage, reason, served, size = Events(), None, None, None, 0
        async with self._guarded(), connections(loopback=self.loopback).client() as client:
            async with asyncio.timeout(self.total_timeout):
                reply = await self._send(client, "/chat/completions", body)
            try:
                self._obey(reply.headers)
                if not reply.is_success:
                    async with asyncio.timeout(self.total_timeout):
                        content = await _content(reply)
                    raise fault(reply.status_code, reply.headers, content, self._source)
                chunks = reply.aiter_bytes()
                done = False
                async for content in chunks:
                    size += len(content)
                    if size > MAX_REPLY:
                        raise BadReply(f"{self.where} sent a stream of more than {MAX_REPLY >> 20} MB")
                    if time.perf_counter() - started > self.total_timeout:
                        raise TimeoutError
                    for data in events.feed(content):
                        if data == b"[DONE]":
                            done = True
                            break
                        chunk = decode(data, Chunk)
                        if chunk.error is not None:
                            raise ServerFault(f"{self.where} broke off: {error_object({'error': chunk.error})[1]}")
                        usage, served = chunk.usage or usage, chunk.model or served
                        reason = chunk.finish_reason or reason
                        if chunk.text:
                            said.append(chunk.text)
                            yield chunk.text
                    if done:
                        await _drain(chunks)
                        break
                if reason is None and not done:
                    raise BadReply(f"{self.where} ended the stream after {len(said)} pieces without saying why")
            finally:
                await reply.aclose()
        engine = (_label(request, self._without) + served_as(served, self.model))[:LABEL]
        seconds = time.perf_counter() - started
        yield read_stream(said, usage, request, reason=reason or "stop", seconds=seconds, engine=engine)

    async def _send(self, client: httpx.AsyncClient, path: str, body: bytes) -> httpx.Response:
        request = client.build_request(
            "POST", self.url + path, content=body, headers=self._headers, extensions={"timeout": self._timeouts}
        )
        return await client.send(request, stream=True)

    @asynccontextmanager
    async def _guarded(self) -> AsyncGenerator[None]:
        """Turns whatever goes wrong on the wire into a typed error."""
        import httpx

        try:
            yield
        except (TimeoutError, httpx.TimeoutException) as error:
            raise Unreachable(f"{self.where} did not answer in time ({type(error).__name__})") from None
        except httpx.DecodingError as error:
            raise BadReply(f"{self.where} sent a reply that cannot be decompressed ({error})") from None
        except (httpx.HTTPError, OSError) as error:
            hint = ": is the server running?" if isinstance(error, httpx.ConnectError) else ""
            raise Unreachable(f"cannot reach {self.where} ({error or type(error).__name__}){hint}") from None

    def _obey(self, headers: httpx.Headers) -> None:
        """Hold all calls back when a reply says that nothing is left until a reset."""
        asked = pause_asked(headers, refused=False)
        if asked is not None:
            self._pause.extend(min(asked, self.backoff.patience))

    def _priced(self, usage: Usage) -> None:
        if self.price is not None:
            usage.usd = self.price.cost(usage)


def _address(base_url: str) -> tuple[str, str, str]:
    """The base URL to use, the one to show (without credentials), and the host."""
    allowed = "http(s)://host:port/v1"
    try:
        parts = urlsplit(base_url.rstrip("/"))
        host, port = parts.hostname, parts.port
    except ValueError:
        raise BadInput("base_url", base_url, allowed) from None
    if parts.scheme not in ("http", "https") or not host or parts.query or any(sign.isspace() for sign in base_url):
        raise BadInput("base_url", base_url, allowed)
    shown = f"[{host}]" if ":" in host else host
    where = f"{parts.scheme}://{shown}" + (f":{port}" if port else "") + parts.path
    return base_url.rstrip("/"), where, host


def _label(request: Request, without: Collection[str]) -> str:
    """The engine's name, with the parameters that were asked for and that the server does not take."""
    neutral = {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0}
    lost = [name for name in sorted(without) if getattr(request.sampling, name, None) != neutral.get(name)]
    lost = [name for name in lost if name not in ("max_tokens", "stream_options")]
    return Endpoint.name + (f" without {', '.join(lost)}" if lost else "")


async def _content(reply: httpx.Response) -> bytes:
    """The whole body, at most `MAX_REPLY` bytes."""
    parts: list[bytes] = []
    size = 0
    async for part in reply.aiter_bytes():
        parts.append(part)
        size += len(part)
        if size > MAX_REPLY:
            raise BadReply(f"{reply.url.host} sent a reply of more than {MAX_REPLY >> 20} MB")
    return parts[0] if len(parts) == 1 else b"".join(parts)


async def _drain(chunks: AsyncIterator[bytes]) -> None:
    try:
        async with asyncio.timeout(DRAIN):
            async for _ in chunks:
                pass
    except TimeoutError:
        pass
