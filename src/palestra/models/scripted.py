"""A model whose replies are written down: a function, a list or a table of replies, for tests and measurements.

Its usage is computed, not measured: one token for every four characters, rounded up, of the prompt and of the reply.
"""

from __future__ import annotations

import asyncio
import importlib
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from inspect import isawaitable
from typing import Any, TypeAlias, cast

import msgspec

from palestra.core.errors import BadInput, ModelError
from palestra.core.records import Completion, Message, ToolCall, Usage
from palestra.models.engine import Output, Request

Said: TypeAlias = str | Message | Completion | ToolCall | BaseException  # an exception is raised
Script: TypeAlias = Callable[[Request], Said | Awaitable[Said]] | Mapping[str, Said] | Iterable[Said]
Latency: TypeAlias = float | Callable[[Request], float]  # seconds
CHARACTERS_A_TOKEN = 4


def echo(request: Request) -> str:
    """The default script: says the last message again."""
    return request.messages[-1].text


class Scripted:
    """An engine that answers from a script.

    Args:
        script: a function from the request to a reply; a table from the text of the last message to a reply; or
            replies in the order in which they will be asked for (which concurrency changes: prefer the others there).
            A reply is a text, a message, a tool call, a whole completion, or an exception to raise.
        latency: seconds every reply takes, or a function of the request.
        score: log-probabilities of a score request's options; without it the model cannot score.
        name: the engine's name in the records.

    >>> import asyncio
    >>> from palestra.models.model import Model
    >>> model = Model(Scripted({"2+2=": "4"}), name="scripted")
    >>> asyncio.run(model.complete("2+2=")).text
    '4'
    """

    def __init__(
        self,
        script: Script = echo,
        *,
        latency: Latency = 0.0,
        score: Callable[[Request], list[float]] | None = None,
        name: str = "scripted",
    ) -> None:
        if isinstance(script, str):
            raise BadInput("script", script, "a function, a table or a list of replies")
        self.name, self.latency = name, latency
        self._answer: Callable[[Request], Said | Awaitable[Said]] = _function(script)
        if score is not None:
            self.score = self._scorer(score)

    async def complete(self, request: Request) -> Completion:
        """The script's reply.

        Raises:
            ModelError: the script has no reply for the request.
        """
        latency = self.latency
        if latency:
            await asyncio.sleep(latency(request) if callable(latency) else latency)
        said = self._answer(request)
        if said.__class__ is not str and isawaitable(said):
            said = await said
        if isinstance(said, Completion):
            return said
        if isinstance(said, str):
            message, reason = Message("assistant", said), "stop"
        elif isinstance(said, ToolCall):
            message, reason = Message("assistant", tool_calls=(said,)), "tool_calls"
        elif isinstance(said, Message):
            message, reason = said, "tool_calls" if said.tool_calls else "stop"
        elif isinstance(said, BaseException):
            raise said
        else:
            raise BadInput("reply", said, "a text, Message, ToolCall, Completion or exception")
        usage = _usage(request, message, 0.0 if callable(latency) else latency)
        return Completion(message, usage, reason, request.model, self.name)

    async def stream(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """The script's reply word by word, then the whole of it."""
        completion = await self.complete(request)
        for number, word in enumerate(completion.text.split(" ")):
            yield word if number == 0 else f" {word}"
        yield completion

    def _scorer(self, score: Callable[[Request], list[float]]) -> Callable[[Request], Awaitable[Output]]:
        async def answer(request: Request) -> Output:
            started = time.perf_counter()
            values = [float(value) for value in score(request)]
            if len(values) != len(request.options):
                raise BadInput("scores", values, f"one for each of the {len(request.options)} options")
            tokens = _tokens(len(request.prompt) + sum(map(len, request.options)))
            return Output(values, Usage(calls=1, input_tokens=tokens, seconds=time.perf_counter() - started))

        return answer


def scripted_from(path: str, **options: Any) -> Scripted:
    """The engine for `scripted:module:name`: the name is a script, or makes one when called without arguments.

    Raises:
        BadInput: there is no such module or name.
    """
    module_name, _, name = path.partition(":")
    field = "model"
    try:
        found = getattr(importlib.import_module(module_name), name)
    except (ImportError, ValueError) as error:
        raise BadInput(field, f"scripted:{path}", f"scripted:module:function ({error})") from None
    except AttributeError:
        names = [one for one in vars(importlib.import_module(module_name)) if not one.startswith("_")]
        raise BadInput(f"name in {module_name}", name, choices=names) from None
    return found if isinstance(found, Scripted) else Scripted(found, **options)


def _function(script: Script) -> Callable[[Request], Said | Awaitable[Said]]:
    if callable(script):
        return script
    if isinstance(script, Mapping):
        table = cast("Mapping[str, Said]", script)

        def look_up(request: Request) -> Said:
            text = request.messages[-1].text
            try:
                return table[text]
            except KeyError:
                raise ModelError(f"the script has no reply to {text[:80]!r}") from None

        return look_up
    left = deque(script)
    total = len(left)

    def next_one(request: Request) -> Said:
        if not left:
            raise ModelError(f"the script has no reply left: all {total} were given")
        return left.popleft()

    return next_one


def _usage(request: Request, message: Message, seconds: float) -> Usage:
    asked = 0
    for one in request.messages:
        asked += len(one.content) if isinstance(one.content, str) else len(one.text)
    said = message.content if isinstance(message.content, str) else message.text
    written = len(said) if not message.tool_calls else len(said) + len(msgspec.json.encode(message.tool_calls))
    return Usage(1, _tokens(asked), _tokens(written), seconds=seconds)


def _tokens(characters: int) -> int:
    return -(-characters // CHARACTERS_A_TOKEN)
