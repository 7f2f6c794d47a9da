"""Makes docstrings safe for Markdown, where `>>>` would be a quotation and an index behind an index a link."""

from __future__ import annotations

import re
from typing import Any

import griffe

DOCTEST = re.compile(r"^>>> .*?(?=\n[ ]*\n(?!>>> )|\Z)", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"(```.*?```|`[^`\n]*`)", re.DOTALL)


class Doctests(griffe.Extension):
    """Puts every doctest into a fence, and takes `a[i][k]` in running text as it stands."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Called for each module, class, function and attribute once it is read."""
        if obj.docstring:
            obj.docstring.value = safe(obj.docstring.value)


def safe(text: str) -> str:
    """`text` with its doctests in fences and no accidental links."""
    fenced = DOCTEST.sub(lambda found: f"```pycon\n{found.group().rstrip()}\n```", text)
    parts = CODE.split(fenced)
    parts[::2] = [part.replace("][", "]\\[") for part in parts[::2]]
    return "".join(parts)
