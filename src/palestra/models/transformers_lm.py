"""Any causal language model of transformers: a folder on disk, or a name on the Hugging Face hub."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from palestra.core.errors import BadInput, UnknownModel
from palestra.models.embedded.engines import keep

_OPTIONS = ("dtype", "threads", "raw", "tool_choice", "empty_system")


def hf_engine(path: str | Path, *, adapter: str | Path | None = None, **options: Any) -> Any:
    """The model at `path`: completes, streams, scores and shows hidden states.

    Args:
        path: a folder as transformers saves it, or `owner/name` on the hub (from the local cache when there is no
            network).
        adapter: a folder with a LoRA adapter as peft saves it.
        options: dtype ("auto", "bfloat16", "float32"), threads, raw, tool_choice, empty_system; see `TorchEngine`.

    Raises:
        UnknownModel: no such folder, or one without a model; a hub name is looked up by the first request.
        BadInput: unknown option or value.
    """
    for name in options:
        if name not in _OPTIONS:
            raise BadInput("model option", name, choices=_OPTIONS)
    source: str | Path = path
    folder = Path(path).expanduser()
    if folder.is_dir():
        source = folder.resolve()
        if not (source / "config.json").is_file():
            raise UnknownModel(f"no model at {source}: the folder has no config.json")
    elif not _is_hub_name(str(path)):
        raise UnknownModel(f"no model at {path}: there is no such folder, and it is no owner/name on the hub")
    lora = Path(adapter).expanduser().resolve() if adapter is not None else None

    def make() -> Any:
        from palestra.models.embedded.torch_engine import TorchEngine
        from palestra.models.embedded.torch_lm import TorchLM

        how = {name: options[name] for name in ("dtype", "threads") if name in options}
        rest = {name: value for name, value in options.items() if name not in how}
        return TorchEngine(TorchLM(source, adapter=lora, **how), **rest)

    return keep(("hf", str(source), lora, *sorted(options.items())), make)


def _is_hub_name(text: str) -> bool:
    parts = text.split("/")
    return len(parts) <= 2 and all(part and part[0].isalnum() for part in parts) and not text.endswith(".gguf")
