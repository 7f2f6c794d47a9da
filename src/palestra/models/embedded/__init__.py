"""Models that come with palestra or run from a GGUF file, in this process and without a network.

    smollm2_engine(slots=4)         the embedded default, on llama.cpp and torch
    gguf_engine("my-model.gguf")    any GGUF file, on llama.cpp
    unload()                        free their memory

An engine is expensive, so the same options give the same engine again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from palestra.core.errors import BadInput
from palestra.models.embedded.engines import keep, unload
from palestra.models.embedded.weights import MissingWeights, cache_folder

__all__ = ["MissingWeights", "cache_folder", "gguf_engine", "smollm2_engine", "unload"]

_LLAMA = ("slots", "context", "threads", "cache_prompt", "affinity", "raw", "tool_choice")
_TORCH = ("dtype", "torch_threads")


def smollm2_engine(*, adapter: str | Path | None = None, backend: str = "auto", **options: Any) -> Any:
    """The embedded SmolLM2-135M-Instruct.

    Args:
        adapter: a folder with a LoRA adapter as peft saves it, or a GGUF adapter (which only llama.cpp can use: then
            there is no `score` and no `hidden_states`).
        backend: "auto" answers with llama.cpp and scores with torch; "torch" does both with torch (batched sampling).
        options: slots, context, threads, cache_prompt, affinity, raw, tool_choice (see `LlamaEngine`); dtype
            ("auto", "bfloat16", "float32") and torch_threads for torch.

    Raises:
        MissingWeights: `palestra setup` has not been run.
        BadInput: unknown option or value.
        UnknownModel: there is no such adapter.
    """
    if backend not in ("auto", "torch"):
        raise BadInput("backend", backend, choices=("auto", "torch"))
    given = _known(options, (*_LLAMA, *_TORCH))
    path = Path(adapter).expanduser().resolve() if adapter is not None else None

    def make() -> Any:
        from palestra.models.embedded.llama import LlamaEngine
        from palestra.models.embedded.weights import smollm2_gguf

        for_llama = {name: value for name, value in given.items() if name in _LLAMA}
        source = smollm2_gguf()
        if path is not None and path.suffix == ".gguf":
            if backend == "torch":
                raise BadInput("adapter", str(path), "a peft folder: torch cannot read a GGUF adapter")
            return LlamaEngine(source, adapter=path, title="smollm2", **for_llama)
        torch = _torch(given, path, answers=backend == "torch")
        if backend == "torch":
            return torch
        from palestra.models.embedded.smollm2 import SmolLM2Engine

        in_gguf = None
        if path is not None:
            from palestra.models.embedded.gguf_export import cached_adapter

            in_gguf = cached_adapter(path)
        return SmolLM2Engine(LlamaEngine(source, adapter=in_gguf, title="smollm2", **for_llama), torch)

    return keep(("smollm2", path, backend, *sorted(given.items())), make)


def gguf_engine(path: str | Path, *, adapter: str | Path | None = None, **options: Any) -> Any:
    """A model in a GGUF file, on llama.cpp: it completes and streams; it cannot score or show hidden states.

    Args:
        path: the file.
        adapter: a LoRA adapter as GGUF.
        options: slots, context, threads, cache_prompt, affinity, raw, tool_choice (see `LlamaEngine`).

    Raises:
        UnknownModel: there is no such file (one that llama.cpp cannot read is found out by the first request).
        BadInput: unknown option or value.
    """
    from palestra.core.errors import UnknownModel
    from palestra.models.embedded.llama import LlamaEngine

    given = _known(options, _LLAMA)
    files = [Path(one).expanduser().resolve() if one is not None else None for one in (path, adapter)]
    for file in files:
        if file is not None and not file.is_file():
            raise UnknownModel(f"no model at {file}: there is no such file")
    model, lora = files
    assert model is not None
    return keep(("gguf", model, lora, *sorted(given.items())), lambda: LlamaEngine(model, adapter=lora, **given))


def _torch(given: dict[str, Any], adapter: Path | None, *, answers: bool) -> Any:
    from palestra.models.embedded.torch_engine import TorchEngine
    from palestra.models.embedded.torch_lm import TorchLM
    from palestra.models.embedded.weights import smollm2_torch

    lm = TorchLM(
        smollm2_torch,
        dtype=given.get("dtype", "auto"),
        threads=given.get("torch_threads", 1),
        adapter=adapter,
        title="smollm2",
    )
    if not answers:
        return TorchEngine(lm)
    chosen = {name: given[name] for name in ("raw", "tool_choice") if name in given}
    return TorchEngine(lm, empty_system=True, **chosen)


def _known(options: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    for name in options:
        if name not in names:
            raise BadInput("model option", name, choices=names)
    return options
