"""Exact equilibria of many games at once against a Python loop over pygambit's logit solver.

Both sides solve the *same* logit problem on random 5x5 games with payoffs uniform on [-1, 1]; the RQE batches are timed
beside it. pygambit is timed on a subset and counted per game. One process, one thread of Python; run with

    python benchmarks/rqe_vs_pygambit.py [--games 10000] [--subset 200] [--precision 1.0]
"""

import argparse
import time

import numpy as np

from palestra.learn.equilibria import rqe_batch
from palestra.learn.equilibria.checks import speed
from palestra.learn.equilibria.study import PAIRS


def measure(*, games: int = 10_000, subset: int = 200, precision: float = 1.0, seed: int = 0) -> dict[str, float]:
    """Microseconds per game of each side, their ratio, the largest residual and the largest disagreement."""
    logit = speed(np.random.default_rng(seed), games=games, peer_games=subset, precision=precision)
    result = {
        "logit_batch_us": 1e6 * logit["ours"],
        "pygambit_us": 1e6 * logit["peer"],
        "ratio": logit["ratio"],
        "logit_residual": logit["residual"],
        "disagreement": logit["disagreement"],
    }
    payoffs = np.random.default_rng(seed).uniform(-1, 1, (2, games, 5, 5))  # the same games
    for penalty, regulariser in PAIRS:
        began = time.perf_counter()
        batch = rqe_batch(payoffs, 1.0, 1.0 / precision, penalty=penalty, regulariser=regulariser)
        spent = (time.perf_counter() - began) / games
        result[f"rqe_{penalty}_us"] = 1e6 * spent
        result[f"rqe_{penalty}_ratio"] = logit["peer"] / spent
        result[f"rqe_{penalty}_residual"] = float(batch.residual.max())
    return result


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", type=int, default=10_000)
    parser.add_argument("--subset", type=int, default=200, help="games given to pygambit")
    parser.add_argument("--precision", type=float, default=1.0, help="lambda, 1/payoff")
    arguments = parser.parse_args()
    result = measure(games=arguments.games, subset=arguments.subset, precision=arguments.precision)
    print(f"{arguments.games} games 5x5, lambda {arguments.precision:g}, pygambit on {arguments.subset} of them")
    for name, value in result.items():
        print(f"{name:24} {value:.4g}")


if __name__ == "__main__":
    main()
