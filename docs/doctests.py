"""Shows the doctests of docstrings as code: to Markdown, `>>>` would be a quotation and `[1, 2]` a link."""

from __future__ import annotations

import re
from typing import Any

import griffe

DOCTEST = re.compile(r"^>>> .*?(?=\n[ ]*\n(?!>>> )|\Z)", re.MULTILINE | re.DOTALL)


class Doctests(griffe.Extension):
    """Puts every doctest into a fence."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Called for each module, class, function and attribute once it is read."""
        if obj.docstring:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    """`text` with its doctests in fences."""
    return DOCTEST.sub(lambda found: f"```pycon\n{found.group().rstrip()}\n```", text)
