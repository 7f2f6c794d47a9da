"""The torch model as an engine: scores, hidden states and replies; requests made at the same time share batches."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import msgspec

from palestra.core.errors import BadInput
from palestra.core.records import Completion, Message, Usage
from palestra.models import tool_text
from palestra.models.embedded.batching import Batcher
from palestra.models.embedded.generation import Job, generate
from palestra.models.embedded.torch_lm import TorchLM
from palestra.models.engine import Output, Request


class TorchEngine:
    """Answers with a causal language model of transformers.

    Args:
        lm: the model.
        raw: the one user message of a request is a raw prompt, sent without chat template.
        empty_system: insert an empty system message where there is none (templates like SmolLM2's add a sentence).
        tool_choice: with tools, "auto" lets the model answer in words too, "required" demands a call (but nothing
            enforces it here: there is no grammar).

    A schema is told to the model in words, and the Model validates what comes. Scores of one batch and another differ
    by rounding only; see `torch_lm`.
    """

    name = "torch"

    def __init__(
        self, lm: TorchLM, *, raw: bool = False, empty_system: bool = False, tool_choice: str = "auto"
    ) -> None:
        if tool_choice not in ("auto", "required"):
            raise BadInput("tool_choice", tool_choice, choices=("auto", "required"))
        self.lm, self.raw, self.empty_system = lm, raw, empty_system
        self.may_reply = tool_choice == "auto"
        self._batcher = Batcher("torch")

    def check(self, request: Request) -> None:
        """Refuse what cannot be asked: images, or in raw form anything but one user message.

        Raises:
            BadInput
        """
        for message in request.messages:
            if message.images:
                raise BadInput("messages", f"an image for {self.lm.title}", "text: this model does not see")
        if (
            self.raw
            and request.kind == "complete"
            and (len(request.messages) != 1 or request.messages[0].role != "user" or request.tools)
        ):
            raise BadInput("messages", [one.role for one in request.messages], "one user message, without tools (raw)")

    async def score(self, request: Request) -> Output:
        """Log-probability of each option after the prompt: `value` is a list of floats."""
        values, usage = await self._batcher.submit(self._score, (request.prompt, request.options))
        return Output(values, usage, self.name)

    async def hidden_states(self, request: Request) -> Output:
        """States after a layer: `value` is a list of float32 arrays, shape (tokens, width)."""
        self.check(request)
        items = [(text, request.layer) for text in request.texts]
        found = await asyncio.gather(*(self._batcher.submit(self._hidden, item) for item in items))
        usage = Usage(calls=1)
        for states, seconds in found:
            usage.input_tokens += len(states)
            usage.seconds += seconds
        return Output([states for states, _ in found], usage, self.name)

    async def complete(self, request: Request) -> Completion:
        """The reply to `request`."""
        return await self._run(request, None)

    async def stream(self, request: Request) -> AsyncIterator[str | Completion]:
        """The reply piece by piece, then the whole Completion."""
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

    def close(self) -> None:
        """Forget the weights; a later request loads them again."""
        self.lm.unload()

    async def _run(self, request: Request, on_piece: Callable[[str], Any] | None) -> Completion:
        self.check(request)
        gone = threading.Event()
        try:
            completion = await self._batcher.submit(self._generate, (request, on_piece, gone.is_set))
        finally:
            gone.set()
        if not request.tools:
            return completion
        message = tool_text.parse(completion.text, request.tools)
        reason = "tool_calls" if message.tool_calls else completion.finish_reason
        return msgspec.structs.replace(completion, message=message, finish_reason=reason)

    def _score(self, items: Sequence[tuple[str, Sequence[str]]]) -> list[Any]:
        started = time.perf_counter()
        scored = self.lm.score(items)
        tokens = sum(one[1] for one in scored if isinstance(one, tuple)) or 1
        rate = (time.perf_counter() - started) / tokens  # a batch's time is shared by length
        return [(one[0], Usage(1, one[1], seconds=rate * one[1])) if isinstance(one, tuple) else one for one in scored]

    def _hidden(self, items: Sequence[tuple[str, int]]) -> list[Any]:
        started = time.perf_counter()
        states = self.lm.hidden_states(items)
        seconds = (time.perf_counter() - started) / len(items)
        return [one if isinstance(one, Exception) else (one, seconds) for one in states]

    def _generate(self, items: Sequence[tuple[Request, Callable[[str], Any] | None, Callable[[], bool]]]) -> list[Any]:
        jobs: list[Job] = []
        for request, on_piece, gone in items:
            prompt, start = self._prompt(request)
            sampling = request.sampling
            if request.tools:
                sampling = msgspec.structs.replace(sampling, stop=(*sampling.stop, *tool_text.STOP))
            jobs.append(Job(prompt, sampling, start=start, on_piece=on_piece, gone=gone))
        return list(generate(self.lm, jobs))

    def _prompt(self, request: Request) -> tuple[str, bool]:
        """The raw prompt, and whether the tokenizer adds its start token to it."""
        messages = request.messages
        if request.schema is not None:
            messages = _with_schema(request)
        if self.raw:
            return messages[0].text, True
        if request.tools:
            return tool_text.transcript(messages, request.tools, may_reply=self.may_reply), True
        if tool_text.speaks_of_tools(messages):
            messages = tool_text.in_words(messages)
        begun = messages[-1].text if messages[-1].role == "assistant" else ""
        told = messages[:-1] if messages[-1].role == "assistant" else messages
        turns = [{"role": message.role, "content": message.text} for message in told]
        if self.empty_system and not any(message.role == "system" for message in told):
            turns.insert(0, {"role": "system", "content": ""})
        if not self.lm.tokenizer.chat_template:
            lines = [f"{turn['role'].capitalize()}: {turn['content']}" for turn in turns if turn["content"]]
            return "\n".join([*lines, "Assistant:"]) + (f" {begun}" if begun else ""), True
        rendered = self.lm.tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
        return rendered + begun, False


def _with_schema(request: Request) -> tuple[Message, ...]:
    """The messages with the schema in words at the end of the last one of the user."""
    told = f"\nAnswer with JSON that fits this schema, and nothing else: {msgspec.json.encode(request.schema).decode()}"
    messages = list(request.messages)
    for place in range(len(messages) - 1, -1, -1):
        if messages[place].role == "user":
            messages[place] = msgspec.structs.replace(messages[place], content=messages[place].text + told)
            break
    return tuple(messages)
