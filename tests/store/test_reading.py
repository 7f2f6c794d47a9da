"""A run is read back as records, as pandas and polars frames, and as files that hold the same."""

import math
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest

from palestra.core import Message, Usage
from palestra.core.errors import BadInput
from palestra.store import Reading, Store, Writer, reading, rebuilding, schema

EVIL = 'a "quoted", text\r\nwith\rline ends\nand ünïcode, 1.0'


@pytest.fixture
def run(any_store: Store, kit: Any) -> Reading:
    """Three episodes with texts, numbers and gaps that a careless export would spoil."""
    row = kit.begin(any_store)
    writer = Writer(any_store, row)
    for n in range(3):
        calls = [
            kit.call(EVIL, f"q{n}", reply=f"r{n}", agent=f"a{n % 2}", seed=2**62 + n, usage=Usage(1, 10 + n, 2)),
            kit.call("x", agent="judge", role="judge", kind="score", seed=None, output={"x": -math.inf}),
        ]
        steps = [kit.step(0, EVIL, f"act {n}", 0.5), kit.step(1, "", "NA", math.nan)]
        spent = Usage(2, 20 + n, 5, 1, 0.25, 1.5)
        done = kit.episode(n, score=None if n == 1 else n / 2, steps=steps, calls=calls, usage=spent, seed=2**62 + n)
        writer.episode(1, done)
    writer.episode(2, kit.episode(0, status="failed", error=EVIL))
    writer.row(schema.studies, {"run": row.key, "study": 1, "name": "main", "plan": "{}", "total": 3})
    writer.row(schema.metrics, {"run": row.key, "name": "loss", "step": 1.0, "value": 0.5, "time": 0.0})
    writer.close()
    kit.record(any_store, [kit.episode(9)])  # another run, of which nothing must show
    return Reading(any_store, row)


def test_every_table_has_the_rows_of_the_run_alone(run: Reading) -> None:
    counts = {name: len(run.rows(name)) for name in schema.READABLE}
    assert counts == {
        "runs": 1, "studies": 1, "episodes": 4, "steps": 6, "calls": 6, "texts": 13, "messages": 8, "metrics": 1,
        "claims": 0, "artifacts": 0,
    }  # fmt: skip


def test_frames_hold_the_rows_with_types_that_do_not_depend_on_them(run: Reading) -> None:
    for name in schema.READABLE:
        rows, pandas, polars = run.rows(name), run.table(name), run.polars(name)
        assert len(pandas) == len(polars) == len(rows)
        kinds = {column.name: column.type.python_type for column in schema.READABLE[name].columns}
        assert list(pandas.columns) == polars.columns
        for column in pandas.columns:
            text = name == "steps" and column in ("observation", "action")
            whole = kinds[column] is int and not text
            assert pd.api.types.is_integer_dtype(pandas[column]) == whole, (name, column)
            assert pd.api.types.is_float_dtype(pandas[column]) == (kinds[column] is float), (name, column)
            assert (polars[column].dtype == pl.Int64) == whole, (name, column)
            values = [None if pd.isna(value) else value for value in pandas[column]]
            assert values == polars[column].to_list() == [row[column] for row in rows], (name, column)


def test_seeds_are_exact_in_frames_though_some_are_missing(run: Reading) -> None:
    assert [seed for seed in run.table("calls")["seed"] if not pd.isna(seed)] == [2**62, 2**62 + 1, 2**62 + 2]


def test_frames_do_not_depend_on_how_many_rows_are_read_at_a_time(
    run: Reading, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = {name: run.table(name) for name in schema.READABLE}
    monkeypatch.setattr(reading, "CHUNK", 2)
    for name, frame in whole.items():
        pd.testing.assert_frame_equal(run.table(name), frame)
        assert run.polars(name).rows() == [tuple(row.values()) for row in run.rows(name)]


def test_a_frame_of_one_study(run: Reading) -> None:
    assert [len(run.table("episodes", study=study)) for study in (1, 2, 3)] == [3, 1, 0]
    assert list(run.table("episodes", study=3).dtypes) == list(run.table("episodes", study=2).dtypes)


def test_exported_files_are_read_back_equal(run: Reading, tmp_path: Path) -> None:
    parquet = run.export(tmp_path / "parquet")
    assert sorted(file.name for file in parquet) == sorted(f"{name}.parquet" for name in schema.READABLE)
    for file in parquet:
        pd.testing.assert_frame_equal(pd.read_parquet(file), run.table(file.stem), check_dtype=False)
        assert pl.read_parquet(file).rows() == run.polars(file.stem).rows()
    for file in run.export(tmp_path / "csv", format="csv"):
        expected = run.table(file.stem)
        kinds = {name: "str" if pd.api.types.is_string_dtype(kind) else kind for name, kind in expected.dtypes.items()}
        if file.stem == "calls":
            expected["request"] = [value.hex() for value in expected["request"]]
            kinds["request"] = "str"
        read = pd.read_csv(file, dtype=kinds, keep_default_na=False, na_values=[""])
        for name in expected:
            left = ["" if pd.isna(value) else value for value in expected[name]]
            assert ["" if pd.isna(value) else value for value in read[name]] == left, (file.stem, name)


def test_an_unknown_name_gets_the_nearest_one(run: Reading, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="did you mean 'episodes'"):
        run.table("episode")
    with pytest.raises(BadInput, match="format='xlsx'"):
        run.export(tmp_path, format="xlsx")  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="did you mean 'stage'"):
        run.usage(by=("stag",))
    with pytest.raises(BadInput, match="the number of an episode"):
        run.episode(5)


def test_usage_adds_up_by_agent_and_role(run: Reading) -> None:
    found = {(row["agent"], row["role"]): row["input_tokens"] for row in run.usage(by=("agent", "role"))}
    assert found == {("a0", ""): 10 + 12, ("a1", ""): 11, ("judge", "judge"): 6}
    assert run.total() == Usage(6, 63, 15, 3, 0.75, 4.5)


def test_a_conversation_is_read_from_its_last_message(run: Reading) -> None:
    last = run.rows("calls")[0]["reply"]
    assert run.conversation(last) == [Message("user", EVIL), Message("assistant", "q0"), Message("assistant", "r0")]


def test_which_episodes_are_done(run: Reading) -> None:
    assert run.done(1) == [0, 1, 2]
    assert (run.done(2), run.done(2, statuses=("done",)), run.done(3)) == ([0], [], [])


def test_a_replayed_order_of_many_texts_is_whole_when_few_are_held(
    any_store: Store, kit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rebuilding, "AHEAD", 4)
    monkeypatch.setattr(rebuilding, "HELD", 8)
    episodes = [kit.episode(n, calls=[kit.call("p", f"{n % 9}", f"{n}", reply=f"r{n % 5}")]) for n in range(60)]
    for found, written in zip(kit.record(any_store, episodes).episodes(), episodes, strict=True):
        assert found.calls == written.calls
