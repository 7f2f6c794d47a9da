"""The majority judge: the most frequent answer wins, None does not vote, ties are drawn from a seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from palestra.core.records import Verdict
from palestra.core.seeds import derive
from palestra.judges.equivalence import normal_form


class Majority:
    """Picks the answer most candidates gave.

    Args:
        key: answers with equal keys are one answer; the default is `normal_form`, so that 0.5 and 1/2 agree.
        seed: of the draws between tied answers; the same question and answers give the same draw.

    >>> import asyncio
    >>> asyncio.run(Majority().judge("2 + 2 = ?", ["4", "5", "4.0", None])).choice
    0
    """

    name = "majority"
    kinds = ("option", "number", "boxed")  # open answers hardly ever agree word for word

    def __init__(self, *, key: Callable[[str], str] = normal_form, seed: int = 0) -> None:
        self.key, self.seed = key, seed

    def fresh(self, seed: int) -> Majority:
        """The same judge with another seed."""
        return Majority(key=self.key, seed=seed)

    async def judge(self, question: str, candidates: Sequence[str | None]) -> Verdict:
        """The index of the first candidate that gave the winning answer; None when nobody answered."""
        keys = [None if one is None else self.key(one) for one in candidates]
        tied, votes = winners(keys)
        scores = {"votes": float(votes), "ties": float(len(tied)), "valid": float(sum(key is not None for key in keys))}
        if not votes:
            return Verdict(scores, "no candidate gave an answer")
        chosen = tied[0] if len(tied) == 1 else Random(derive(self.seed, question, *keys)).choice(tied)
        how = f"{votes} of {len(keys)} votes" + (f", drawn among {len(tied)} answers" if len(tied) > 1 else "")
        return Verdict(scores, how, keys.index(chosen))


def majority(*, seed: int = 0) -> Majority:
    """The majority judge with default keys."""
    return Majority(seed=seed)


def winners(answers: Sequence[str | None]) -> tuple[list[str | None], int]:
    """The most frequent answers in order of first appearance, and how many votes each has; None does not vote.

    >>> winners(["A", "B", "A"]), winners([None, None])
    ((['A'], 2), ([None], 0))
    """
    counts: dict[str | None, int] = {}
    for answer in answers:
        if answer is not None:
            counts[answer] = counts.get(answer, 0) + 1
    if not counts:
        return [None], 0
    most = max(counts.values())
    return [answer for answer, count in counts.items() if count == most], most
