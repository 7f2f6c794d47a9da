"""Tokens are drawn from the distribution that the settings describe."""

import torch

from palestra.core.records import GREEDY, Sampling
from palestra.models.embedded.sampling import draw

LOGITS = torch.tensor([0.5, 0.2, 0.2, 0.1]).log()


def shares(sampling: Sampling, draws: int = 4000) -> list[float]:
    generator = torch.Generator().manual_seed(0)
    counts = [0] * 4
    for _ in range(draws):
        counts[draw(LOGITS, sampling, generator)] += 1
    return [count / draws for count in counts]


def close(found: list[float], expected: list[float]) -> bool:
    return all(abs(one - two) < 0.03 for one, two in zip(found, expected, strict=True))


def test_greedy_takes_the_likeliest():
    assert draw(LOGITS, GREEDY, None) == 0


def test_temperature_one_draws_the_models_own_distribution():
    assert close(shares(Sampling(temperature=1.0)), [0.5, 0.2, 0.2, 0.1])


def test_temperature_sharpens():
    squares = [0.25, 0.04, 0.04, 0.01]
    assert close(shares(Sampling(temperature=0.5)), [one / sum(squares) for one in squares])


def test_top_k_top_p_and_min_p_cut_the_tail():
    assert close(shares(Sampling(temperature=1.0, top_k=1)), [1, 0, 0, 0])
    assert close(shares(Sampling(temperature=1.0, top_p=0.6)), [0.5 / 0.7, 0.2 / 0.7, 0, 0]) or close(
        shares(Sampling(temperature=1.0, top_p=0.6)), [0.5 / 0.7, 0, 0.2 / 0.7, 0]
    )
    assert close(shares(Sampling(temperature=1.0, min_p=0.3)), [0.5 / 0.9, 0.2 / 0.9, 0.2 / 0.9, 0])


def test_the_same_seed_draws_the_same():
    first = [draw(LOGITS, Sampling(temperature=1.0), torch.Generator().manual_seed(seed)) for seed in range(20)]
    assert first == [draw(LOGITS, Sampling(temperature=1.0), torch.Generator().manual_seed(seed)) for seed in range(20)]
