"""Drawing the next token from logits, one row of a batch at a time, each with a generator of its own.

The order is temperature, top_k, top_p, min_p. One uniform number a token is drawn from the row's own generator, so what
a row draws does not depend on the rows beside it.
"""

from __future__ import annotations

from typing import Any

from palestra.core.records import Sampling


def draw(logits: Any, sampling: Sampling, generator: Any) -> int:
    """A token id.

    Args:
        logits: float32 tensor, shape (vocabulary,).
        generator: a torch Generator; not used at temperature 0, which takes the likeliest token.
    """
    if sampling.temperature <= 0:
        return int(logits.argmax())
    import torch

    probabilities, order = torch.sort(torch.softmax(logits / sampling.temperature, dim=-1), descending=True)
    if sampling.top_k > 0:
        probabilities = probabilities[: sampling.top_k]
    if sampling.top_p < 1:
        # Keep tokens until their mass reaches top_p: the one that crosses it included.
        before = probabilities.cumsum(0) - probabilities
        probabilities = probabilities[before < sampling.top_p * probabilities.sum()]
    if sampling.min_p > 0:
        probabilities = probabilities[probabilities >= sampling.min_p * probabilities[0]]
    mass = probabilities.double().cumsum(0)
    point = torch.rand((), generator=generator, dtype=torch.float64) * mass[-1]
    return int(order[min(int((mass <= point).sum()), len(mass) - 1)])
