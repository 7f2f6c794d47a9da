"""Stands in for an engine that this machine cannot make (no weights, no file), when recorded replies are all it needs."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from palestra.core.errors import PalestraError
from palestra.core.records import Completion
from palestra.models.engine import Output, Request


class Unavailable:
    """An engine that has every capability and raises `error` whenever it is really asked."""

    def __init__(self, name: str, error: PalestraError) -> None:
        self.name, self.error = name, error

    async def complete(self, request: Request) -> Completion:
        """Raises the error."""
        raise self.error

    async def stream(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Raises the error."""
        raise self.error
        yield ""

    async def score(self, request: Request) -> Output:
        """Raises the error."""
        raise self.error

    embed = hidden_states = score
