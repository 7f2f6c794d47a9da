"""The command line as a user meets it: what it prints, what it refuses, what it leaves behind."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner, Result

from palestra.cli.main import app, models, settings
from palestra.core.errors import BadInput
from palestra.store import Reading, Store

AGENT = """
from palestra.core import Action

class Asker:
    name = "asker"

    def __init__(self, model):
        self.model = model

    async def act(self, observation):
        return Action(text=(await self.model.complete(observation.text)).text)

def make(model, shout: bool = False):
    return Asker(model)
"""
TASK = """
from palestra.core import Benchmark, Item

def make(n: int = 3):
    items = [Item(str(k), f"<script>alert({k})</script>", f"<script>alert({k})</script>") for k in range(n)]
    return Benchmark("echoes", items, scorer=lambda item, action: float(action.text == item.answer))
"""


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


@pytest.fixture
def own(tmp_path: Path) -> tuple[str, str]:
    """An agent and a task of the user's own, as FILE.py:NAME."""
    (tmp_path / "agent.py").write_text(AGENT)
    (tmp_path / "task.py").write_text(TASK)
    return f"{tmp_path / 'agent.py'}:make", f"{tmp_path / 'task.py'}:make"


def palestra(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_without_a_command_the_help_is_shown() -> None:
    assert "run" in palestra().output
    for command in ("list", "show", "run", "resume", "eval", "report", "export", "setup", "doctor"):
        result = palestra(command, "--help")
        assert result.exit_code == 0
        assert "Example" in result.output


def test_systems_are_listed_with_their_area() -> None:
    rows = json.loads(palestra("list", "--json").output)
    assert {"system": "rqe", "area": "games", "venue": "ICLR 2025"}.items() <= next(
        row for row in rows if row["system"] == "rqe"
    ).items()


def test_a_card_shows_claims_and_described_settings() -> None:
    shown = json.loads(palestra("show", "rqe", "--json").output)
    assert shown["card"]["slug"] == "rqe"
    assert all(setting["description"] for setting in shown["settings"])
    assert "no_regret_kl" in palestra("show", "rqe").output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("run", "rqee"), "did you mean 'rqe'"),
        (("run", "rqe", "--scale", "lptop"), "did you mean 'laptop'"),
        (("run", "rqe", "--set", "gams=3"), "did you mean 'games'"),
        (("run", "rqe", "--gams", "3"), "did you mean 'games'"),
        (("run", "rqe", "--games", "many"), "games='many'"),
        (("run", "rqe", "--set", "games"), "key=value"),
        (("run", "rqe", "--budget", "tokns=3"), "did you mean 'tokens'"),
        (("run", "rqe", "--seeds", "0"), "seeds=0"),
        (("run", "rqe", "--game", "sc:13"), "sc:13"),
        (("run", "rqe", "--model", "smolm2"), "smollm2"),
        (("run", "rqe", "--replay", "nothing"), "nothing"),
        (("run", "rqe", "--replay", "last"), "a finished run of rqe"),
        (("run", "rqe", "--model", "hf:./no-such-folder"), "no model folder"),
        (("run", "dmad", "--model", "jugde=smollm2"), "did you mean 'judge'"),
        (("run", "dmad", "--history", "plian"), "did you mean 'plain'"),
        (("run", "dmad", "--rounds", "0"), "int >= 1"),
        (("eval", "io", "math"), "math:PATH"),
        (("eval", "agent.py", "arithmetic"), "agent.py:NAME"),
        (("eval", "io", "arithmetic", "--levle", "2"), "did you mean 'level'"),
        (("show", "nothing"), "nothing"),
        (("list", "system"), "did you mean 'systems'"),
        (("eval", "no_such_agent", "arithmetic"), "no_such_agent"),
        (("report", "nothing"), "nothing"),
    ],
)
def test_bad_input_is_one_line_with_exit_code_2_and_nothing_recorded(
    store: Path, arguments: tuple[str, ...], said: str
) -> None:
    where = () if arguments[0] == "list" else ("--store", store)
    result = palestra(*arguments, *where)
    assert result.exit_code == 2, result.output
    assert said in result.output
    assert len(result.output.strip().splitlines()) == 1
    assert not store.exists() or Store(store).runs() == []


