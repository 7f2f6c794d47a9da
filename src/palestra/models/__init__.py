"""Language models: one Model face over embedded, transformers, HTTP, scripted and simulated engines.

`model(spec)` makes one by name. Engines and their heavy packages are imported only when a spec asks for them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from palestra.models.model import Engine, Failure, Model, Output, Prompt, Replies, Reply, Request
from palestra.models.spec import KINDS, model  # after the module of the same name, whose place in here it takes

if TYPE_CHECKING:
    from palestra.models.endpoint import Endpoint
    from palestra.models.prices import Price, load_prices
    from palestra.models.replies import Cache, Recorded
    from palestra.models.scripted import Scripted
    from palestra.models.simulated import Simulated

_LAZY = {
    "Cache": "replies",
    "Endpoint": "endpoint",
    "Price": "prices",
    "Recorded": "replies",
    "Scripted": "scripted",
    "Simulated": "simulated",
    "load_prices": "prices",
}

__all__ = [
    "KINDS", "Cache", "Endpoint", "Engine", "Failure", "Model", "Output", "Price", "Prompt", "Recorded", "Replies",
    "Reply", "Request", "Scripted", "Simulated", "load_prices", "model",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(f"palestra.models.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
