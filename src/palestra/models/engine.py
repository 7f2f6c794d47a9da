"""What an engine is asked and what it answers: the border between the one Model face and all that produces replies.

An engine is an in-process llama.cpp, a transformers model, an HTTP endpoint or a script. It implements
`Engine.complete` and the capabilities it has; metering, seeding, recording and validation happen in the Model.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

from msgspec import Struct

from palestra.core.errors import PalestraError
from palestra.core.records import JSON, Completion, Message, Sampling, ToolSpec, Usage


class Request(Struct, frozen=True, omit_defaults=True):
    """Everything that determines a reply. Which fields are used depends on `kind`."""

    kind: str  # complete, score, embed, hidden_states
    model: str
    messages: tuple[Message, ...] = ()
    tools: tuple[ToolSpec, ...] = ()
    schema: JSON | None = None
    sampling: Sampling = Sampling()
    prompt: str = ""  # score: the raw text before the options
    options: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()  # embed, hidden_states
    layer: int = -1


class Engine(Protocol):
    """Produces replies. Optional, found by name: `stream`, `score`, `embed`, `hidden_states`, `check(request)`."""

    name: str

    async def complete(self, request: Request) -> Completion: ...


class Output(Struct, frozen=True):
    """What an engine returns for score (log-probabilities), embed and hidden_states (arrays), with its cost.

    `engine` says which implementation produced the numbers, when the engine has several.
    """

    value: Any
    usage: Usage
    engine: str = ""


class Failure(Struct, frozen=True):
    """A recorded call that failed: replaying it raises `error` again, at the recorded cost."""

    error: PalestraError
    usage: Usage


Reply: TypeAlias = Completion | Output


class Replies(Protocol):
    """Recorded replies by request digest: of a run to replay, or of a cache. Kinds complete and score only."""

    def get(self, request: bytes) -> Reply | Failure | None: ...
    def put(self, request: bytes, reply: Reply) -> None: ...
