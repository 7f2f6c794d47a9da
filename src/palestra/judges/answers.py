"""Finding the final answer in a model's text, by the kind of answer asked for.

The kinds are `option` (a letter of a multiple choice), `number`, `boxed` (LaTeX in `\\boxed{}`, as in MATH) and `open`
(the whole text). What cannot be found is None: a vote that is dropped, never a guess.
"""

from __future__ import annotations

import re

from palestra.core.errors import BadInput
from palestra.core.records import Observation

KINDS = ("option", "number", "boxed", "open")
LETTERS = "ABCDEFG"
_NUMBER = r"[-−+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:\s*/\s*\d+)?|[-−+]?\.\d+"
_ENDINGS = {
    "option": 'End with "The answer is X", where X is the letter of the right option.',
    "number": "End with the final number in \\boxed{}.",
    "boxed": "End with the final answer in \\boxed{}.",
    "open": "",
}


def kind_of(question: Observation) -> str:
    """The kind of answer that `question` asks for: its `info["kind"]`, else `option` if it lists legal letters.

    Raises:
        BadInput: `info["kind"]` is no kind.
    """
    kind = question.info.get("kind")
    if kind is None:
        letters = question.legal is not None and all(len(one) == 1 and one in LETTERS for one in question.legal)
        return "option" if letters else "open"
    if kind not in KINDS:
        raise BadInput("kind", kind, choices=KINDS)
    return kind


def ending(kind: str) -> str:
    """The instruction that makes a reply end in a way `extract` finds."""
    return _ENDINGS[kind]


def extract(text: str, kind: str) -> str | None:
    """The final answer in `text`, or None.

    >>> extract("So the correct option is (C), iron.", "option")
    'C'
    >>> extract("3 + 4 = 7, so \\\\boxed{7}", "number")
    '7'
    >>> extract("I do not know", "number") is None
    True
    """
    if kind not in KINDS:
        raise BadInput("kind", kind, choices=KINDS)
    if kind == "option":
        return option(text)
    if kind == "number":
        return number(text)
    if kind == "boxed":
        return boxed(text) or _said(text)
    return text.strip() or None


def option(text: str, *, letters: str = LETTERS) -> str | None:
    """The letter chosen, searched in the reference's order: three phrases, then "(X)", then "**X" (DMAD, multimodal).

    A phrase counts only when the letter stands alone: "the answer is An apple" names no option.
    """
    letter = rf"([{letters}])(?![A-Za-z])"
    for phrase in ("he answer is", "correct option is", "correct answer is"):
        if found := re.search(rf"{phrase}:?\s*\(?{letter}", text):
            return found[1]
    if found := re.search(rf"\(([{letters}])\)", text) or re.search(rf"\*\*\(?{letter}", text):
        return found[1]
    return None


def number(text: str) -> str | None:
    """The last number in the last box, else the one after the last "answer is", else the last number of the text."""
    inside = boxed(text)
    for place in (inside, _said(text), text if inside is None else None):
        if place and (found := re.findall(_NUMBER, place)):
            return found[-1].replace(",", "").replace("−", "-").replace(" ", "").lstrip("+")
    return None


def boxed(text: str) -> str | None:
    """The content of the last `\\boxed{…}` (or `\\fbox{…}`), braces balanced; None when there is none.

    >>> boxed(r"thus \\boxed{\\frac{1}{2}} is right")
    '\\\\frac{1}{2}'
    """
    start = max(text.rfind("\\boxed"), text.rfind("\\fbox"))
    if start < 0:
        return None
    opening = text.find("{", start)
    if opening < 0 or text[start:opening].strip() not in ("\\boxed", "\\fbox"):
        single = re.match(r"\\(?:boxed|fbox)\s+(\S+)", text[start:])
        return single[1].strip("$.") if single else None
    depth = 0
    for place in range(opening, len(text)):
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        if depth == 0:
            return text[opening + 1 : place].strip() or None
    return None


def _said(text: str) -> str | None:
    """What follows the last "answer is" up to the end of its sentence."""
    found = re.findall(r"answer is:?\s*(.+?)(?:\.(?:\s|$)|\n|$)", text, flags=re.IGNORECASE)
    return found[-1].strip(" $*") or None if found else None
