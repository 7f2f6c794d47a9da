"""Fencing of text that a model or a data set wrote, so that it cannot pass for the prompt around it."""

from __future__ import annotations

import re


def fence(text: str) -> str:
    """`text` between two lines of backticks, more of them than any run inside.

    >>> print(fence("a ``` b"))
    ````
    a ``` b
    ````
    """
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    ticks = "`" * (longest + 1)
    return f"{ticks}\n{text.strip()}\n{ticks}"
