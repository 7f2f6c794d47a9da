"""Generated arithmetic word problems with exact answers, in the form of MATH: the answer goes into a box.

Level 1 is one step on one-digit numbers (all that a 135M model can be fairly asked), level 2 two such steps, level 3
two steps on two-digit numbers, level 4 three of those.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from palestra.agents.methods.method import Example
from palestra.bench.scorers import same_answer
from palestra.core.errors import BadInput
from palestra.core.seeds import derive
from palestra.core.tasks import Benchmark, Item

LEVELS = (1, 2, 3, 4)
_NAMES = ("Ann", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gina", "Hugo", "Iris", "Jack", "Kim", "Leo", "Mia", "Noah")
_THINGS = ("apples", "books", "cards", "coins", "cups", "eggs", "keys", "pens", "pears", "shells", "stamps", "toys")
_PACKS = ("boxes", "bags", "jars", "rows")
_STEPS = {1: 1, 2: 2, 3: 2, 4: 3}
_HIGH = {1: 9, 2: 9, 3: 99, 4: 99}  # largest number in a question


def arithmetic(n: int = 60, *, seed: int = 0, level: int = 1) -> Benchmark:
    """`n` different word problems; the same seed gives the same problems.

    Each item's `info` has `kind` (number), `level` and `type` (the operations, such as `add` or `multiply+subtract`).

    >>> task = arithmetic(2)
    >>> task.items[0].question, task.items[0].answer
    ('Ben has 3 apples. Ben gets 9 more apples. How many apples does Ben have now?', '12')
    """
    if n < 1:
        raise BadInput("n", n, "at least 1")
    if level not in LEVELS:
        raise BadInput("level", level, choices=LEVELS)
    items: dict[str, Item] = {}
    draw = 0
    while len(items) < n:
        rng = Random(derive(seed, "arithmetic", level, draw))
        draw += 1
        question, _, answer, kinds = _problem(rng, steps=_STEPS[level], high=_HIGH[level])
        info = {"kind": "number", "level": level, "type": "+".join(kinds)}
        items.setdefault(question, Item(f"{seed}-{level}-{len(items)}", question, str(answer), info=info))
    return Benchmark(f"arithmetic-{level}", list(items.values()), scorer=same_answer)


def worked_examples(method: str, *, level: int = 1, n: int = 3) -> tuple[Example, ...]:
    """Worked examples of the benchmark for a text method, from a seed that `arithmetic` does not share.

    Raises:
        BadInput: there are none for `method`.
    """
    if method not in _WRITERS:
        raise BadInput("method", method, choices=_WRITERS)
    found: list[Example] = []
    draw = 0
    while len(found) < n:
        rng = Random(derive(0, "worked examples", level, draw))
        draw += 1
        question, expression, answer, kinds = _problem(rng, steps=_STEPS[level], high=_HIGH[level])
        if level == 1 and kinds[0] != _ORDER[len(found) % len(_ORDER)]:
            continue  # one example of each operation
        found.append(_WRITERS[method](question, expression, str(answer), kinds))
    return tuple(found)


_ORDER = ("add", "multiply", "subtract")
_RULES = {
    "add": "When more are added, the total is the sum.",
    "subtract": "When some are taken away, what is left is the difference.",
    "multiply": "With equal groups, the total is groups times size.",
}


def _problem(rng: Random, *, steps: int, high: int) -> tuple[str, str, int, list[str]]:
    """A story, the expression behind it, its value, and the kinds of its steps."""
    name, thing = rng.choice(_NAMES), rng.choice(_THINGS)
    low = 2 if high < 10 else 11
    kinds: list[str] = []
    if rng.random() < 1 / 3:
        count, size = rng.randint(2, 9), rng.randint(2, high if high < 10 else 30)
        story = [f"{name} has {count} {rng.choice(_PACKS)} with {size} {thing} each."]
        expression, value = f"{count} * {size}", count * size
        kinds.append("multiply")
    else:
        value = rng.randint(low, high)
        story, expression = [f"{name} has {value} {thing}."], str(value)
    while len(kinds) < steps:
        if value > low and rng.random() < 0.5:
            loss = rng.randint(1, min(value - 1, high))
            story.append(f"{name} {rng.choice(('gives away', 'loses', 'sells'))} {loss} {thing}.")
            expression, value = f"{expression} - {loss}", value - loss
            kinds.append("subtract")
        else:
            gain = rng.randint(low, high)
            story.append(f"{name} {rng.choice(('buys', 'finds', 'gets'))} {gain} more {thing}.")
            expression, value = f"{expression} + {gain}", value + gain
            kinds.append("add")
    story.append(f"How many {thing} does {name} have now?")
    return " ".join(story), expression, value, kinds


def _steps(expression: str, answer: str) -> str:
    return f"{expression.replace('*', 'x')} = {answer}, so \\boxed{{{answer}}}"


def _direct(question: str, expression: str, answer: str, kinds: Sequence[str]) -> Example:
    return Example(question, f"\\boxed{{{answer}}}")


def _chain(question: str, expression: str, answer: str, kinds: Sequence[str]) -> Example:
    return Example(question, _steps(expression, answer))


def _principle(question: str, expression: str, answer: str, kinds: Sequence[str]) -> Example:
    return Example(question, _steps(expression, answer), process=" ".join(_RULES[kind] for kind in kinds))


def _program(question: str, expression: str, answer: str, kinds: Sequence[str]) -> Example:
    return Example(question, f"\\boxed{{{answer}}}", process=f"print({expression})", output=answer)


_WRITERS: dict[str, Callable[[str, str, str, Sequence[str]], Example]] = {
    "io": _direct,
    "cot": _chain,
    "step_back": _principle,
    "pot": _program,
}
