"""Recorded one-call episodes beside inspect-ai with its mock model, whole commands, everything recorded, one run each.

python benchmarks/throughput_vs_inspect.py            # about 5 minutes, nearly all of it inspect-ai's
python benchmarks/throughput_vs_inspect.py --quick    # the smaller half
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
BIN = Path(sys.executable).parent
LEVELS = (16, 64, 256, 1024, 4096)
STEADY = 40_000  # episodes of one steady-state measurement
ROUNDS = 3  # of steady-state measurements, interleaved; the best of each level counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    print("| measurement | inspect-ai | palestra | ratio |\n| --- | --- | --- | --- |")
    compare("5,000 samples, default concurrency, whole command", 5000, None)
    for concurrency in (16, 256) if quick else (16, 256, 1024):
        compare(f"3,000 samples, concurrency {concurrency:,}, whole command", 3000, concurrency)
    steady()


def compare(title: str, samples: int, concurrency: int | None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        peer = timed(inspect_command(folder, samples, concurrency))
        ours = timed(palestra_command(folder, samples, concurrency))
    print(f"| {title} | {peer:.2f} s | {ours:.2f} s | {peer / ours:.1f}x |", flush=True)


def inspect_command(folder: str, samples: int, concurrency: int | None) -> list[str]:
    command = [
        str(BIN / "inspect"), "eval", "peers/inspect_one_call.py", "--model", "mockllm/model",
        "-T", f"n={samples}", "--log-dir", f"{folder}/inspect", "--display", "none",
    ]  # fmt: skip
    if concurrency is not None:
        command += ["--max-samples", str(concurrency), "--max-connections", str(concurrency)]
    return command


def palestra_command(folder: str, samples: int, concurrency: int | None) -> list[str]:
    source = HERE / "one_call.py"
    command = [
        str(BIN / "palestra"), "eval", f"{source}:agent", f"{source}:task", "--model", "scripted",
        "--set", f"n={samples}", "--store", f"{folder}/palestra.db",
    ]  # fmt: skip
    if concurrency is not None:
        command += ["--concurrency", str(concurrency)]
    return command


def timed(command: list[str]) -> float:
    started = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, cwd=HERE)
    seconds = time.perf_counter() - started
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}\n{done.stderr}")
    return seconds


def steady() -> None:
    """Episodes per second once running, at each concurrency."""
    best = dict.fromkeys(LEVELS, 0.0)
    rate(LEVELS[0], STEADY // 4)  # warm up
    for _ in range(ROUNDS):
        for concurrency in LEVELS:
            best[concurrency] = max(best[concurrency], rate(concurrency, STEADY))
    print()
    print("| concurrency | recorded episodes per second, steady state |\n| --- | --- |")
    for concurrency, value in best.items():
        print(f"| {concurrency:,} | {value:,.0f} |")
    spread = 1 - min(best.values()) / max(best.values())
    print(f"\nworst {min(best.values()):,.0f}/s, best {max(best.values()):,.0f}/s: within {spread:.1%}")


def rate(concurrency: int, episodes: int) -> float:
    sys.path.insert(0, str(HERE))
    from one_call import Asker, task

    import palestra

    benchmark = task(episodes)
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        result = asyncio.run(
            palestra.aevaluate(
                Asker(palestra.model("scripted")), benchmark, store=f"{folder}/runs.db", concurrency=concurrency
            )
        )
        seconds = time.perf_counter() - started
        assert result.of("asker").score == 1.0
    return episodes / seconds


if __name__ == "__main__":
    main()
