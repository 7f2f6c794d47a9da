"""The registry of systems: one module a paper, found by name, imported only when asked for.

A system module has `CARD`, `Config`, an async `run(run, config)`, and optionally `PRESETS`, the settings that each
scale changes. Our own modules live in one package; a third party adds its own by an entry point in the group
`palestra.systems`.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from msgspec import Struct

from palestra.core.claims import Card
from palestra.core.config import configure
from palestra.core.errors import BadInput, PalestraError
from palestra.core.records import Scale

PACKAGE = "palestra.systems"
GROUP = "palestra.systems"
EVAL = "eval"  # the recipe behind `palestra eval`: found like a system, listed nowhere


class System(Struct, frozen=True):
    """A paper as a runnable: its card, its settings type, its recipe, its presets by scale."""

    card: Card
    config: type[Struct]
    run: Callable[[Any, Any], Awaitable[None]]
    presets: Mapping[str, Mapping[str, Any]]

    def settings(self, scale: Scale, values: Mapping[str, Any]) -> Struct:
        """The settings at `scale`, with `values` over them."""
        return configure(self.config, {**self.presets.get(scale, {}), **values})


@cache
def slugs() -> tuple[str, ...]:
    """The slugs of all systems, sorted; imports none of them."""
    spec = importlib.util.find_spec(PACKAGE)
    folders = list(spec.submodule_search_locations or ()) if spec else []
    own = {module.name.replace("_", "-") for module in pkgutil.iter_modules(folders) if not module.name.startswith("_")}
    return tuple(sorted(own | _foreign().keys()))


@cache
def system(slug: str) -> System:
    """The system called `slug`.

    Raises:
        BadInput: there is no such system; the nearest slug is suggested.
    """
    if slug == EVAL:
        module = importlib.import_module(f"{PACKAGE}._evaluation")
    elif slug not in slugs():
        raise BadInput("system", slug, choices=slugs())
    else:
        own = f"{PACKAGE}.{slug.replace('-', '_')}"
        module = importlib.import_module(own) if importlib.util.find_spec(own) else _load(_foreign()[slug])
    return System(card=module.CARD, config=module.Config, run=module.run, presets=getattr(module, "PRESETS", {}))


@cache
def _foreign() -> dict[str, EntryPoint]:
    """The systems that other packages bring, by slug."""
    return {point.name: point for point in entry_points(group=GROUP)}


def _load(point: EntryPoint) -> Any:
    try:
        module = point.load()
    except (ImportError, AttributeError) as error:
        raise PalestraError(f"system {point.name!r} of another package cannot be loaded: {error}") from error
    for name in ("CARD", "Config", "run"):
        if not hasattr(module, name):
            raise PalestraError(f"system {point.name!r} of another package has no {name} (in {point.value})")
    return module
