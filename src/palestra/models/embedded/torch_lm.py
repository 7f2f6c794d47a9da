"""A causal language model in torch: scores of given texts, hidden states, and batched sampling. Synchronous, one thread.

Only the positions that are asked for are projected to the vocabulary, in float32 also when the weights are bfloat16
(bfloat16 logits are rounded to 1/8 around 20). Results depend on the company in a batch by rounding only: within about
0.05 in log-probability with bfloat16 weights, 1e-4 with float32.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from palestra.core.errors import BadInput, ContextOverflow, UnknownModel
from palestra.models.embedded.packing import Row, batches, mask, pack
from palestra.models.embedded.quiet import quietly, transformers

BATCH_TOKENS = 4096  # with padding, of one forward pass
PROJECTED = 256  # positions projected to the vocabulary at once: 50 MB for 49152 tokens
# Architectures whose logits are the output embedding applied to the last hidden state, and nothing more; these also
# take explicit positions and a mask, so that options can share a row.
PLAIN = frozenset({"llama", "qwen2", "gpt2"})


class TorchLM:
    """A model and its tokenizer, loaded on first use.

    Args:
        source: a folder as transformers saves it, the name of a model on the Hugging Face hub, or a function that
            gives one of the two when the model is loaded.
        dtype: "bfloat16", "float32", or "auto": bfloat16 where the processor multiplies it by itself.
        threads: of torch's operations.
        adapter: a folder with a LoRA adapter as peft saves it; it is merged into the weights.

    Raises (when loading):
        UnknownModel: nothing there that transformers can load.
    """

    def __init__(
        self,
        source: str | Path | Callable[[], str | Path],
        *,
        dtype: str = "auto",
        threads: int = 1,
        adapter: Path | None = None,
        title: str = "",
    ) -> None:
        if dtype not in ("auto", "bfloat16", "float32"):
            raise BadInput("dtype", dtype, choices=("auto", "bfloat16", "float32"))
        number: Any = threads
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise BadInput("threads", threads, "an integer of at least 1")
        self.source, self.dtype, self.threads, self.adapter = source, dtype, threads, adapter
        self.title = title or ("model" if callable(source) else Path(source).name)
        self._lock = threading.Lock()
        self._model: Any = None
        self._tokenizer: Any = None
        self._head: Any = None  # (weight, bias) in float32, for plain architectures

    @property
    def model(self) -> Any:
        """The transformers model, in evaluation mode."""
        self.load()
        return self._model

    @property
    def tokenizer(self) -> Any:
        """Its tokenizer."""
        self.load()
        return self._tokenizer

    @property
    def context(self) -> int:
        """The longest input in tokens."""
        config = self.model.config
        return int(getattr(config, "max_position_embeddings", None) or getattr(config, "n_positions", None) or 2048)

    @property
    def plain(self) -> bool:
        """Whether the architecture is one of `PLAIN`."""
        return self.model.config.model_type in PLAIN

    def load(self) -> None:
        """Read the files, if that has not been done: 1 to 3 s for the embedded model."""
        with self._lock:
            if self._model is not None:
                return
            hf = transformers()
            import torch

            kind = native_dtype() if self.dtype == "auto" else self.dtype
            source = self.source() if callable(self.source) else self.source
            try:
                with quietly():
                    tokenizer = hf.AutoTokenizer.from_pretrained(source)
                    read_as = torch.float32 if self.adapter is not None else getattr(torch, kind)
                    model = hf.AutoModelForCausalLM.from_pretrained(source, dtype=read_as)
            except (OSError, ValueError, KeyError, RuntimeError) as error:
                reason = " ".join(str(error).split())[:160]
                raise UnknownModel(f"no model at {source}: transformers cannot load it ({reason})") from None
            if self.adapter is not None:
                model = merged(model, self.adapter)
            model = model.to(getattr(torch, kind)).eval().requires_grad_(False)
            if model.config.model_type in PLAIN:
                head = model.get_output_embeddings()
                bias = getattr(head, "bias", None)
                self._head = head.weight.float(), None if bias is None else bias.float()
            self._tokenizer, self._model = tokenizer, model

    def unload(self) -> None:
        """Forget the weights; a later use loads them again."""
        with self._lock:
            self._model = self._tokenizer = self._head = None

    def tokens(self, text: str, *, start: bool = True) -> list[int]:
        """The token ids of `text`; `start` adds what the tokenizer puts before a text."""
        return list(self.tokenizer.encode(text, add_special_tokens=start))

    def score(self, items: Sequence[tuple[str, Sequence[str]]]) -> list[tuple[list[float], int] | Exception]:
        """For each (prompt, options): the options' log-probabilities and the tokens of prompt and options together.

        Prompt and option are tokenised apart and joined, so an option has the same tokens after every prompt. An item
        that cannot be scored has an error in its place (BadInput, ContextOverflow).
        """
        results: list[tuple[list[float], int] | Exception] = []
        rows: list[Row] = []
        for number, (prompt, options) in enumerate(items):
            try:
                prefix, endings = self._tokenised(prompt, options)
            except (BadInput, ContextOverflow) as error:
                results.append(error)
                continue
            rows += pack(prefix, endings, item=number, together=self.plain)
            results.append(([0.0] * len(options), len(prefix) + sum(map(len, endings))))
        for batch in batches(rows, tokens=BATCH_TOKENS):
            for need, value in self._log_probabilities(batch):
                scored = results[need[0]]
                assert isinstance(scored, tuple)
                scored[0][need[1]] += value
        return results

    def hidden_states(self, items: Sequence[tuple[str, int]]) -> list[Any]:
        """For each (text, layer): float32 array, shape (tokens, width), of the states after that layer (0: embedding).

        An item that cannot be read has an error in its place (BadInput, ContextOverflow).
        """
        import torch

        results: list[Any] = [None] * len(items)
        rows: list[Row] = []
        places: dict[int, int] = {}
        layers = self.model.config.num_hidden_layers
        for number, (text, layer) in enumerate(items):
            tokens = self.tokens(text)
            if not -layers - 1 <= layer <= layers:
                results[number] = BadInput("layer", layer, f"an integer from {-layers - 1} to {layers}")
            elif not tokens:
                results[number] = BadInput("texts", text, "texts of at least one token")
            elif len(tokens) > self.context:
                results[number] = ContextOverflow(len(tokens), self.context, self.title)
            else:
                (row,) = pack(tokens, (), item=number, together=True)
                places[id(row)] = number
                rows.append(row)
        for batch in batches(rows, tokens=BATCH_TOKENS):
            with torch.inference_mode(), self.limited():
                states = self._forward(batch, states=True).hidden_states
            for place, row in enumerate(batch):
                number = places[id(row)]
                state = states[items[number][1]][place, : len(row.tokens)]
                results[number] = state.float().numpy().copy()
        return results

    def next_logits(self, hidden: Any) -> Any:
        """Logits of the token after `hidden` states, for plain architectures: float32, shape (rows, vocabulary)."""
        import torch

        weight, bias = self._head
        return torch.nn.functional.linear(hidden.float(), weight, bias)

    def limited(self) -> Threads:
        """A block in which torch uses no more than the model's number of threads."""
        return Threads(self.threads)

    def _tokenised(self, prompt: str, options: Sequence[str]) -> tuple[list[int], list[list[int]]]:
        prefix = self.tokens(prompt)
        if not prefix:
            raise BadInput("prompt", prompt, "at least one token before the options")
        endings = [self.tokens(option, start=False) for option in options]
        for option, ending in zip(options, endings, strict=True):
            if not ending:
                raise BadInput("options", option, "options of at least one token")
            if len(prefix) + len(ending) > self.context:
                raise ContextOverflow(len(prefix) + len(ending), self.context, self.title)
        return prefix, endings

    def _log_probabilities(self, rows: Sequence[Row]) -> Iterator[tuple[tuple[int, int], float]]:
        import torch

        needs = [(place, need) for place, row in enumerate(rows) for need in row.needs]
        with torch.inference_mode(), self.limited():
            output = self._forward(rows)
            at = torch.tensor([place for place, _ in needs]), torch.tensor([need.place for _, need in needs])
            wanted = torch.tensor([need.token for _, need in needs])
            picked = (output.last_hidden_state if self.plain else output.logits)[at]
            values: list[float] = []
            for start in range(0, len(needs), PROJECTED):
                piece = picked[start : start + PROJECTED]
                logits = self.next_logits(piece) if self.plain else piece.float()
                chosen = logits.gather(1, wanted[start : start + PROJECTED, None])[:, 0]
                values += (chosen - logits.logsumexp(-1)).tolist()
        for (_, need), value in zip(needs, values, strict=True):
            yield (need.item, need.option), value

    def _forward(self, rows: Sequence[Row], *, states: bool = False) -> Any:
        import torch

        length = max(len(row.tokens) for row in rows)
        padded = [row.tokens + [0] * (length - len(row.tokens)) for row in rows]
        kwargs: dict[str, Any] = {"use_cache": False, "output_hidden_states": states}
        if self.plain:
            if (seen := mask(rows, torch)) is not None:
                dtype = self.model.dtype
                kwargs["attention_mask"] = torch.zeros_like(seen, dtype=dtype).masked_fill(
                    ~seen, torch.finfo(dtype).min
                )
                positions = [row.positions + [0] * (length - len(row.tokens)) for row in rows]
                kwargs["position_ids"] = torch.tensor(positions)
            return self.model.base_model(input_ids=torch.tensor(padded), **kwargs)
        real = [[1] * len(row.tokens) + [0] * (length - len(row.tokens)) for row in rows]
        return self.model(input_ids=torch.tensor(padded), attention_mask=torch.tensor(real), **kwargs)


