"""Debates read back from a study's records: who was right, round by round, and how two teams compare item by item."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

from palestra.analysis.debate import Answers, Flips, diversity, flips, round_accuracy
from palestra.core.errors import BadInput
from palestra.core.intervals import bootstrap, mean_interval, wilson
from palestra.core.records import Episode
from palestra.judges.equivalence import equivalent

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Share(Struct, frozen=True):
    """A proportion with its 95 % Wilson interval."""

    value: float
    low: float
    high: float
    trials: int

    @classmethod
    def of(cls, right: Sequence[bool]) -> Share:
        """Of the items answered rightly."""
        return cls(sum(right) / len(right), *wilson(sum(right), len(right)), len(right))

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


class Debates:
    """One team's debates on the items of a benchmark.

    Args:
        episodes: finished episodes of a `teams.Debate`, one a task; others are left out.
        gold: the right answer by task id.

    Raises:
        BadInput: no episode of a debate is among them.
    """

    def __init__(self, episodes: Sequence[Episode], gold: Mapping[str, str]) -> None:
        kept = [one for one in episodes if one.status == "done" and one.steps and "decisions" in one.steps[0].info]
        if not kept:
            failures = [one.error.splitlines()[-1] for one in episodes if one.error]
            why = f" (the first failed: {failures[0]})" if failures else ""
            raise BadInput("episodes", len(episodes), f"at least one finished debate{why}")
        kept.sort(key=lambda one: (one.task, one.seed))
        self.keys = [(one.task, one.seed) for one in kept]
        self.gold = [gold[one.task] for one in kept]
        self.infos: list[Mapping[str, Any]] = [one.steps[0].info for one in kept]
        self.agents: list[str] = list(self.infos[0]["agents"])
        self.answers: Answers = [info["answers"] for info in self.infos]
        self.decisions: list[list[str | None]] = [info["decisions"] for info in self.infos]

    def decided(self, number: int = -1) -> list[bool]:
        """Whether the decision of round `number` (0 is the first, -1 the last) is right, by item."""
        return [
            equivalent(row[number if number < 0 else min(number, len(row) - 1)], right)
            for row, right in zip(self.decisions, self.gold, strict=True)
        ]

    def alone(self, agent: str) -> list[bool]:
        """Whether the debater's own first answer, given before it read anybody, is right, by item."""
        place = self._place(agent)
        return [equivalent(row[0][place], right) for row, right in zip(self.answers, self.gold, strict=True)]

    def executed(self, agent: str) -> list[bool]:
        """Whether what the debater's first program printed is right, by item."""
        place = self._place(agent)
        outputs = [info["outputs"][0][place] for info in self.infos]
        return [equivalent(output, right) for output, right in zip(outputs, self.gold, strict=True)]

    def accuracy(self) -> list[float]:
        """Share of right decisions by round."""
        return round_accuracy(self.decisions, self.gold)

    def diversity(self) -> list[float]:
        """Pairwise disagreement by round."""
        return diversity(self.answers)

    def flips(self) -> list[Flips]:
        """Flips from round to round."""
        return flips(self.answers, self.gold)

    def calls(self) -> float:
        """Model calls of a debate, mean, judge not counted."""
        return sum(info["calls"] for info in self.infos) / len(self.infos)

    def paired(self, other: Debates) -> tuple[list[bool], list[bool]]:
        """Last decisions of both on the items that both finished, in the same order."""
        mine, theirs = (dict(zip(one.keys, one.decided(), strict=True)) for one in (self, other))
        shared = [key for key in self.keys if key in theirs]
        return [mine[key] for key in shared], [theirs[key] for key in shared]

    def _place(self, agent: str) -> int:
        if agent not in self.agents:
            raise BadInput("agent", agent, choices=self.agents)
        return self.agents.index(agent)


def difference(
    first: Sequence[float], second: Sequence[float], *, rng: np.random.Generator
) -> tuple[float, tuple[float, float]]:
    """Mean of first - second on the same items, with its 95 % interval: bootstrap over items, normal above 2000 items.

    >>> difference([1, 1, 1], [0, 0, 0], rng=np.random.default_rng(0))
    (1.0, (1.0, 1.0))
    """
    gaps = np.asarray(first, dtype=float) - np.asarray(second, dtype=float)
    if gaps.size > 2000:
        mean, low, high = mean_interval(gaps.tolist())
        return mean, (low, high)
    return float(gaps.mean()), bootstrap(gaps.tolist(), rng=rng)


def verdict(interval: tuple[float, float]) -> bool | None:
    """Whether a difference is above 0: True or False when its interval says so, else None (not shown)."""
    low, high = interval
    return True if low > 0 else False if high < 0 else None


def rounds_figure(curves: Mapping[str, Sequence[float]], *, title: str) -> Figure:
    """Accuracy by round, one line a team."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 3.2), layout="constrained")
    axes = figure.subplots()
    for name, values in curves.items():
        axes.plot(range(1, len(values) + 1), values, marker="o", label=name, linewidth=2 if "dmad" in name else 1.2)
    longest = max(map(len, curves.values()))
    axes.set(xlabel="round", ylabel="accuracy", title=title, xticks=range(1, longest + 1))
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    return figure
