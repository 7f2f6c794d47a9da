"""Batched sampling with a torch model: many prompts decoded together, each with its own seed, limits and stop strings.

Rows are padded on the left and share one key-value cache; rows that end are taken out of it. A reply depends on the
rows beside it by rounding only, so at temperature above 0 (and in near ties at 0) company can change a token.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any

from palestra.core.errors import BadInput, ContextOverflow
from palestra.core.records import Completion, Message, Sampling, TokenLogprob, Usage
from palestra.models.embedded.quiet import transformers
from palestra.models.embedded.sampling import draw
from palestra.models.embedded.torch_lm import TorchLM

BATCH_ROWS = 32  # more prompts than this are decoded in several batches


class Job:
    """One prompt to be continued.

    Args:
        prompt: the raw text, special tokens as they are written.
        start: whether the tokenizer puts its start token before the prompt (a chat template has its own).
        on_piece: told every piece of text as soon as it is certain.
        gone: says whether nobody waits for the reply any more.
    """

    def __init__(
        self,
        prompt: str,
        sampling: Sampling,
        *,
        start: bool = True,
        on_piece: Callable[[str], Any] | None = None,
        gone: Callable[[], bool] = lambda: False,
    ) -> None:
        self.prompt, self.sampling, self.start = prompt, sampling, start
        self.on_piece, self.gone = on_piece, gone
        self.prompt_tokens: list[int] = []
        self.tokens: list[int] = []
        self.drawn = 0  # the end token included, as endpoints count
        self.logprobs: list[TokenLogprob] = []
        self.text, self.told = "", 0
        self.finish_reason = ""

    def take(self, token: int, lm: TorchLM, *, ends: frozenset[int], room: int) -> None:
        """Add one drawn token and see whether the reply has ended."""
        self.drawn += 1
        if token in ends:
            self.finish_reason = "stop"
        else:
            self.tokens.append(token)
            self.text = lm.tokenizer.decode(self.tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False)
            found = [at for stop in self.sampling.stop if (at := self.text.find(stop)) >= 0]
            if found:
                self.text, self.finish_reason = self.text[: min(found)].rstrip(), "stop"
            elif len(self.tokens) >= min(self.sampling.max_tokens, room):
                self.finish_reason = "length"
        if self.gone():
            self.finish_reason = self.finish_reason or "stop"
        self._tell()

    def _tell(self) -> None:
        """Hand on what can no longer change: not half a character, nor what may become a stop string."""
        if self.on_piece is None:
            return
        certain = len(self.text)
        if not self.finish_reason:
            certain -= max((len(stop) for stop in self.sampling.stop), default=0)
            while certain > 0 and (
                self.text[certain - 1] == "\ufffd" or (self.sampling.stop and self.text[certain - 1].isspace())
            ):
                certain -= 1
        if certain > self.told:
            self.on_piece(self.text[self.told : certain])
            self.told = certain


def generate(lm: TorchLM, jobs: Sequence[Job]) -> list[Completion | Exception]:
    """The replies to `jobs`, in their order; a job that cannot be answered has an error in its place."""
    results: list[Completion | Exception | None] = [None] * len(jobs)
    ready: list[int] = []
    for number, job in enumerate(jobs):
        job.prompt_tokens = lm.tokens(job.prompt, start=job.start)
        if not job.prompt_tokens:
            results[number] = BadInput("messages", job.prompt, "a prompt of at least one token")
        elif len(job.prompt_tokens) >= lm.context:
            results[number] = ContextOverflow(len(job.prompt_tokens), lm.context, lm.title)
        else:
            ready.append(number)
    ready.sort(key=lambda number: len(jobs[number].prompt_tokens))
    for start in range(0, len(ready), BATCH_ROWS):
        batch = [jobs[number] for number in ready[start : start + BATCH_ROWS]]
        began = time.perf_counter()
        _decode(lm, batch)
        seconds = (time.perf_counter() - began) / len(batch)  # of model time: a batch's is shared
        for number, job in zip(ready[start : start + BATCH_ROWS], batch, strict=True):
            results[number] = Completion(
                message=Message("assistant", job.text),
                usage=Usage(1, len(job.prompt_tokens), job.drawn, seconds=seconds),
                finish_reason=job.finish_reason,
                model=lm.title,
                engine="torch",
                logprobs=tuple(job.logprobs),
            )
    return [result for result in results if result is not None]


def _decode(lm: TorchLM, jobs: Sequence[Job]) -> None:
    import torch

    ends = end_tokens(lm)
    generators = [torch.Generator().manual_seed((job.sampling.seed or 0) & (2**63 - 1)) for job in jobs]
    longest = max(len(job.prompt_tokens) for job in jobs)
    padded = [[0] * (longest - len(job.prompt_tokens)) + job.prompt_tokens for job in jobs]
    seen = torch.tensor(
        [[0] * (longest - len(job.prompt_tokens)) + [1] * len(job.prompt_tokens) for job in jobs], dtype=torch.long
    )
    ids, positions = torch.tensor(padded), (seen.cumsum(-1) - 1).clamp(min=0)
    active: list[int] = list(range(len(jobs)))
    cache = transformers().DynamicCache()
    with torch.inference_mode(), lm.limited():
        while True:
            logits = _step(lm, ids, seen=seen, positions=positions, cache=cache)
            drawn: list[int] = []
            for place, number in enumerate(active):
                job = jobs[number]
                token = draw(logits[place], job.sampling, generators[number])
                if job.sampling.logprobs:
                    job.logprobs.append(_logprob(lm, logits[place], token, job.sampling.logprobs))
                job.take(token, lm, ends=ends, room=lm.context - len(job.prompt_tokens))
                drawn.append(token)
            kept = [place for place, number in enumerate(active) if not jobs[number].finish_reason]
            if not kept:
                return
            if len(kept) < len(active):
                index = torch.tensor(kept)
                cache.batch_select_indices(index)
                seen, positions = seen[index], positions[index]
                active, drawn = [active[place] for place in kept], [drawn[place] for place in kept]
            ids = torch.tensor(drawn)[:, None]
            seen = torch.cat([seen, torch.ones(len(active), 1, dtype=torch.long)], dim=1)
            positions = positions[:, -1:] + 1


def _step(lm: TorchLM, ids: Any, *, seen: Any, positions: Any, cache: Any) -> Any:
    """One forward pass: the last position's logits (float32); the cache grows."""
    module = lm.model.base_model if lm.plain else lm.model
    named = "cache" if "cache" in signature(module.forward).parameters else "past_key_values"  # renamed in 5.24
    output = module(input_ids=ids, attention_mask=seen, position_ids=positions, use_cache=True, **{named: cache})
    if lm.plain:
        return lm.next_logits(output.last_hidden_state[:, -1])
    return output.logits[:, -1].float()


def end_tokens(lm: TorchLM) -> frozenset[int]:
    """The ids that end a reply: of the model's generation settings and of its tokenizer."""
    said = getattr(lm.model.generation_config, "eos_token_id", None)
    ends = {said} if isinstance(said, int) else set(said or ())
    if lm.tokenizer.eos_token_id is not None:
        ends.add(lm.tokenizer.eos_token_id)
    return frozenset(ends)


def _logprob(lm: TorchLM, logits: Any, token: int, count: int) -> TokenLogprob:
    values = logits.log_softmax(-1)
    top, ids = values.topk(min(count, len(values)))
    shown = tuple((lm.tokenizer.decode([one]), value) for one, value in zip(ids.tolist(), top.tolist(), strict=True))
    return TokenLogprob(lm.tokenizer.decode([token]), float(values[token]), shown)
