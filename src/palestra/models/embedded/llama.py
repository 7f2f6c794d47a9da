"""llama.cpp as an engine: chat, raw prompts, tools, grammar and streaming, on one thread and many slots.

Calls made at the same time run together (continuous batching): eight slots decode about twice as many tokens a second
as one. The prompt that a slot saw last stays cached, so what a conversation shares with its last turn costs nothing.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

from palestra.core.errors import BadInput, ContextOverflow
from palestra.core.records import JSON, Completion, Message, TokenLogprob, Usage
from palestra.core.scope import current
from palestra.models import tool_text
from palestra.models.embedded.llama_server import LlamaServer
from palestra.models.embedded.slots import SlotTable
from palestra.models.engine import Request
from palestra.models.schema import for_grammar

SEEDS = 2**32 - 1  # llama.cpp takes seeds below this; this one itself means "any seed"
TEMPLATE_TOKENS = 64  # more than a chat template adds to one message
_STANDARD_SYSTEM = "You are a helpful AI assistant named SmolLM"  # what SmolLM2's template adds by itself


class LlamaEngine:
    """Answers with a GGUF model through llama.cpp in this process.

    Args:
        path: a GGUF file; read when the first request comes (0.3 s).
        slots: conversations served at the same time; more wait.
        context: tokens of each slot, prompt and reply together. A reply that reaches its end stops with `length`.
        threads: of the engine; see `LlamaServer`.
        cache_prompt: reuse what a slot has already read. `usage.cached_tokens` of a reply says how much.
        affinity: "agent" gives every agent of an episode a slot of its own, so that its conversation stays cached
            whatever the others say in between. None takes the slot whose cache fits best.
        raw: the one user message of a request is a raw prompt, sent without chat template.
        tool_choice: with tools, "auto" lets the model answer in words too, "required" demands a call.
        adapter: a LoRA adapter as GGUF. Every adapter has a server of its own: a cache is only good for one.
        title: the name that errors use; by default the file's.

    Messages: without a system message an empty one is inserted where the template would add its own; a last assistant
    message is the beginning of the reply, which continues it. Sampling order is llama.cpp's.
    """

    name = "llama.cpp"

    def __init__(
        self,
        path: Path | str,
        *,
        slots: int = 8,
        context: int = 1024,
        threads: int = 1,
        cache_prompt: bool = True,
        affinity: Literal["agent"] | None = None,
        raw: bool = False,
        tool_choice: Literal["auto", "required"] = "auto",
        adapter: Path | str | None = None,
        title: str = "",
    ) -> None:
        numbers: tuple[tuple[str, Any, int], ...] = (
            ("slots", slots, 1),
            ("context", context, 16),
            ("threads", threads, 1),
        )
        for field, value, least in numbers:
            if type(value) is not int or value < least:
                raise BadInput(field, value, f"an integer of at least {least}")
        if affinity not in (None, "agent"):
            raise BadInput("affinity", affinity, choices=("agent",))
        if tool_choice not in ("auto", "required"):
            raise BadInput("tool_choice", tool_choice, choices=("auto", "required"))
        self.path, self.slots, self.context, self.threads = Path(path), slots, context, threads
        self.cache_prompt, self.raw, self.may_reply = cache_prompt, raw, tool_choice == "auto"
        self.adapter = Path(adapter) if adapter is not None else None
        self.title = title or self.path.stem
        self._table = SlotTable(slots) if affinity == "agent" else None
        self._lock = threading.Lock()
        self._server: LlamaServer | None = None
        self._adds_system: bool | None = None
        # Twice the slots: with affinity a call may wait for a busy slot while others are free.
        self._pool = ThreadPoolExecutor(2 * slots, thread_name_prefix="palestra-llama")

    def server(self) -> LlamaServer:
        """The loaded model; loads it when it is not."""
        with self._lock:
            if self._server is None:
                self._server = LlamaServer(
                    self.path,
                    slots=self.slots,
                    context=self.context,
                    threads=self.threads,
                    adapter=self.adapter,
                    title=self.title,
                )
            return self._server

    def serve_address(self) -> str:
        """Where llama.cpp's own OpenAI-compatible server for this model listens: a loopback URL without `/v1`."""
        return self.server().address

    def close(self) -> None:
        """Unload the model; a later request loads it again."""
        with self._lock:
            server, self._server = self._server, None
        if server is not None:
            server.close()

    def check(self, request: Request) -> None:
        """Refuse before the call what would fail or be answered wrongly.

        Raises:
            ContextOverflow: the prompt leaves no room for a reply.
            BadInput: a schema that the grammar would drop, images, or in raw form anything but one user message.
        """
        self._schema(request)
        for message in request.messages:
            if message.images:
                raise BadInput("messages", f"an image for {self.title}", "text: this model does not see")
        if self.raw and (len(request.messages) != 1 or request.messages[0].role != "user" or request.tools):
            raise BadInput("messages", [one.role for one in request.messages], "one user message, without tools (raw)")
        self._fit(request)

    async def complete(self, request: Request) -> Completion:
        """The reply to `request`; leaving early (cancellation) stops the model too."""
        return await self._run(request, lambda piece: None)

    async def stream(self, request: Request) -> AsyncIterator[str | Completion]:
        """The reply piece by piece, then the whole Completion."""
        self.check(request)
        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[str | None] = asyncio.Queue()
        task = asyncio.create_task(self._run(request, lambda piece: loop.call_soon_threadsafe(queue.put_nowait, piece)))
        task.add_done_callback(lambda _: queue.put_nowait(None))
        try:
            while (piece := await queue.get()) is not None:
                yield piece
            yield await task
        finally:
            task.cancel()

    async def _run(self, request: Request, on_piece: Callable[[str], Any]) -> Completion:
        stop = threading.Event()
        slot = None
        if self._table is not None:
            scope = current()
            slot = self._table.take((id(scope.recorder), scope.agent))  # an id reused later only misses the cache
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._pool, self._answer, request, slot, stop, on_piece)
        finally:
            stop.set()
            if self._table is not None and slot is not None:
                self._table.give(slot)

    def _answer(
        self, request: Request, slot: int | None, stop: threading.Event, on_piece: Callable[[str], Any]
    ) -> Completion:
        """Ask the server and gather its events. Runs in a thread."""
        started = time.perf_counter()
        reply = _Reply()

        def receive(event: JSON) -> bool:
            piece = reply.take(event)
            if piece and not stop.is_set():
                on_piece(piece)
            return stop.is_set()

        self.server().generate(self._body(request, slot), receive)
        text = reply.text.rstrip() if request.sampling.stop and reply.finish_reason == "stop" else reply.text
        message = Message("assistant", text)
        finish_reason = reply.finish_reason
        if request.tools:
            message = tool_text.parse(text, request.tools)
            finish_reason = "tool_calls" if message.tool_calls else finish_reason
        usage = reply.usage
        usage.seconds = time.perf_counter() - started
        return Completion(
            message=message,
            usage=usage,
            finish_reason=finish_reason,
            model=self.title,
            engine=self.name,
            logprobs=tuple(reply.logprobs),
        )

    def _body(self, request: Request, slot: int | None) -> JSON:
        sampling = request.sampling
        body: JSON = {
            "prompt": self._prompt(request),
            "max_tokens": sampling.max_tokens,
            "temperature": sampling.temperature,
            "top_k": sampling.top_k,
            "top_p": sampling.top_p,
            "min_p": sampling.min_p,
            "seed": (sampling.seed or 0) % SEEDS,
            "cache_prompt": self.cache_prompt,
            "stream_options": {"include_usage": True},
        }
        if slot is not None:
            body["id_slot"] = slot
        if sampling.stop:
            body["stop"] = list(sampling.stop)
        if sampling.logprobs:
            body["n_probs"] = sampling.logprobs
        if (schema := self._schema(request)) is not None:
            body["json_schema"] = schema
        return body

    def _schema(self, request: Request) -> JSON | None:
        if request.schema is not None and request.tools:
            raise BadInput("schema", request.schema, "no schema in a request with tools: the tools' own applies")
        if request.tools:
            return for_grammar(tool_text.call_schema(request.tools, may_reply=self.may_reply))
        return None if request.schema is None else for_grammar(request.schema)

    def _prompt(self, request: Request) -> str:
        messages = request.messages
        if self.raw:
            return messages[0].text
        if request.tools:
            return tool_text.transcript(messages, request.tools, may_reply=self.may_reply)
        if tool_text.speaks_of_tools(messages):
            messages = tool_text.in_words(messages)
        begun = messages[-1].text if messages[-1].role == "assistant" else ""
        told = messages[:-1] if messages[-1].role == "assistant" else messages
        turns = [{"role": message.role, "content": message.text} for message in told]
        server = self.server()
        if not any(message.role == "system" for message in told):
            if self._adds_system is None:
                self._adds_system = _STANDARD_SYSTEM in server.render([{"role": "user", "content": "."}])
            if self._adds_system:
                turns.insert(0, {"role": "system", "content": ""})
        return server.render(turns) + begun

    def _fit(self, request: Request) -> None:
        """Raise ContextOverflow when the prompt leaves no room for a reply.

        A token stands for at least one byte, so short prompts need no counting.
        """
        if not request.tools:
            size = sum(len(one.text.encode()) + TEMPLATE_TOKENS for one in request.messages)
            if size < self.context and not tool_text.speaks_of_tools(request.messages):
                return
        tokens = self.server().count(self._prompt(request))
        if tokens >= self.context:
            raise ContextOverflow(tokens, self.context, self.title)


class _Reply:
    """What the events of one completion add up to."""

    def __init__(self) -> None:
        self.text, self.finish_reason = "", "stop"
        self.usage = Usage(calls=1)
        self.logprobs: list[TokenLogprob] = []

    def take(self, event: JSON) -> str:
        """Add one event; the piece of text it brings."""
        if (usage := event.get("usage")) is not None:
            self.usage.input_tokens = usage["prompt_tokens"]
            self.usage.output_tokens = usage["completion_tokens"]
            details: Any = usage.get("prompt_tokens_details") or {}
            self.usage.cached_tokens = details.get("cached_tokens", 0)
        piece = ""
        choices: Any = event.get("choices", ())
        for choice in choices:
            piece += choice.get("text") or ""
            self.finish_reason = choice.get("finish_reason") or self.finish_reason
            shown: Any = choice.get("logprobs") or {}
            for token in shown.get("content") or ():
                top = tuple((one["token"], one["logprob"]) for one in token.get("top_logprobs") or ())
                self.logprobs.append(TokenLogprob(token["token"], token["logprob"], top))
        self.text += piece
        return piece