class Threads:
    """Limits torch's threads inside the block; other work of the process gets its own number back."""

    def __init__(self, threads: int) -> None:
        self._threads, self._before = threads, threads

    def __enter__(self) -> None:
        import torch

        self._before = torch.get_num_threads()
        if self._before != self._threads:
            torch.set_num_threads(self._threads)

    def __exit__(self, *_: object) -> None:
        import torch

        if self._before != self._threads:
            torch.set_num_threads(self._before)


def native_dtype() -> str:
    """ "bfloat16" where the processor multiplies it by itself (AMX or AVX-512 BF16, twice as fast or more), else "float32".

    Measured on AVX-512 BF16 without AMX: 500-720 tokens a second of one thread against 290-345 in float32.
    """
    import torch

    probes: tuple[Callable[[], bool] | None, ...] = tuple(
        getattr(torch.cpu, name, None) for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    )
    return "bfloat16" if any(probe is not None and probe() for probe in probes) else "float32"


def merged(model: Any, adapter: Path) -> Any:
    """`model` with the LoRA adapter in folder `adapter` merged into its weights."""
    try:
        peft: Any = import_module("peft")
    except ImportError as error:
        from palestra.core.errors import MissingExtra

        raise MissingExtra("peft", "torch") from error
    if not (adapter / "adapter_config.json").is_file():
        raise BadInput("adapter", str(adapter), "a folder with adapter_config.json, as peft saves it")
    return peft.PeftModel.from_pretrained(model, str(adapter)).merge_and_unload()
