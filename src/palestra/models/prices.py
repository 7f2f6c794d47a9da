"""What calls cost in US dollars, from a price file of the user's own; palestra ships no prices.

The file is TOML or JSON and maps a model to dollars per million tokens:

    ["openai/gpt-5"]
    input = 1.0      # per million input tokens
    cached = 0.1     # per million input tokens that a prefix cache served; as `input` when left out
    output = 8.0     # per million output tokens
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from palestra.core.errors import BadInput
from palestra.core.records import Usage

VARIABLE = "PALESTRA_PRICES"  # environment variable with the path of the price file
MILLION = 1e6


class Price(Struct, frozen=True, forbid_unknown_fields=True):
    """US dollars per million tokens.

    >>> Price(input=1.0, output=8.0, cached=0.5).cost(Usage(input_tokens=1_000_000, cached_tokens=400_000))
    0.8
    """

    input: float
    output: float
    cached: float | None = None

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value is not None and not 0 <= value < float("inf"):
                raise BadInput(f"price of {name} tokens", value, "dollars per million tokens, at least 0")

    def cost(self, usage: Usage) -> float:
        """US dollars for the tokens of `usage`."""
        cached = self.input if self.cached is None else self.cached
        fresh = usage.input_tokens - usage.cached_tokens
        return (fresh * self.input + usage.cached_tokens * cached + usage.output_tokens * self.output) / MILLION


def load_prices(path: str | Path | None = None) -> dict[str, Price]:
    """The prices in the file at `path`, or in the file that PALESTRA_PRICES names; none when neither is given.

    Raises:
        BadInput: the file cannot be read, or is not a table of prices.
    """
    path = path or os.environ.get(VARIABLE)
    if not path:
        return {}
    field, file = "prices", Path(path).expanduser()
    try:
        text = file.read_bytes()
    except OSError as error:
        raise BadInput(field, str(path), f"a readable TOML or JSON file ({error.strerror})") from None
    decode = msgspec.json.decode if file.suffix == ".json" else msgspec.toml.decode
    try:
        return decode(text, type=dict[str, Price])
    except BadInput as error:
        raise BadInput(field, str(path), str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput(
            field, str(path), f"model → input, output, cached dollars per million tokens ({error})"
        ) from None


def price_of(prices: Mapping[str, Price], *names: str) -> Price | None:
    """The price under the first of `names` that is listed."""
    return next((prices[name] for name in names if name in prices), None)
