"""The embedded model behind one face: llama.cpp answers and streams, torch scores given texts and shows hidden states.

The two differ in rounding (the weights are the same, but llama.cpp also rounds activations to 8 bits): log-probabilities
of likely first tokens differed by 0.1 to 0.35 on four prompts, so every reply and score names the engine that made it,
and no comparison should mix them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from palestra.core.records import Completion
from palestra.models.embedded.llama import LlamaEngine
from palestra.models.embedded.torch_engine import TorchEngine
from palestra.models.engine import Output, Request


class SmolLM2Engine:
    """SmolLM2-135M-Instruct.

    Args:
        llama: answers `complete` and `stream`.
        torch: answers `score` and `hidden_states`.
    """

    name = "smollm2"

    def __init__(self, llama: LlamaEngine, torch: TorchEngine) -> None:
        self.llama, self.torch = llama, torch

    def check(self, request: Request) -> None:
        """As the engine that will answer checks."""
        (self.llama if request.kind == "complete" else self.torch).check(request)

    async def complete(self, request: Request) -> Completion:
        """As `LlamaEngine.complete`."""
        return await self.llama.complete(request)

    def stream(self, request: Request) -> AsyncIterator[str | Completion]:
        """As `LlamaEngine.stream`."""
        return self.llama.stream(request)

    async def score(self, request: Request) -> Output:
        """As `TorchEngine.score`."""
        return await self.torch.score(request)

    async def hidden_states(self, request: Request) -> Output:
        """As `TorchEngine.hidden_states`."""
        return await self.torch.hidden_states(request)

    def serve_address(self) -> str:
        """As `LlamaEngine.serve_address`."""
        return self.llama.serve_address()

    def close(self) -> None:
        """Unload both; a later request loads what it needs."""
        self.llama.close()
        self.torch.close()
