"""Confidence intervals for the numbers that tables and claims show."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from palestra.core.errors import BadInput

if TYPE_CHECKING:
    import numpy as np

Z95 = 1.959963984540054  # 97.5 % quantile of the standard normal


def wilson(successes: float, trials: int, *, z: float = Z95) -> tuple[float, float]:
    """Wilson score interval of a proportion (Wilson 1927); (0, 1) when there are no trials.

    >>> [round(bound, 3) for bound in wilson(48, 60)]
    [0.682, 0.882]
    """
    if trials < 0:
        raise BadInput("trials", trials, "at least 0")
    if not 0 <= successes <= trials:
        raise BadInput("successes", successes, f"a number between 0 and {trials}")
    if trials == 0:
        return 0.0, 1.0
    share = successes / trials
    centre = (share + z * z / (2 * trials)) / (1 + z * z / trials)
    half = z * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials)) / (1 + z * z / trials)
    return max(0.0, centre - half), min(1.0, centre + half)


def bootstrap(
    values: Sequence[float], *, rng: np.random.Generator, draws: int = 2000, level: float = 0.95
) -> tuple[float, float]:
    """Percentile bootstrap interval of the mean of `values`, shape (n,)."""
    import numpy as np

    data = np.asarray(values, dtype=float)
    if data.size == 0:
        raise BadInput("values", values, "at least one number")
    means = data[rng.integers(0, data.size, size=(draws, data.size))].mean(axis=1)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def mean_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Mean and 95 % interval: Wilson when every value is 0 or 1, else mean ± z·standard error; NaN when empty."""
    count = len(values)
    if count == 0:
        return math.nan, math.nan, math.nan
    mean = math.fsum(values) / count
    if all(value in (0, 1) for value in values):
        return mean, *wilson(math.fsum(values), count)
    if count == 1:
        return mean, math.nan, math.nan
    half = Z95 * math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (count - 1) / count)
    return mean, mean - half, mean + half
