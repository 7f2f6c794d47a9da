"""The recipe behind `palestra eval`: any agent on any benchmark, named on the command line. It states no claims."""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
from msgspec import Struct

from palestra.core.claims import Card
from palestra.core.config import type_name
from palestra.core.errors import BadInput
from palestra.core.protocols import Agent
from palestra.runner import Run

CARD = Card(
    slug="eval",
    title="Evaluate an agent on a benchmark",
    authors="palestra",
    venue="",
    area="",
    summary="Any agent on any benchmark.",
    claims=(),
)


class Config(Struct):
    """agent: a name of `palestra list agents`, or FILE.py:NAME, or MODULE:NAME (an Agent, or a function that takes a
    model and returns one); task: a name of `palestra list benchmarks` (NAME:PATH for those that read files), or
    FILE.py:NAME; options: arguments of the benchmark (or, as agent.NAME, of the agent)."""

    agent: str
    task: str
    options: dict[str, Any] = {}


async def run(run: Run, config: Config) -> None:
    """Make both, evaluate."""
    for_agent = {key[6:]: value for key, value in config.options.items() if key.startswith("agent.")}
    for_task = {key: value for key, value in config.options.items() if not key.startswith("agent.")}
    task = _make_task(config.task, for_task)
    agent = _make_agent(config.agent, run, for_agent)
    await run.evaluate({config.agent: agent}, task, name="eval")


def _make_agent(spec: str, run: Run, options: Mapping[str, Any]) -> Agent:
    from palestra import agents

    make = _find("agent", spec, agents.CATALOG)
    if not callable(make):
        made = make
    else:
        made = make(run.model("default"), **_typed(make, options)) if inspect.signature(make).parameters else make()
    if not isinstance(made, Agent):
        raise BadInput("agent", spec, "something with a name and `async act(observation)`, or a function that makes it")
    return made


def _make_task(spec: str, options: Mapping[str, Any]) -> Any:
    from palestra import bench

    name, colon, path = spec.partition(":")
    if colon and name in bench.CATALOG:
        return bench.CATALOG[name](path, **_typed(bench.CATALOG[name], options))
    if name in bench.CATALOG:
        for one in inspect.signature(bench.CATALOG[name]).parameters.values():
            if one.default is one.empty and one.name not in options:
                raise BadInput("task", spec, f"{name}:PATH, the {one.name} of the data")
    make = _find("task", spec, bench.CATALOG)
    return make(**_typed(make, options)) if callable(make) else make


def _find(field: str, spec: str, catalog: Mapping[str, Any]) -> Any:
    if spec in catalog:
        return catalog[spec]
    where, colon, name = spec.rpartition(":")
    if not colon:
        if spec.endswith(".py"):
            raise BadInput(field, spec, f"{spec}:NAME, with the name of what the file defines")
        raise BadInput(field, spec, choices=sorted(catalog))
    module = _module(field, where)
    if not hasattr(module, name):
        own = [
            n for n, one in vars(module).items() if n[0] != "_" and getattr(one, "__module__", where) == module.__name__
        ]
        raise BadInput(field, name, f"a name that {where} defines: {', '.join(own)}", choices=own)
    return getattr(module, name)


def _module(field: str, where: str) -> ModuleType:
    if where.endswith(".py"):
        path = Path(where)
        if not path.is_file():
            raise BadInput(field, where, "a Python file that exists")
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    try:
        return importlib.import_module(where)
    except ImportError:
        raise BadInput(field, where, "a Python file or an importable module") from None


def _typed(make: Callable[..., Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Options as the function's parameters are annotated; an unknown one is refused."""
    parameters = inspect.signature(make, eval_str=True).parameters
    typed: dict[str, Any] = {}
    for name, value in options.items():
        if name not in parameters:
            raise BadInput("setting", name, choices=list(parameters))
        kind = parameters[name].annotation
        try:
            typed[name] = value if kind is inspect.Parameter.empty else msgspec.convert(value, kind, strict=False)
        except (msgspec.ValidationError, TypeError) as error:
            raise BadInput(name, value, f"{type_name(kind)} ({error})") from None
    return typed
