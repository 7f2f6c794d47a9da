"""The one face over every language model: it meters, seeds, records, validates and replays; an engine only answers.

An engine is whatever produces replies (an in-process llama.cpp, a transformers model, an HTTP endpoint, a script). It
implements `Engine.complete` and the capabilities it has. Everything that must be the same for all of them happens here.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from hashlib import blake2b
from typing import Any, TypeVar, cast

import msgspec

from palestra.core.errors import BadInput, BadReply, NoRecordedReply
from palestra.core.records import JSON, Completion, Message, Sampling, ToolSpec, Usage
from palestra.core.scope import Scope, current
from palestra.core.seeds import derive
from palestra.models.engine import Engine, Failure, Output, Replies, Reply, Request
from palestra.models.recording import call_of
from palestra.models.schema import check_value

__all__ = ["Engine", "Failure", "Model", "Output", "Prompt", "Replies", "Reply", "Request"]

R = TypeVar("R")
Prompt = str | Message | Sequence[Message]


_encoder = msgspec.json.Encoder(order="sorted")
_REPLAYED = frozenset({"complete", "score"})  # arrays are not kept: embed and hidden_states always ask the engine


class Model:
    """A language model client. `palestra.model(spec)` makes one by name.

    Args:
        engine: what answers.
        name: how the model was asked for; part of every request's digest.
        defaults: sampling used when a call gives none.
        replies: recorded replies to use before asking the engine. Their recorded usage is charged again, so budgets
            end a replayed run where they ended the first.
        offline: with `replies`, never ask the engine to complete or score: an unknown request raises
            `NoRecordedReply`. `embed` and `hidden_states` are not recorded and still ask the engine.
        rebuild: how to make this model again in another process.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        name: str,
        defaults: Sampling | None = None,
        replies: Replies | None = None,
        offline: bool = False,
        rebuild: tuple[Callable[..., Model], tuple[Any, ...]] | None = None,
    ) -> None:
        self.engine, self.name = engine, name
        self.defaults = defaults or Sampling()
        self.replies, self.offline = replies, offline
        self._rebuild = rebuild

    def __repr__(self) -> str:
        return f"Model({self.name!r}, engine={self.engine.name!r})"

    def __reduce__(self) -> tuple[Callable[..., Model], tuple[Any, ...]]:
        if self._rebuild is None:
            raise TypeError(f"{self!r} cannot cross a process border: make it with palestra.model(...)")
        return self._rebuild

    def using(
        self, *, defaults: Sampling | None = None, replies: Replies | None = None, offline: bool | None = None
    ) -> Model:
        """This model with other default sampling or recorded replies; what is None stays. The engine is shared."""
        return Model(
            self.engine,
            name=self.name,
            defaults=defaults or self.defaults,
            replies=self.replies if replies is None else replies,
            offline=self.offline if offline is None else offline,
            rebuild=(_using, (self, defaults, replies, offline)),
        )

    def can(self, capability: str) -> bool:
        """Whether the engine has `stream`, `score`, `embed` or `hidden_states`."""
        return hasattr(self.engine, capability)

    async def complete(
        self,
        messages: Prompt,
        *,
        tools: Sequence[ToolSpec] = (),
        schema: JSON | None = None,
        sampling: Sampling | None = None,
    ) -> Completion:
        """One reply to `messages` (a text stands for one user message).

        With a `schema`, the reply is JSON that was validated against it (`completion.parsed`); an invalid reply is
        asked for once more, with another seed, before `BadReply` is raised. Both are charged and recorded.

        Raises:
            BudgetExceeded, ContextOverflow, Unreachable, RateLimited, ServerFault, BadReply, BadInput.
        """
        request = Request(
            kind="complete",
            model=self.name,
            messages=_messages(messages),
            tools=tuple(tools),
            schema=schema,
            sampling=sampling or self.defaults,
        )
        if schema is None:
            return await self._call(request, self.engine.complete)
        try:
            return await self._call(request, self.engine.complete)
        except BadReply:
            return await self._call(_reseeded(request), self.engine.complete)

    async def stream(self, messages: Prompt, *, sampling: Sampling | None = None) -> AsyncGenerator[str, None]:
        """The reply to `messages` piece by piece; recorded as one call when it ends, fails or is abandoned.

        An abandoned stream (left before its end) is charged one output token a piece received.

        Raises:
            As `complete`.
        """
        request = Request(
            kind="complete", model=self.name, messages=_messages(messages), sampling=sampling or self.defaults
        )
        ask = self._capability("stream")
        scope = current()
        request, key = self._seeded(request, scope)
        found = self._recorded(key, request)
        payer = scope.payer()
        payer.admit()
        started, usage, said = time.time(), Usage(), list[str]()
        reply: Completion | None = None
        try:
            if isinstance(found, Failure):
                usage = found.usage
                raise found.error
            if found is not None:
                reply, usage = cast(Completion, found), found.usage
                said.append(reply.text)
                yield reply.text
            else:
                self._check(request)
                usage = Usage(calls=1)
                async with aclosing(ask(request)) as pieces:
                    async for piece in pieces:
                        if isinstance(piece, Completion):
                            reply, usage = cast(Completion, self._named(piece)), piece.usage
                            self._keep(key, reply)
                        else:
                            said.append(piece)
                            yield piece
                if reply is None:
                    raise BadReply(f"the stream of {self.name} ended without saying how")
            self._record(scope, request, key, started, usage, reply)
        except GeneratorExit:
            if reply is None:
                usage = Usage(calls=1, output_tokens=len(said), seconds=time.time() - started)
            left = Completion(Message("assistant", "".join(said)), usage, finish_reason="abandoned")
            self._record(scope, request, key, started, usage, self._named(left))
            raise
        except BaseException as error:
            usage = _cost_of(error, usage, found, started)
            self._record(scope, request, key, started, usage, None, error)
            raise
        finally:
            payer.charge(usage)

    async def score(self, prompt: str, options: Sequence[str]) -> list[float]:
        """Log-probability of each of `options` as the continuation of the raw text `prompt`: the sum over its tokens.

        End the prompt without a space and start each option with one (few-shot raw prompts rank best).
        """
        if isinstance(options, str) or not options:
            raise BadInput("options", options, "a list of at least one text")
        request = Request(kind="score", model=self.name, prompt=prompt, options=tuple(options))
        return (await self._call(request, self._capability("score"))).value

    async def embed(self, texts: Sequence[str]) -> Any:
        """Embeddings of `texts`: float32 array, shape (texts, width), rows of length 1."""
        request = Request(kind="embed", model=self.name, texts=_texts(texts))
        return (await self._call(request, self._capability("embed"))).value

    async def hidden_states(self, texts: Sequence[str], *, layer: int = -1) -> list[Any]:
        """Hidden states after `layer` for each text: a list of float32 arrays, shape (tokens, width)."""
        request = Request(kind="hidden_states", model=self.name, texts=_texts(texts), layer=layer)
        return (await self._call(request, self._capability("hidden_states"))).value

    def _capability(self, name: str) -> Callable[..., Any]:
        method = getattr(self.engine, name, None)
        if method is None:
            raise BadInput("model", self.name, f"a model that can {name} ({self.engine.name} cannot)")
        return method

    def _check(self, request: Request) -> None:
        if (check := getattr(self.engine, "check", None)) is not None:
            check(request)

    async def _call(self, request: Request, ask: Callable[[Request], Awaitable[R]]) -> R:
        scope = current()
        request, key = self._seeded(request, scope)
        found = self._recorded(key, request)
        payer = scope.payer()
        payer.admit()
        started, usage = time.time(), Usage()
        reply: Any = None
        try:
            if found is None:
                self._check(request)
                usage = Usage(calls=1)
                reply = self._named(await ask(request))
                self._keep(key, reply)
            elif isinstance(found, Failure):
                usage = found.usage
                raise found.error
            else:
                reply = found
            usage = reply.usage
            if request.schema is not None:  # also of a recorded reply: what was invalid then is invalid now
                reply = msgspec.structs.replace(reply, parsed=check_value(reply, request.schema))
            self._record(scope, request, key, started, usage, reply)
            return reply
        except BaseException as error:
            if reply is None:
                usage = _cost_of(error, usage, found, started)
            self._record(scope, request, key, started, usage, reply, error)
            raise
        finally:
            payer.charge(usage)

    def _named(self, reply: Any) -> Any:
        """The reply as it is recorded, so that a replayed one is equal to it: under the name it was asked for by."""
        if isinstance(reply, Completion) and (reply.model != self.name or not reply.engine):
            return msgspec.structs.replace(reply, model=self.name, engine=reply.engine or self.engine.name)
        return reply

    def _seeded(self, request: Request, scope: Scope) -> tuple[Request, bytes]:
        """The request with its seed, and the digest of both.

        The seed depends on the scope and on the request itself, never on the order of calls, so that concurrency
        changes nothing; the same request made again in the same scope gets another seed.
        """
        try:
            body = blake2b(_encoder.encode(request), digest_size=16)
        except (TypeError, ValueError, OverflowError) as error:  # half a surrogate pair, a set in a schema
            raise BadInput("request", request.kind, f"text and JSON values ({error})") from None
        if request.kind == "complete" and request.sampling.seed is None:
            digest = body.digest()
            seed = derive(scope.seed, scope.agent, scope.role, scope.stage, digest.hex(), scope.occurrence(digest))
            body.update(seed.to_bytes(8, "little"))
            sampling = msgspec.structs.replace(request.sampling, seed=seed)
            request = msgspec.structs.replace(request, sampling=sampling)
        return request, body.digest()

    def _recorded(self, key: bytes, request: Request) -> Reply | Failure | None:
        if self.replies is None or request.kind not in _REPLAYED:
            return None
        found = self.replies.get(key)
        if found is None and self.offline:
            shown = request.prompt or (request.messages[-1].text if request.messages else "")
            raise NoRecordedReply(f"no recorded reply of {self.name} for the {request.kind} request {shown[:60]!r}")
        return self._named(found)

    def _keep(self, key: bytes, reply: Reply) -> None:
        if self.replies is not None and (isinstance(reply, Completion) or isinstance(reply.value, list)):
            self.replies.put(key, reply)

    def _record(
        self,
        scope: Scope,
        request: Request,
        key: bytes,
        started: float,
        usage: Usage,
        reply: Any,
        error: BaseException | None = None,
    ) -> None:
        name = self.engine.name
        call = call_of(scope, request, key=key, engine=name, started=started, usage=usage, reply=reply, error=error)
        scope.recorder.calls.append(call)


