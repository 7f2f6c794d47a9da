"""The examples in `examples/` run, and give what they promise."""

import asyncio
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import palestra as pl
from palestra.core import rollout

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(autouse=True)
def _folder(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.setenv("PALESTRA_STORE", str(tmp_path / "store.db"))


def test_own_model_answers():
    model = importlib.import_module("own_model").model()
    assert asyncio.run(model.complete("17 + 25 =")).text == "42"


def test_own_agent_finds_every_number_within_seven_guesses():
    agent = importlib.import_module("own_agent").Halver()
    task = importlib.import_module("own_environment").task
    episodes = [asyncio.run(rollout(agent, task.env(), seed=seed)) for seed in range(50)]
    assert all(episode.score == 1.0 and episode.metrics["guesses"] <= 7 for episode in episodes)


def test_own_task_is_scored_by_its_scorer():
    asker = importlib.import_module("own_agent").Asker(importlib.import_module("own_model").model())
    result = pl.evaluate(asker, importlib.import_module("own_task").sums)
    assert result.of("asker").score == 1.0
    assert set(result.frame()["length"]) == {1.0, 2.0}


def test_the_four_together_run_as_a_script(tmp_path):
    done = subprocess.run(
        [sys.executable, EXAMPLES / "study.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "asker" in done.stdout
    assert "guesses on average" in done.stdout
