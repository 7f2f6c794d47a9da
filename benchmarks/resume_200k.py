"""A study of 200,000 episodes: recorded, 1 % of it lost, resumed, read into a DataFrame; with the peak memory of each.

python benchmarks/resume_200k.py
"""

from __future__ import annotations

import asyncio
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

EPISODES = 200_000
MISSING = 2_000
sys.path.insert(0, str(Path(__file__).parent))


def main() -> None:
    if len(sys.argv) > 1:
        {"record": record, "lose": lose, "resume": resume, "read": read}[sys.argv[1]](sys.argv[2])
        return
    print("| step | seconds | peak memory |\n| --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        for step in ("record", "lose", "resume", "read"):
            subprocess.run([sys.executable, __file__, step, f"{folder}/runs.db"], check=True)


def record(store: str) -> None:
    started = time.perf_counter()
    evaluate(store, None)
    seconds = time.perf_counter() - started
    show(f"record {EPISODES:,} episodes ({EPISODES / seconds:,.0f}/s)", seconds)


def lose(store: str) -> None:
    """Delete every hundredth episode, as if the process had died before they were run."""
    import random

    from palestra.store import Store, Writer

    opened = Store(store)
    writer = Writer(opened, opened.run("last"))
    writer.forget(1, random.Random(0).sample(range(EPISODES), MISSING))
    writer.close()


def resume(store: str) -> None:
    from one_call import Asker

    first: list[float] = []

    class Timed(Asker):
        async def act(self, observation):
            first.append(time.perf_counter())
            return await super().act(observation)

    started = time.perf_counter()
    evaluate(store, "last", Timed)
    show(f"resume: first of {len(first):,} missing episodes starts", first[0] - started)
    show("resume: all", time.perf_counter() - started)


def read(store: str) -> None:
    from palestra.runner import Result
    from palestra.store import Reading, Store

    started = time.perf_counter()
    frame = Result(Reading(Store(store)), 1, "main").frame()
    assert len(frame) == EPISODES
    assert frame["score"].eq(1.0).all()
    show(f"{len(frame):,} episodes into a pandas DataFrame of {frame.shape[1]} columns", time.perf_counter() - started)


def evaluate(store: str, run: str | None, kind: type | None = None) -> None:
    from one_call import Asker, task

    import palestra

    asker = (kind or Asker)(palestra.model("scripted"))
    asyncio.run(palestra.aevaluate(asker, task(EPISODES), store=store, resume=run, concurrency=64))


def show(what: str, seconds: float) -> None:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"| {what} | {seconds:.2f} | {peak:.0f} MB |", flush=True)


if __name__ == "__main__":
    main()
