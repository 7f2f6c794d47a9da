"""The debate example: three methods end above one."""

import importlib
from pathlib import Path


def test_three_methods_end_above_one(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "examples"))
    curves = importlib.import_module("dmad_debate").blindspots(200)
    assert curves["three methods"][-1] > curves["one method"][-1]
