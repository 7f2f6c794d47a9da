"""From torch back to llama.cpp: LoRA adapters and whole models of SmolLM2's shape as GGUF files.

llama.cpp rotates neighbouring pairs of numbers in a head where transformers rotates its two halves, so the rows of the
query and key matrices (and of their LoRA B matrices) are re-ordered. Metadata, tokenizer included, is the shipped file's.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal

import msgspec

from palestra.core.errors import BadInput, MissingExtra
from palestra.models.embedded.weights import cached, smollm2_gguf

Kind = Literal["F32", "F16", "BF16", "Q8_0", "Q4_1"]
KINDS: tuple[Kind, ...] = ("F32", "F16", "BF16", "Q8_0", "Q4_1")
NAMES = {  # of a layer's modules: in transformers, and in llama.cpp
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}
_FILE_TYPES = {"F32": "ALL_F32", **{kind: f"MOSTLY_{kind}" for kind in ("F16", "BF16", "Q8_0", "Q4_1")}}
_OUTER = {"model.embed_tokens": "token_embd", "model.norm": "output_norm"}


class _Shipped(msgspec.Struct):
    """The shipped file without its weights: metadata as (name, value, types), tensor shapes, heads by module."""

    metadata: list[tuple[str, Any, tuple[Any, ...]]]
    shapes: dict[str, tuple[int, ...]]
    heads: dict[str, int]


def write_adapter(folder: str | Path, target: str | Path) -> Path:
    """The LoRA adapter that peft saved in `folder` as the GGUF adapter `target` (19 MB for rank 16 on all layers).

    Raises:
        BadInput: not a LoRA adapter of SmolLM2's linear layers (DoRA, biases and extra saved modules are refused).
    """
    numpy_file = _needs("safetensors.numpy", "safetensors").load_file
    folder = Path(folder)
    config = _adapter_config(folder)
    weights_file = folder / "adapter_model.safetensors"
    if not weights_file.is_file():
        raise BadInput("adapter", str(folder), "a folder with adapter_model.safetensors")
    tensors: dict[str, Any] = numpy_file(weights_file)
    alphas: dict[str, float] = config.get("alpha_pattern") or {}
    base_alpha, shipped = float(config["lora_alpha"]), _shipped()
    shapes, heads = shipped.shapes, shipped.heads

    def fill(writer: Any) -> None:
        writer.add_type("adapter")
        writer.add_string("adapter.type", "lora")
        # llama.cpp scales by alpha / rank; rank-stabilised LoRA by alpha / sqrt(rank): its factor goes into B.
        writer.add_float32("adapter.lora.alpha", base_alpha)
        for name, value in sorted(tensors.items()):
            module, which = _adapter_tensor(name)
            target_name = f"{gguf_name(module)}.weight"
            if target_name not in shapes or len(shapes[target_name]) != 2:
                raise BadInput("adapter", module, "an adapter of SmolLM2's linear layers")
            array = value.astype("float32")
            if which == "lora_b":
                rank = array.shape[1]
                factor = alphas.get(module.rsplit(".", 1)[-1], base_alpha) / base_alpha
                array = array * (factor * (rank**0.5 if config.get("use_rslora") else 1.0))
                if heads_of_module := heads.get(module.rsplit(".", 1)[-1]):
                    array = interleaved(array, heads_of_module)
            expected = shapes[target_name]
            if (which == "lora_a" and array.shape[1] != expected[1]) or (
                which == "lora_b" and array.shape[0] != expected[0]
            ):
                raise BadInput("adapter", f"{name} of shape {array.shape}", f"a matrix that fits {expected}")
            writer.add_tensor(f"{target_name}.{which}", array)

    return _write(Path(target), fill)


def write_model(model: Any, target: str | Path, *, kind: Kind = "F16") -> Path:
    """A transformers model of SmolLM2's shape (such as one with a merged adapter) as the GGUF file `target`.

    Args:
        model: a LlamaForCausalLM, or a folder with one as transformers saves it.
        kind: the number format of the matrices; norms stay F32. F16 258 MB, Q8_0 138 MB (fastest prompts).

    Raises:
        BadInput: another architecture, shape or number format.
    """
    if kind not in KINDS:
        raise BadInput("kind", kind, choices=KINDS)
    gguf = _needs("gguf")
    state = _state(model)
    shipped = _shipped()
    expected = shipped.shapes
    found = {f"{gguf_name(name.removesuffix('.weight'))}.weight": value for name, value in state.items()}
    found.pop("lm_head.weight", None)  # the embedding itself
    for name in sorted(expected.keys() ^ found.keys()):
        raise BadInput("model", name, "a model with exactly the tensors of SmolLM2-135M")
    heads = {NAMES[f"self_attn.{module}"]: count for module, count in shipped.heads.items()}

    def fill(writer: Any) -> None:
        for name, value, types in shipped.metadata:
            writer.add_key_value(name, value, types[0], sub_type=types[-1] if len(types) > 1 else None)
        writer.add_file_type(gguf.LlamaFileType[_FILE_TYPES[kind]])
        for name, shape in expected.items():
            array = found[name].astype("float32", copy=False)
            if tuple(array.shape) != shape:
                raise BadInput("model", f"{name} of shape {array.shape}", f"shape {shape}")
            if (count := heads.get(name.split(".")[-2])) is not None:
                array = interleaved(array, count)
            quantisation = gguf.GGMLQuantizationType[kind if array.ndim == 2 else "F32"]
            data = gguf.quants.quantize(array, quantisation)
            writer.add_tensor(name, data, raw_dtype=quantisation)

    return _write(Path(target), fill)


def write_merged(folder: str | Path, target: str | Path, *, kind: Kind = "Q8_0") -> Path:
    """SmolLM2 with the LoRA adapter in `folder` (as peft saves it) merged into it, as the GGUF file `target`.

    About twice as fast to run as base and adapter apart.
    """
    from palestra.models.embedded.quiet import quietly, transformers
    from palestra.models.embedded.torch_lm import merged
    from palestra.models.embedded.weights import smollm2_torch

    hf = transformers()
    import torch

    with quietly():
        base = hf.AutoModelForCausalLM.from_pretrained(smollm2_torch(), dtype=torch.float32)
    return write_model(merged(base, Path(folder)), target, kind=kind)


def cached_adapter(folder: Path) -> Path:
    """`write_adapter` of `folder` into the cache; the same file again as long as the adapter does not change."""
    _adapter_config(folder)
    digest = blake2b(digest_size=8)
    for name in ("adapter_config.json", "adapter_model.safetensors"):  # whole: adapters may differ in the middle only
        if (file := folder / name).is_file():
            digest.update(file.read_bytes())
    return cached(f"adapter-{digest.hexdigest()}", lambda made: _into(made, folder)) / "adapter.gguf"


def interleaved(rows: Any, heads: int) -> Any:
    """`rows` (heads times width, columns) with each head's halves turned into neighbouring pairs.

    >>> import numpy as np
    >>> interleaved(np.array([[0], [1], [2], [3]]), 1).ravel().tolist()
    [0, 2, 1, 3]
    """
    count, columns = rows.shape
    halves = rows.reshape(heads, 2, count // heads // 2, columns)
    return halves.swapaxes(1, 2).reshape(count, columns)


def gguf_name(module: str) -> str:
    """llama.cpp's name of a module of transformers' Llama.

    >>> gguf_name("model.layers.3.self_attn.q_proj")
    'blk.3.attn_q'
    """
    if module in _OUTER:
        return _OUTER[module]
    if module == "lm_head":
        return module
    parts = module.split(".")
    inner = ".".join(parts[3:])
    if parts[:2] != ["model", "layers"] or inner not in NAMES:
        raise BadInput("module", module, "a module of transformers' Llama")
    return f"blk.{parts[2]}.{NAMES[inner]}"


def _into(made: Path, folder: Path) -> None:
    write_adapter(folder, made / "adapter.gguf")


def _adapter_config(folder: Path) -> dict[str, Any]:
    file = folder / "adapter_config.json"
    if not file.is_file():
        raise BadInput("adapter", str(folder), "a folder with adapter_config.json, as peft saves it")
    try:
        config: dict[str, Any] = msgspec.json.decode(file.read_bytes(), type=dict[str, Any])
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise BadInput("adapter", str(file), f"JSON ({error})") from None
    if config.get("peft_type") != "LORA":
        raise BadInput("adapter", config.get("peft_type"), "peft_type LORA")
    if "lora_alpha" not in config or config["lora_alpha"] == 0:
        raise BadInput("adapter", config.get("lora_alpha"), "a lora_alpha other than 0")
    if config.get("use_dora") or config.get("bias", "none") != "none" or config.get("modules_to_save"):
        raise BadInput("adapter", str(folder), "plain LoRA: no DoRA, biases or modules_to_save")
    return config


def _adapter_tensor(name: str) -> tuple[str, str]:
    module, _, rest = name.removeprefix("base_model.model.").partition(".lora_")
    which = {"A.weight": "lora_a", "B.weight": "lora_b"}.get(rest)
    if which is None:
        raise BadInput("adapter", name, "tensors named ….lora_A.weight and ….lora_B.weight")
    return module, which


@lru_cache(1)
def _shipped() -> _Shipped:
    """What the shipped file says besides its weights; reading it takes 3 s, so it is kept (10 MB)."""
    reader = _needs("gguf").GGUFReader(smollm2_gguf())
    left_out = ("general.architecture", "general.file_type")  # the writer's own business
    fields = [field for field in reader.fields.values() if not field.name.startswith("GGUF.")]

    def count(key: str) -> int:
        return int(reader.get_field(f"llama.attention.{key}").contents())

    return _Shipped(
        metadata=[(field.name, field.contents(), tuple(field.types)) for field in fields if field.name not in left_out],
        shapes={tensor.name: tuple(int(size) for size in reversed(tensor.shape)) for tensor in reader.tensors},
        heads={"q_proj": count("head_count"), "k_proj": count("head_count_kv")},
    )


def _state(model: Any) -> dict[str, Any]:
    if isinstance(model, str | Path):
        from palestra.models.embedded.torch_lm import TorchLM

        model = TorchLM(Path(model), dtype="float32").model
    return {name: value.detach().float().cpu().numpy() for name, value in model.state_dict().items()}


def _write(target: Path, fill: Callable[[Any], None]) -> Path:
    """The file `target`, filled by `fill(writer)`: whole or not at all."""
    gguf = _needs("gguf")
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    os.close(handle)
    draft = Path(name)
    try:
        writer = gguf.GGUFWriter(draft, "llama")
        fill(writer)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        draft.chmod(0o644)
        draft.replace(target)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    return target


def _needs(module: str, package: str = "") -> Any:
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtra(package or module, "lm") from error