def test_a_missing_key_is_named_before_anything_is_recorded(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    result = palestra("run", "rqe", "--model", "openai/gpt-5", "--store", store)
    assert result.exit_code == 2
    assert "OPENAI_API_KEY" in result.output


def test_own_agent_and_task_are_evaluated(store: Path, own: tuple[str, str]) -> None:
    result = palestra("eval", *own, "--model", "scripted", "--set", "n=4", "--store", store, "--json")
    assert result.exit_code == 0, result.output
    outcome = json.loads(result.output)
    (summary,) = outcome["results"]["eval"]
    assert (summary["episodes"], summary["score"], summary["usage"]["calls"]) == (4, 1.0, 4)


def test_an_option_that_the_task_lacks_is_refused(store: Path, own: tuple[str, str]) -> None:
    result = palestra("eval", *own, "--model", "scripted", "--set", "m=4", "--store", store)
    assert result.exit_code == 2
    assert "expected one of n" in result.output


def test_resume_of_a_finished_run_changes_nothing(store: Path, own: tuple[str, str]) -> None:
    palestra("eval", *own, "--model", "scripted", "--store", store)
    before = Reading(Store(store)).fingerprint()
    result = palestra("resume", "--store", store, "--json")
    assert json.loads(result.output)["status"] == "done"
    assert Reading(Store(store)).fingerprint() == before


def test_replay_gives_the_same_records_without_the_model(store: Path, own: tuple[str, str]) -> None:
    palestra("eval", *own, "--model", "scripted", "--store", store)
    first = Reading(Store(store))
    result = palestra("eval", *own, "--model", "scripted", "--replay", first.run.id, "--store", store)
    assert result.exit_code == 0, result.output
    second = Reading(Store(store))
    assert second.run.id != first.run.id
    assert second.fingerprint() == first.fingerprint()


def test_replay_last_is_the_last_run_of_the_same_system(store: Path, own: tuple[str, str]) -> None:
    palestra("eval", *own, "--model", "scripted", "--store", store)
    first = Reading(Store(store))
    palestra("run", "rqe", "--game", "sc:1", "--store", store)
    assert palestra("eval", *own, "--model", "scripted", "--replay", "last", "--store", store).exit_code == 0
    assert Reading(Store(store)).fingerprint() == first.fingerprint()
    refused = palestra("run", "rqe", "--replay", first.run.id, "--store", store)
    assert refused.exit_code == 2
    assert "this is one of eval" in refused.output


def test_a_run_in_which_everything_failed_is_no_success(store: Path, own: tuple[str, str], tmp_path: Path) -> None:
    broken = AGENT.replace("return Action(", "raise ValueError('no idea') or Action(")
    (tmp_path / "agent.py").write_text(broken)
    result = palestra("eval", *own, "--n", "2", "--model", "scripted", "--store", store)
    assert result.exit_code == 1
    assert "2 × error: ValueError: no idea" in result.output


def test_hints_name_the_store_when_it_is_not_the_usual_one(store: Path, own: tuple[str, str]) -> None:
    result = palestra("eval", *own, "--model", "scripted", "--store", store)
    assert f"palestra report {Store(store).run().id} --store {store}" in result.output


@pytest.mark.parametrize("arguments", [("list", "runs"), ("show", "last"), ("report",), ("export",), ("resume",)])
def test_reading_commands_make_no_store(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    result = palestra(*arguments, "--store", tmp_path / "none.db")
    assert result.exit_code == 2
    assert "nothing has been recorded there yet" in result.output
    assert list(tmp_path.iterdir()) == []


def test_an_empty_store_name_is_refused() -> None:
    result = palestra("list", "runs", "--store", "")
    assert result.exit_code == 2
    assert "a file path or a database URL" in result.output


def test_minutes_end_a_recipe_that_makes_no_calls(store: Path) -> None:
    result = palestra("run", "rqe", "--scale", "smoke", "--budget", "minutes=0", "--store", store)
    assert result.exit_code == 3
    assert "budget of 0 minutes is used up" in result.output


def test_a_stopped_run_says_how_to_go_on(store: Path, own: tuple[str, str]) -> None:
    result = palestra(
        "eval", *own, "--model", "scripted", "--set", "n=9", "--budget", "calls=4", "--concurrency", 1, "--store", store
    )
    assert result.exit_code == 3
    run = Store(store).run()
    assert run.status == "stopped"
    assert f"palestra resume {run.id}" in result.output
    resumed = json.loads(palestra("resume", run.id, "--budget", "calls=99", "--store", store, "--json").output)
    assert resumed["results"]["eval"][0]["episodes"] == 9


def test_the_report_is_one_inert_file(store: Path, own: tuple[str, str], tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(
        "class Bad:\n    name = '<img src=x onerror=alert(1)>'\n"
        "    async def act(self, o):\n        raise ValueError('<script>alert(2)</script>')\n"
        "def make(model):\n    return Bad()\n"
    )
    palestra("eval", *own, "--model", "scripted", "--store", store)
    file = tmp_path / "report.html"
    assert palestra("report", "--store", store, "--out", file).exit_code == 0
    text = file.read_text()
    assert "<script" not in text
    assert "<img src=x" not in text
    assert "&lt;script&gt;alert(2)" in text
    assert "http://" not in text.replace("http://www.w3.org", "")
    assert [one.name for one in tmp_path.glob(".*")] == []


def test_exported_tables_are_what_was_recorded(store: Path, own: tuple[str, str], tmp_path: Path) -> None:
    palestra("eval", *own, "--model", "scripted", "--store", store)
    result = palestra("export", "--store", store, "--out", tmp_path / "tables")
    assert result.exit_code == 0, result.output
    episodes = pd.read_parquet(tmp_path / "tables" / "episodes.parquet")
    assert list(episodes["score"]) == [1.0, 1.0, 1.0]
    assert palestra("export", "--store", store, "--format", "xml").exit_code == 2


def test_a_game_is_solved_and_fitted(store: Path) -> None:
    result = palestra("run", "rqe", "--game", "sc:7", "--fit", "--store", store, "--json")
    assert result.exit_code == 0, result.output
    report = json.loads(result.output)["report"]
    assert "RQEFit" in report
    assert "[0.1410 0.8590]" in report  # what people played in game 7


def test_a_file_that_is_no_store_is_one_clear_line(tmp_path: Path) -> None:
    file = tmp_path / "notes.db"
    file.write_text("these are my notes, not a database, and they are rather long " * 20)
    result = palestra("list", "runs", "--store", file)
    assert result.exit_code == 1
    assert "not a palestra store" in result.output


def test_model_options_name_roles() -> None:
    assert models(None) is None
    assert models(["smollm2"]) == {"default": "smollm2"}
    assert models(["judge=openai/x", "http://h/v1#n"]) == {"judge": "openai/x", "default": "http://h/v1#n"}


def test_settings_are_options_too() -> None:
    assert settings(["--a-b", "1", "--flag", "--c=2=3"]) == {"a_b": "1", "flag": "true", "c": "2=3"}
    with pytest.raises(BadInput):
        settings(["stray"])
