"""Generated ordering puzzles with exact answers: comparisons of people, given in any order, that fix one ranking."""

from __future__ import annotations

from itertools import pairwise
from random import Random

from palestra.bench.scorers import same_answer
from palestra.core.errors import BadInput
from palestra.core.seeds import derive
from palestra.core.tasks import Benchmark, Item

_NAMES = ("Ann", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gina", "Hugo", "Iris", "Jack", "Kim", "Leo")
_SCALES = (
    ("taller", "shorter", "tallest", "shortest"),
    ("older", "younger", "oldest", "youngest"),
    ("faster", "slower", "fastest", "slowest"),
)


def logic(n: int = 60, *, seed: int = 0, people: int = 3) -> Benchmark:
    """`n` different puzzles on `people` people, 3 to 8; the same seed gives the same puzzles.

    The answer is a name, to be put into a box (`info["kind"]` is boxed).

    >>> logic(1).items[0].question
    'Iris is shorter than Jack. Iris is taller than Eva. Who is the shortest? The choice is among Eva, Iris, Jack.'
    """
    if n < 1:
        raise BadInput("n", n, "at least 1")
    if not 3 <= people <= 8:
        raise BadInput("people", people, "a number from 3 to 8")
    items: dict[str, Item] = {}
    draw = 0
    while len(items) < n:
        rng = Random(derive(seed, "logic", people, draw))
        draw += 1
        question, answer = _puzzle(rng, people)
        info = {"kind": "boxed", "level": people}
        items.setdefault(question, Item(f"{seed}-{people}-{len(items)}", question, answer, info=info))
    return Benchmark(f"logic-{people}", list(items.values()), scorer=same_answer)


def _puzzle(rng: Random, people: int) -> tuple[str, str]:
    ranked = rng.sample(_NAMES, people)  # from most to least
    more, less, most, least = rng.choice(_SCALES)
    facts = [
        f"{high} is {more} than {low}." if rng.random() < 0.5 else f"{low} is {less} than {high}."
        for high, low in pairwise(ranked)
    ]
    rng.shuffle(facts)
    top = rng.random() < 0.5
    asked = f"Who is the {most if top else least}? The choice is among {', '.join(sorted(ranked))}."
    return f"{' '.join(facts)} {asked}", ranked[0 if top else -1]
