"""A llama.cpp server inside this process: loading it, and the plain questions it is asked (tokens, templates, replies).

xllamacpp holds the server. Generation is called in process; counting tokens and rendering chat templates go over the
loopback port on which every such server listens anyway, because only there are they offered.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from palestra.core.errors import ContextOverflow, MissingExtra, ModelError, ServerFault, UnknownModel
from palestra.core.records import JSON

PROMPT_CACHE_MIB = 256  # memory for the states of conversations that lost their slot
_LOADING = threading.Lock()


class LlamaServer:
    """One loaded model.

    Args:
        path: a GGUF file.
        slots: conversations served at the same time.
        context: tokens of each slot, prompt and reply together.
        threads: of the engine. More than one stalls badly as soon as another job wants a core.
        adapter: a LoRA adapter as GGUF.

    Raises:
        UnknownModel: there is no such file, or llama.cpp cannot read it.
    """

    def __init__(
        self, path: Path, *, slots: int, context: int, threads: int, adapter: Path | None = None, title: str = ""
    ) -> None:
        try:
            llama: Any = import_module("xllamacpp")
        except ImportError as error:
            raise MissingExtra("xllamacpp", "lm") from error
        for file in (path, adapter):
            if file is not None and not file.is_file():
                raise UnknownModel(f"no model at {file}: there is no such file")
        self.context, self.title = context, title or path.stem
        params = llama.CommonParams()
        params.model.path = str(path)
        params.n_ctx, params.n_parallel = slots * context, slots
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
        params.cache_ram_mib = PROMPT_CACHE_MIB
        params.verbosity, params.warmup = -1, False
        if adapter is not None:
            lora = llama.CommonAdapterLoraInfo()
            lora.path, lora.scale = str(adapter), 1.0
            params.lora_adapters = [lora]
        try:
            with _LOADING:
                self._server: Any = llama.Server(params)
        except RuntimeError as error:
            with_adapter = f" with adapter {adapter}" if adapter is not None else ""
            raise UnknownModel(f"llama.cpp cannot load {path}{with_adapter}: not a GGUF file it knows") from error
        import httpx

        self.address = str(self._server.listening_address)
        self._http = httpx.Client(base_url=self.address, trust_env=False, timeout=60.0)

    def generate(self, body: JSON, on_event: Callable[[JSON], bool]) -> None:
        """Answer a completion request, event by event; `on_event` returns True to stop.

        Raises:
            ContextOverflow, ServerFault, ModelError: the server refused (it reports this among the events).
        """
        refused: list[JSON] = []

        def receive(event: Any) -> bool:
            if "error" in event:
                refused.append(event["error"])
                return True
            return on_event(event)

        try:
            self._server.handle_completions({**body, "stream": True}, receive)
        except ValueError as error:
            raise ModelError(f"{self.title} cannot answer this request: {' '.join(str(error).split())}") from None
        if refused:
            raise self._error(refused[0])

    def count(self, text: str) -> int:
        """How many tokens `text` has as a prompt."""
        return len(self._ask("/tokenize", {"content": text, "add_special": True, "parse_special": True})["tokens"])

    def render(self, messages: Sequence[JSON]) -> str:
        """The chat template applied to `messages`, up to where the assistant's turn begins."""
        return self._ask("/apply-template", {"messages": list(messages)})["prompt"]

    def close(self) -> None:
        """Unload the model; about 0.2 s."""
        self._http.close()
        self._server = None

    def _ask(self, path: str, body: JSON) -> Any:
        import httpx

        try:
            answer = self._http.post(
                path, content=msgspec.json.encode(body), headers={"Content-Type": "application/json"}
            )
        except httpx.HTTPError as error:
            raise ServerFault(f"the llama.cpp server of {self.title} does not answer: {error}") from None
        value: Any = msgspec.json.decode(answer.content)
        if "error" in value:
            raise self._error(value["error"])
        return value

    def _error(self, error: JSON) -> ModelError:
        if error.get("type") == "exceed_context_size_error":
            return ContextOverflow(error["n_prompt_tokens"], error["n_ctx"], self.title)
        kind = ServerFault if error.get("code", 500) >= 500 else ModelError
        return kind(f"{self.title} cannot answer this request: {' '.join(str(error.get('message')).split())}")
