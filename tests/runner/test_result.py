"""Results: rows, frames and summaries of a study, also when nothing went well."""

from typing import Any

import pytest

from palestra.core.errors import BadInput
from palestra.core.intervals import wilson
from palestra.runner import Result
from palestra.store import Reading, Store, Writer


@pytest.fixture
def result(store: Store, kit: Any) -> Result:
    from palestra.core import Episode, Usage

    run = store.begin("test", scale="smoke", seed=0, seeds=1, models={}, config={}, options={}, version="0")
    writer = Writer(store, run)
    for n in range(10):
        metrics = {"score": float(n % 2), "length": n, "steps": 5.0} if n < 8 else {}
        writer.episode(
            1,
            Episode(
                "1",
                n,
                "<b>a</b> " + "long " * 20,
                f"t{n}",
                0,
                score=float(n % 2),
                metrics=metrics,
                usage=Usage(1, 5, 5),
            ),
        )
    writer.episode(1, Episode("1", 10, "none", "t", 0, status="failed", error="x"))
    writer.close()
    return Result(Reading(store, run), 1, "main")


def test_a_summary_counts_finished_episodes(result: Result) -> None:
    good, none = result.summary().values()
    assert (good.episodes, good.failed, good.score, good.usage.tokens) == (10, 0, 0.5, 100)
    assert (good.low, good.high) == wilson(5, 10)
    assert (none.episodes, none.failed, none.score == none.score) == (1, 1, False)
    with pytest.raises(BadInput, match="did you mean 'none'"):
        result.of("nnone")


def test_a_frame_has_a_column_for_each_metric(result: Result) -> None:
    frame = result.frame()
    assert len(frame) == 11
    assert frame["length"].tolist()[:8] == list(range(8))
    assert frame["length"].isna().sum() == 3
    assert "metrics" not in frame
    assert frame["steps"].tolist() == [0] * 11, "the store's own columns win"


def test_it_prints_as_a_table_here_and_in_a_notebook(result: Result) -> None:
    assert "0.500" in repr(result)
    assert "none" in repr(result)
    html = result._repr_html_()
    assert "&lt;b&gt;a&lt;/b&gt;" in html
    assert "<b>" not in html
    assert "long " * 19 in html, "nothing is cut off"


def test_an_empty_study_has_empty_results(store: Store, result: Result) -> None:
    empty = Result(result.reading, 7, "empty")
    assert (empty.summary(), empty.rows(), len(empty.frame()), empty.episodes()) == ({}, [], 0, [])
    assert "empty" in repr(empty)
    assert empty._repr_html_()
