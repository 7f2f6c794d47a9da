"""A task of your own: items with their right answers, and a function that scores an action.

A scorer returns one number, or several by name of which `score` is the main one; it may be async.
"""

from palestra.core import Action, Benchmark, Item


def exact(item: Item, action: Action) -> dict[str, float]:
    """1 when the answer is right to the character; how long it was, as a second metric."""
    return {"score": float(action.text.strip() == item.answer), "length": float(len(action.text))}


pairs = [(a, b) for a in range(2, 6) for b in range(2, 6)]
sums = Benchmark("small-sums", [Item(f"{a}+{b}", f"{a} + {b} =", str(a + b)) for a, b in pairs], scorer=exact)
