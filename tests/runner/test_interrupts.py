"""Ctrl-C: the first lets running episodes finish, the second cancels them; what was finished is on disk, and resumes."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from palestra.store import Reading, Store

STUDY = """
    import asyncio, sys, time
    from palestra import evaluate
    from palestra.core import Action, Benchmark, Item
    from palestra.core.errors import PalestraError
    from palestra.runner import Silent

    SECONDS, COUNT = float(sys.argv[2]), 40

    class Sleeps:
        name = "sleeps"

        async def act(self, observation):
            print("start", flush=True)
            await asyncio.sleep(SECONDS)
            print("end", flush=True)
            return Action(text="x")

    def score(item, action):
        return 1.0

    task = Benchmark("b", [Item(str(n), "?") for n in range(COUNT)], scorer=score)
    if __name__ == "__main__":
        try:
            evaluate(Sleeps(), task, store=sys.argv[1], concurrency=4, **eval(sys.argv[3]))
        except PalestraError as error:
            print(f"{type(error).__name__}: {error}", flush=True)
            sys.exit(error.exit_code)
"""


class Child:
    """A study in another process."""

    def __init__(self, script: Path, store: str, *, seconds: float, options: str = "{}") -> None:
        command = [sys.executable, str(script), store, str(seconds), options]
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.process = subprocess.Popen(command, text=True, start_new_session=True, **pipes)
        self.lines: list[str] = []

    def wait_for(self, word: str, times: int) -> None:
        assert self.process.stdout is not None
        while sum(line.startswith(word) for line in self.lines) < times:
            line = self.process.stdout.readline()
            assert line, (self.lines, self.process.stderr.read() if self.process.stderr else "")
            self.lines.append(line)

    def interrupt(self) -> None:
        """As a terminal does: the process and all its workers get the signal."""
        os.killpg(self.process.pid, signal.SIGINT)

    def end(self) -> int:
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.lines.extend(self.process.stdout.readlines())
        err = self.process.stderr.read()
        assert "Traceback" not in err, err
        return self.process.wait(30)

    def count(self, word: str) -> int:
        return sum(line.startswith(word) for line in self.lines)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (tmp_path / "study.py").write_text(dedent(STUDY))
    return tmp_path / "study.py"


def test_the_first_lets_running_episodes_finish_and_a_resume_completes(script: Path, store: Store) -> None:
    child = Child(script, store.where, seconds=0.3)
    child.wait_for("start", 6)
    child.interrupt()
    assert child.end() == 130
    run = store.run()
    assert child.lines[-1] == f"Interrupted: stopped; what is finished is saved: palestra resume {run.id}\n"
    assert run.status == "interrupted"
    finished = len(Reading(store, run).done(1))
    assert child.count("start") == child.count("end") == finished < 40

    again = Child(script, store.where, seconds=0.0, options=f"dict(resume={run.id!r})")
    assert again.end() == 0
    assert again.count("start") == 40 - finished
    assert Reading(store, run).done(1) == list(range(40))
    assert store.run(run.id).status == "done"


def test_the_second_cancels_them(script: Path, store: Store) -> None:
    child = Child(script, store.where, seconds=60)
    child.wait_for("start", 4)
    child.interrupt()
    time.sleep(0.3)
    assert child.process.poll() is None, "the first one waits"
    child.interrupt()
    started = time.monotonic()
    assert child.end() == 130
    assert time.monotonic() - started < 10
    assert (store.run().status, Reading(store).done(1), child.count("end")) == ("interrupted", [], 0)


def test_worker_processes_finish_their_episodes_too(script: Path, store: Store) -> None:
    child = Child(script, store.where, seconds=0.5, options="dict(processes=2)")
    child.wait_for("start", 2)
    child.interrupt()
    assert child.end() == 130
    finished = len(Reading(store).done(1))
    assert 1 <= child.count("end") == child.count("start") == finished <= 4
    assert store.run().status == "interrupted"


SIDE_BY_SIDE = """
    import asyncio, os, signal, sys
    from palestra.core import Action, Benchmark, Item
    from palestra.core.errors import Interrupted
    from palestra.runner import Run
    from palestra.store import Store

    class Sleeps:
        name = "sleeps"

        async def act(self, observation):
            await asyncio.sleep(0.1)
            return Action(text="x")

    task = Benchmark("b", [Item(str(n), "?") for n in range(500)], scorer=lambda item, action: 1.0)

    async def main():
        store = Store(sys.argv[1])
        row = store.begin("t", scale="smoke", seed=0, seeds=1, models={}, config={}, options={}, version="0")
        run = Run(store, row, models=None)
        asyncio.get_running_loop().call_later(0.3, os.kill, os.getpid(), signal.SIGINT)
        both = await asyncio.gather(*(run.evaluate(Sleeps(), task, name=n) for n in "xy"), return_exceptions=True)
        print([type(one).__name__ for one in both])
        run.close("interrupted")
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(50):  # the system may hand the signal to another thread, which wakes no sleeping loop
            await asyncio.sleep(0.1)

    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background is started with it ignored
    before = signal.getsignal(signal.SIGINT)
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        print("interrupted outside", signal.getsignal(signal.SIGINT) is before)
"""


def test_all_studies_of_a_run_stop_and_ctrl_c_is_given_back(store: Store, tmp_path: Any) -> None:
    (tmp_path / "side.py").write_text(dedent(SIDE_BY_SIDE))
    command = [sys.executable, str(tmp_path / "side.py"), store.where]
    started = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines() == ["['Interrupted', 'Interrupted']", "interrupted outside True"], done.stderr
    assert time.monotonic() - started < 10
