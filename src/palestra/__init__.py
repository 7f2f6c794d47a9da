"""palestra: the training ground for agents.

Published systems for LLM agents, multi-agent learning and agent models, on one small core, each run by one command that
shows which of the paper's claims hold on your machine, with your model. Importing this module loads nothing heavy: every
name below is fetched when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_ROOMS = (
    "agents",
    "analysis",
    "bench",
    "core",
    "envs",
    "judges",
    "learn",
    "models",
    "runner",
    "store",
    "teams",
    "tools",
)
_NAMES = {
    "Action": "palestra.core",
    "Benchmark": "palestra.core",
    "Budget": "palestra.core",
    "Completion": "palestra.core",
    "Item": "palestra.core",
    "LoopDetector": "palestra.core",
    "Message": "palestra.core",
    "Observation": "palestra.core",
    "Sampling": "palestra.core",
    "Store": "palestra.store",
    "aevaluate": "palestra.api",
    "aresume": "palestra.api",
    "arun": "palestra.api",
    "evaluate": "palestra.api",
    "model": "palestra.models",
    "resume": "palestra.api",
    "run": "palestra.api",
    "tool": "palestra.tools",
}
__all__ = ["__version__", *_ROOMS, *_NAMES]  # pyright: ignore[reportUnsupportedDunderAll]

if TYPE_CHECKING:
    from palestra.api import aevaluate as aevaluate
    from palestra.api import aresume as aresume
    from palestra.api import arun as arun
    from palestra.api import evaluate as evaluate
    from palestra.api import resume as resume
    from palestra.api import run as run
    from palestra.core import Action as Action
    from palestra.core import Benchmark as Benchmark
    from palestra.core import Budget as Budget
    from palestra.core import Completion as Completion
    from palestra.core import Item as Item
    from palestra.core import LoopDetector as LoopDetector
    from palestra.core import Message as Message
    from palestra.core import Observation as Observation
    from palestra.core import Sampling as Sampling
    from palestra.models import model as model
    from palestra.store import Store as Store
    from palestra.tools import tool as tool


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return importlib.import_module(f"palestra.{name}")
    if name in _NAMES:
        return getattr(importlib.import_module(_NAMES[name]), name)
    raise AttributeError(f"module 'palestra' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
