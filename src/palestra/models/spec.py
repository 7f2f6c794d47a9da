"""Models by name: `model("smollm2")`, `model("openai/gpt-5")`, `model("http://localhost:8000/v1#name")`, and so on.

A spec is a short text that can stand on a command line, in a run's record and in another process.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from palestra.core.errors import BadInput, MissingExtra, MissingKey, UnknownModel, nearest
from palestra.core.records import Sampling
from palestra.models.engine import Engine, Replies
from palestra.models.model import Model

KINDS: Mapping[str, str] = {
    "smollm2": "the embedded 135M chat model",
    "minilm": "the embedded sentence embeddings",
    "hf:<path or id>": "a transformers model",
    "gguf:<path>": "a llama.cpp model file",
    "openai/<name>": "OpenAI, or the endpoint in OPENAI_BASE_URL",
    "http://host:port/v1#<name>": "any OpenAI-compatible endpoint",
    "scripted": "replies from options, or scripted:module:function",
    "simulated:<skill>": "a model of stated skill on given items",
}
OPENAI_URL = "https://api.openai.com/v1"
# Options that change how fast or how dearly a reply comes, not what it is: they are no part of the model's name.
NEUTRAL = frozenset(
    {
        "attempts", "base", "cap", "patience", "timeout", "connect_timeout", "total_timeout", "connections", "prices",
        "latency", "slots", "threads", "torch_threads", "cache_prompt", "affinity",
    }
)  # fmt: skip
_BACKOFF = ("attempts", "base", "cap", "patience")
_LOCAL = ("smollm2", "minilm", "hf", "gguf")  # need files on this machine


def model(
    spec: str | Model | Engine,
    *,
    sampling: Sampling | None = None,
    cache: str | Path | Replies | None = None,
    offline: bool = False,
    **options: Any,
) -> Model:
    """The model that `spec` names.

    Args:
        spec: one of `KINDS`; a Model (returned as it is, or with the sampling and cache given here); or an Engine.
        sampling: used when a call gives none.
        cache: recorded replies: the path of a cache file, or a `Cache` or `Recorded`.
        offline: with `cache`, never ask for a reply that is not recorded. No key and no weights are needed then.
        **options: of the engine. Endpoints: `timeout`, `connect_timeout`, `total_timeout` (seconds), `attempts`,
            `base`, `cap`, `patience` (of the backoff, seconds), `connections`, `prices` (path of a price file).
            scripted: `script`, `latency`, `score`. simulated: `items`, `kind`, `form`.

    Raises:
        UnknownModel: nothing goes by that name.
        MissingKey: the endpoint needs a key and the environment has none.
        BadInput: an option is wrong.

    >>> model("scripted", script={"2+2=": "4"})
    Model('scripted', engine='scripted')
    """
    replies = _replies(cache)
    if "items" in options:  # a benchmark's scorer need not cross process borders
        options["items"] = tuple(getattr(options["items"], "items", options["items"]))
    if isinstance(spec, Model):
        if options:
            raise BadInput("options", sorted(options), "none: the model is made already")
        if sampling is None and replies is None and not offline:
            return spec
        return spec.using(defaults=sampling, replies=replies, offline=offline or None)
    if not isinstance(spec, str):
        if options or not callable(getattr(spec, "complete", None)):
            raise BadInput("model", spec, "a spec, a Model or an Engine (without options)")
        engine, name, rebuild = spec, spec.name, None
    else:
        engine = _offline(spec.strip(), options) if offline else _engine(spec.strip(), options)
        name = _name(spec.strip(), options)
        rebuild = (_again, (spec, sampling, cache, offline, options))
    if offline and replies is None:
        raise BadInput("offline", offline, "False, or a cache to answer from")
    return Model(engine, name=name, defaults=sampling, replies=replies, offline=offline, rebuild=rebuild)


def check(spec: str) -> None:
    """Raise what `model(spec)` would raise for a wrong name, a missing key, file or package, without loading weights."""
    spec = spec.strip()
    head, _, rest = spec.partition(":")
    if spec in ("smollm2", "minilm"):
        from palestra.models.embedded import weights

        (weights.smollm2_gguf if spec == "smollm2" else weights.minilm_folder)()
    elif head == "gguf" and rest:
        if not Path(rest).is_file():
            raise UnknownModel(f"no model file at {rest}")
    elif head == "hf" and rest:
        if rest.startswith((".", "/", "~")) and not Path(rest).expanduser().is_dir():
            raise UnknownModel(f"no model folder at {rest}")
    elif not (head == "simulated" and rest):
        model(spec)


def _again(spec: str, sampling: Sampling | None, cache: Any, offline: bool, options: Mapping[str, Any]) -> Model:
    return model(spec, sampling=sampling, cache=cache, offline=offline, **options)


def _replies(cache: str | Path | Replies | None) -> Replies | None:
    if isinstance(cache, str | Path):
        from palestra.models.replies import Cache

        return Cache(cache)
    return cache


def _name(spec: str, options: Mapping[str, Any]) -> str:
    """The spec, with the plain options that change replies, so that recorded replies are never mixed up."""
    plain = {key: options[key] for key in sorted(options) if key not in NEUTRAL}
    shown = [f"{key}={value}" for key, value in plain.items() if isinstance(value, str | int | float | Path)]
    return f"{spec}?{'&'.join(shown)}" if shown else spec


def _engine(spec: str, options: dict[str, Any]) -> Engine:
    head, colon, rest = spec.partition(":")
    if spec == "smollm2":
        return _made(spec, _smollm2, options)
    if spec == "minilm":
        return _made(spec, _minilm, options)
    if head == "hf" and rest:
        return _made(spec, partial(_hf, rest), options)
    if head == "gguf" and rest:
        return _made(spec, partial(_gguf, rest), options)
    if spec.startswith("openai/") and len(spec) > len("openai/"):
        url = os.environ.get("OPENAI_BASE_URL", "").strip() or OPENAI_URL
        return _endpoint(spec, url, spec[len("openai/") :], ("OPENAI_API_KEY",), options)
    if head in ("http", "https") and colon:
        url, _, name = spec.partition("#")
        if not name:
            raise BadInput("model", spec, f"{url or 'http://host:port/v1'}#<name of the model>")
        return _endpoint(spec, url, name, ("PALESTRA_API_KEY", "OPENAI_API_KEY"), options)
    if spec == "scripted":
        return _made(spec, _scripted, options)
    if head == "scripted" and ":" in rest:
        return _made(spec, partial(_scripted_from, rest), options)
    if head == "simulated":
        return _made(spec, partial(_simulated, spec, rest), options)
    raise UnknownModel(_unknown(spec))


def _offline(spec: str, options: dict[str, Any]) -> Engine:
    """The engine, or what stands in for it where its key, its weights or its file are missing."""
    try:
        return _engine(spec, options)
    except (MissingKey, MissingExtra, UnknownModel) as error:
        if isinstance(error, UnknownModel) and spec.partition(":")[0] not in _LOCAL:
            raise
        from palestra.models.unavailable import Unavailable

        return Unavailable(spec, error)


def _unknown(spec: str) -> str:
    near = nearest(
        spec.partition(":")[0].partition("/")[0], [kind.partition(":")[0].partition("/")[0] for kind in KINDS]
    )
    full = next((kind for kind in KINDS if near is not None and kind.startswith(near)), None)
    hint = f" (did you mean {full!r}?)" if full else ""
    return f"unknown model {spec!r}: expected one of {', '.join(KINDS)}{hint}"


def _made(spec: str, make: Callable[..., Engine], options: Mapping[str, Any]) -> Engine:
    try:
        return make(**options)
    except TypeError as error:
        if "argument" in str(error) and options:  # Python's own words for an option that does not exist
            raise BadInput("options", sorted(options), f"options of {spec} ({error})") from error
        raise


def _smollm2(**options: Any) -> Engine:
    from palestra.models.embedded import smollm2_engine

    return smollm2_engine(**options)


def _gguf(path: str, **options: Any) -> Engine:
    from palestra.models.embedded import gguf_engine

    return gguf_engine(path, **options)


def _hf(path: str, **options: Any) -> Engine:
    from palestra.models.transformers_lm import hf_engine

    return hf_engine(path, **options)


def _minilm(**options: Any) -> Engine:
    from palestra.models.embeddings import minilm_engine

    return minilm_engine(**options)


def _scripted(**options: Any) -> Engine:
    from palestra.models.scripted import Scripted

    return Scripted(**options)


def _scripted_from(path: str, **options: Any) -> Engine:
    from palestra.models.scripted import scripted_from

    return scripted_from(path, **options)


def _simulated(spec: str, skill: str, *, items: Any = None, **options: Any) -> Engine:
    from palestra.models.simulated import Simulated, read_skill

    if items is None:
        raise BadInput("model", spec, "the option items=... as well: the questions that the model may be asked")
    return Simulated.for_items(items, skill=read_skill(skill), **options)


def _endpoint(spec: str, url: str, name: str, keys: tuple[str, ...], options: dict[str, Any]) -> Engine:
    from palestra.models.backoff import Backoff
    from palestra.models.endpoint import LOOPBACK, Endpoint
    from palestra.models.prices import load_prices, price_of

    given = dict(options)
    backoff = Backoff(**{option: given.pop(option) for option in _BACKOFF if option in given})
    prices = load_prices(given.pop("prices", None))
    found = next(((key, value) for key in keys if (value := os.environ.get(key, "").strip())), None)
    if found is None and _host(url) not in LOOPBACK:
        raise MissingKey(f"{spec} needs a key: set {' or '.join(keys)} in the environment")
    key_name, key = found or (keys[0], None)
    price = price_of(prices, spec, name)
    make = partial(Endpoint, url, name, key=key, key_name=key_name, backoff=backoff, price=price)
    return _made(spec, make, given)


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""