def _using(model: Model, defaults: Sampling | None, replies: Replies | None, offline: bool | None) -> Model:
    return model.using(defaults=defaults, replies=replies, offline=offline)


def _reseeded(request: Request) -> Request:
    """The request as asked a second time: with another seed where the caller gave one (the scope's changes anyway)."""
    if request.sampling.seed is None:
        return request
    sampling = msgspec.structs.replace(request.sampling, seed=derive(request.sampling.seed, "again"))
    return msgspec.structs.replace(request, sampling=sampling)


def _cost_of(error: BaseException, usage: Usage, found: Any, started: float) -> Usage:
    """What a failed call cost: as recorded, as the engine says (`error.usage`), or its time."""
    if found is not None or not usage.calls:
        return usage
    said = getattr(error, "usage", None)
    if isinstance(said, Usage):
        return said
    return Usage(calls=1, seconds=time.time() - started)


def _messages(prompt: Prompt) -> tuple[Message, ...]:
    if isinstance(prompt, str):
        return (Message("user", prompt),)
    if isinstance(prompt, Message):
        return (prompt,)
    messages = tuple(prompt)
    if not messages:
        raise BadInput("messages", prompt, "at least one message")
    for message in messages:
        if not isinstance(message, Message):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise BadInput("messages", message, "Message records, as in [Message('user', 'Hello')]")
    return messages


def _texts(texts: Sequence[str]) -> tuple[str, ...]:
    if isinstance(texts, str) or not texts:
        raise BadInput("texts", texts, "a list of at least one text")
    return tuple(texts)
