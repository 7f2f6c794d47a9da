"""Faults of the whole process and of its disk: what was acknowledged is there, nothing counts twice, a resume completes."""

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from palestra.store import Reading, Store

EPISODES = 3000
KILLS = 10
STUDY = f"""
    import os, sys
    from palestra import evaluate
    from palestra.core import Action, Benchmark, Item
    from palestra.core.errors import PalestraError
    from palestra.models.model import Model
    from palestra.models.scripted import Scripted
    from palestra.runner import Silent

    EPISODES = {EPISODES}

    class Asks:
        name = "asks"
        model = Model(Scripted(lambda request: f"{{request.sampling.seed % 10}} " * 20, latency=0.004), name="scripted")

        async def act(self, observation):
            first = await self.model.complete(observation.text)
            return Action(text=(await self.model.complete([*first_of(observation), first.message])).text)

    def first_of(observation):
        from palestra.core import Message
        return [Message("user", observation.text)]

    class Notes(Silent):
        '''Writes each acknowledged index down, on disk before the next.'''

        def __init__(self, path):
            self.file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            self.new = []

        def episode(self, name, episode):
            os.write(self.file, f"{{episode.index}}\\n".encode())

    task = Benchmark("b", [Item(str(n), f"question {{n}}") for n in range(EPISODES)], scorer=lambda i, a: len(a.text) / 40)

    if __name__ == "__main__":
        where, notes, resume, concurrency = sys.argv[1:5]
        try:
            evaluate(Asks(), task, store=where, display=Notes(notes), concurrency=int(concurrency), resume=resume or None)
        except PalestraError as error:
            print(f"{{type(error).__name__}}: {{error}}", flush=True)
            sys.exit(error.exit_code)
"""


@pytest.fixture
def study(tmp_path: Path) -> Path:
    (tmp_path / "study.py").write_text(dedent(STUDY))
    return tmp_path / "study.py"


