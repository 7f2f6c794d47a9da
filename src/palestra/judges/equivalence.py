"""Whether two short answers are the same: as LaTeX, as numbers, or as text. Nothing a model wrote is executed."""

from __future__ import annotations

import ast
import math
import operator
import re
from fractions import Fraction

_REMOVED = (*r"\left \right \! \, \; \: $ \% % ^\circ ^{\circ} °".split(), r"\ ", "\\\\")
_WORDS = re.compile(r"\\(?:text|mathrm|mbox|textbf|mathbf|operatorname)\s*\{([^{}]*)\}")
_FRACTION = re.compile(r"\\[dt]?frac\s*(?:\{([^{}]*)\}|(\d))\s*(?:\{([^{}]*)\}|(\d))")
_ROOT = re.compile(r"\\sqrt\s*(?:\{([^{}]*)\}|(\d))")
_OPERATIONS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}
_CLOSE = 1e-9  # relative difference up to which two computed values are the same


def equivalent(answer: str | None, gold: str | None) -> bool:
    """Whether `answer` means `gold`. None is never right.

    >>> equivalent(r"\\dfrac{1}{2}", "0.5"), equivalent("1,000", "1000"), equivalent("(3, 4)", "(3,4)")
    (True, True, True)
    >>> equivalent("12", "21")
    False
    """
    if answer is None or gold is None:
        return False
    first, second = normal_form(answer), normal_form(gold)
    if first == second:
        return True
    parts, others = _parts(first), _parts(second)
    if parts and others and len(parts) == len(others):
        return first[0] + first[-1] == second[0] + second[-1] and all(map(equivalent, parts, others))
    value, other = _value(first), _value(second)
    if value is None or other is None:
        return False
    if isinstance(value, Fraction) and isinstance(other, Fraction):
        return value == other
    return math.isclose(value, other, rel_tol=_CLOSE, abs_tol=_CLOSE)


def normal_form(text: str) -> str:
    """`text` in one spelling: no spacing commands, units or text macros, plain fractions, lower case, exact numbers.

    >>> normal_form(r"x = \\frac12"), normal_form("1.50"), normal_form("Iron.")
    ('1/2', '3/2', 'iron')
    """
    text = text.strip().rstrip(".").replace("−", "-").replace("–", "-")
    text = _WORDS.sub(r"\1", text)
    for part in _REMOVED:
        text = text.replace(part, " " if part == r"\ " else "")
    text = text.replace(r"\cdot", "*").replace(r"\times", "*").replace(r"\pi", "pi").replace(r"\div", "/")
    for _ in range(4):  # nested fractions and roots, innermost first
        text = _ROOT.sub(lambda found: f"sqrt({found[1] or found[2]})", text)
        text = _FRACTION.sub(lambda found: f"{_wrap(found[1] or found[2])}/{_wrap(found[3] or found[4])}", text)
    text = re.sub(r"^[a-zA-Z]\w?\s*(?:=|\\in)\s*", "", text)  # "x = 3" answers with 3
    text = re.sub(r"(?<=\d),(?=\d{3}(?:\D|$))", "", text) if not text.startswith(("(", "[")) else text
    text = re.sub(r"\s+", " ", text).strip().casefold()
    text = re.sub(r"\s*([-+*/^,()\[\]=<>])\s*", r"\1", text)
    value = _value(text)
    return str(value) if isinstance(value, Fraction) else text


def _wrap(part: str) -> str:
    return part if re.fullmatch(r"[\w.]+", part) else f"({part})"


def _parts(text: str) -> list[str]:
    """The components of a tuple or interval; empty when `text` is none."""
    if len(text) < 3 or text[0] not in "([" or text[-1] not in ")]" or "," not in text:
        return []
    parts, depth = [""], 0
    for sign in text[1:-1]:
        depth += (sign in "([{") - (sign in ")]}")
        if depth < 0:
            return []
        if sign == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += sign
    return parts


def _value(text: str) -> Fraction | float | None:
    """The number that the expression `text` stands for; exact when it has no roots. None when it is none."""
    if len(text) > 200:
        return None
    source = text.replace("^", "**").replace("{", "(").replace("}", ")")
    source = re.sub(r"(\d|\))(?=sqrt|pi|\()", r"\1*", source)
    try:
        return _evaluate(ast.parse(source, mode="eval").body)
    except (SyntaxError, ValueError, ZeroDivisionError, OverflowError, TypeError, RecursionError, MemoryError):
        return None


def _evaluate(node: ast.expr) -> Fraction | float:
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) and not isinstance(node.value, bool):
        return Fraction(str(node.value))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        value = _evaluate(node.operand)
        return -value if isinstance(node.op, ast.USub) else value
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        left, right = _evaluate(node.left), _evaluate(node.right)
        if isinstance(node.op, ast.Pow) and (abs(right) > 64 or abs(left) > 10**6):
            raise ValueError("too large")
        value = _OPERATIONS[type(node.op)](left, right)
        if isinstance(value, complex):
            raise ValueError("not real")
        return value
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "sqrt"
        and len(node.args) == 1
    ):
        return math.sqrt(_evaluate(node.args[0]))
    if isinstance(node, ast.Name) and node.id == "pi":
        return math.pi
    raise ValueError("not a number")