def _start(study: Path, where: str, notes: Path, resume: str = "", concurrency: int = 16) -> subprocess.Popen[str]:
    command = [sys.executable, str(study), where, str(notes), resume, str(concurrency)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _acknowledged(notes: Path) -> list[int]:
    return [int(line) for line in notes.read_text().splitlines()] if notes.exists() else []


def test_ten_kills_at_random_moments_lose_nothing_and_repeat_nothing(study: Path, tmp_path: Path) -> None:
    undisturbed = _start(study, str(tmp_path / "whole.db"), tmp_path / "whole.txt", concurrency=64)
    where, notes = str(tmp_path / "killed.db"), tmp_path / "killed.txt"
    dice = random.Random(20261130)
    resume = ""
    for kill in range(KILLS):
        before = len(_acknowledged(notes))
        child = _start(study, where, notes, resume)
        deadline = time.monotonic() + 30
        if kill not in (3, 6):  # else at any moment of the start
            while len(_acknowledged(notes)) <= before and time.monotonic() < deadline:
                time.sleep(0.01)
        time.sleep(dice.uniform(0.0, 0.25))
        assert child.poll() is None, f"the study was over before kill {kill}: {child.communicate()}"
        child.send_signal(signal.SIGKILL)
        child.wait()
        store = Store(where)
        reading = Reading(store, "last")
        resume = reading.run.id
        noted, done = _acknowledged(notes), reading.done(1)
        assert set(noted) <= set(done), f"acknowledged and lost in kill {kill}: {sorted(set(noted) - set(done))}"
        assert len(set(noted)) == len(noted), f"run twice: {sorted(n for n in noted if noted.count(n) > 1)}"
        assert not reading.run.alive
        store.close()
    assert 0 < len(done) < EPISODES
    child = _start(study, where, notes, resume, concurrency=64)
    out, err = child.communicate(timeout=60)
    assert child.returncode == 0, (out, err)
    assert undisturbed.wait(60) == 0

    store, whole = Store(where), Reading(Store(tmp_path / "whole.db"))
    reading = Reading(store, resume)
    assert len(store.runs()) == 1
    assert reading.run.status == "done"
    assert reading.done(1) == list(range(EPISODES))
    assert len(reading.rows("calls")) == 2 * EPISODES
    assert reading.fingerprint() == whole.fingerprint()
    with store.read() as connection:
        assert connection.exec_driver_sql("PRAGMA integrity_check").scalar_one() == "ok"


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A disk of 2 MB. Mounting one needs root."""
    folder = Path(tempfile.mkdtemp(prefix="small"))
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)], capture_output=True)
    if mounted.returncode:
        shutil.rmtree(folder)
        pytest.skip("cannot mount a small disk here; test_writer.py fills a small database instead")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
        folder.rmdir()


def test_a_full_disk_is_one_clear_line_and_a_resume_completes_once_there_is_space(
    study: Path, small_disk: Path, tmp_path: Path
) -> None:
    where, notes = str(small_disk / "store.db"), tmp_path / "notes.txt"
    (small_disk / "ballast").write_bytes(bytes(1_000_000))
    child = _start(study, where, notes, concurrency=64)
    out, err = child.communicate(timeout=60)
    assert "Traceback" not in err, err
    assert child.returncode == 1
    assert out == f"StoreError: the disk of the store {where} is full: free some space, then `palestra resume`\n"
    acknowledged = _acknowledged(notes)
    assert 0 < len(acknowledged) < EPISODES
    (small_disk / "ballast").unlink()
    subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
    store = Store(where)
    reading = Reading(store, "last")
    assert set(acknowledged) <= set(reading.done(1))
    assert {episode.index for episode in reading.episodes()} == set(reading.done(1))
    store.close()
    child = _start(study, where, notes, reading.run.id, concurrency=64)
    out, err = child.communicate(timeout=60)
    assert child.returncode == 0, (out, err)
    assert reading.done(1) == list(range(EPISODES))
    assert sorted(_acknowledged(notes)) == list(range(EPISODES))
    store.close()


def test_a_store_locked_by_another_program_is_one_clear_line(study: Path, tmp_path: Path, store: Store) -> None:
    text = study.read_text().replace("if __name__", "import palestra.store.store as s; s.BUSY = 0.3\n\nif __name__", 1)
    study.write_text(text)
    with store.engine.connect() as other:
        other.exec_driver_sql("BEGIN IMMEDIATE")
        child = _start(study, store.where, tmp_path / "notes.txt")
        out, err = child.communicate(timeout=30)
    assert (out, child.returncode) == (f"StoreError: the store {store.where} is locked by another program\n", 1), err
    assert "Traceback" not in err


def test_a_damaged_store_is_one_clear_line(study: Path, tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.write_bytes(b"SQLite format 3\0" + os.urandom(20_000))
    child = _start(study, str(path), tmp_path / "notes.txt")
    out, err = child.communicate(timeout=30)
    assert child.returncode == 1
    assert out.startswith("StoreError: ")
    assert out.count("\n") == 1
    assert "Traceback" not in err


NEVER = """
    import sys
    from palestra import evaluate
    from palestra.core import Action, EnvironmentTask, Observation

    class Endless:
        agents = ("agent",)

        async def reset(self, seed):
            return Observation(text="go")

        async def step(self, actions):
            return Observation(text="go on")

    class Goes:
        name = "goes"

        async def act(self, observation):
            return Action(text="on")

    result = evaluate(Goes(), [EnvironmentTask(f"e{n}", Endless) for n in range(3)], store=sys.argv[1], max_steps=100)
    print([(row["reason"], row["steps"]) for row in result.rows()])
"""


def test_an_environment_that_never_ends_is_cut_by_its_turns(store: Store, tmp_path: Path) -> None:
    (tmp_path / "never.py").write_text(dedent(NEVER))
    command: list[Any] = [sys.executable, tmp_path / "never.py", store.where]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert done.stdout == f"{[('max_steps', 100)] * 3}\n", done.stderr
