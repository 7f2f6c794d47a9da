"""The loaders read the public layouts, shuffle from a seed, and name the file, row and field of what is wrong."""

import csv
import json

import pytest

from palestra.bench import Graded, load_gpqa, load_math, load_mmvet, load_scienceqa
from palestra.core.errors import BadInput
from palestra.core.records import Action
from palestra.models import Model, Scripted

PNG = b"\x89PNG\r\n\x1a\n" + bytes(16)


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
    return path


def problem(**changes):
    return {"problem": "1/2+0?", "level": "Level 3", "type": "Algebra", "solution": "So \\boxed{\\frac12}."} | changes


def test_math_is_read_from_its_folder(tmp_path):
    for number in range(3):
        write(tmp_path / f"algebra/{number}.json", problem(level=f"Level {number + 1}"))
    task = load_math(tmp_path)
    assert [item.info["level"] for item in task.items] == [1, 2, 3]
    assert (task.items[0].answer, task.items[0].info["kind"]) == ("\\frac12", "boxed")
    assert task.scorer(task.items[0], Action(text="0.5")) == 1
    assert len(load_math(tmp_path, levels=[2])) == 1
    assert len(load_math(tmp_path, n=2, seed=1)) == 2
    assert not any("solution" in item.info for item in task.items)


def test_math_is_read_from_one_file_of_rows(tmp_path):
    file = tmp_path / "math.jsonl"
    file.write_text("\n".join(json.dumps(problem(level="Level ?")) for _ in range(2)))
    assert [item.info["level"] for item in load_math(file).items] == [None, None]


@pytest.mark.parametrize(
    "row, words",
    [
        (problem(solution="no box"), "m.json row 1 solution"),
        (problem(problem=""), "m.json row 1 problem"),
        (problem(level="hard"), "m.json row 1 level"),
        ("text", "m.json row 1"),
    ],
)
def test_a_malformed_math_row_is_named(tmp_path, row, words):
    with pytest.raises(BadInput) as caught:
        load_math(write(tmp_path / "m.json", [row]))
    assert words in str(caught.value) and "\n" not in str(caught.value)


def gpqa(path, rows):
    fields = ["Question", "Correct Answer", "Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3"]
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerows([fields, *rows])
    return path


def test_gpqa_options_are_shuffled_from_the_seed(tmp_path):
    rows = [[f"Why {number}?", "right", "w1", "w2", "w3"] for number in range(40)]
    file = gpqa(tmp_path / "gpqa.csv", rows)
    task, again, other = (load_gpqa(file, seed=seed) for seed in (0, 0, 1))
    assert task.items == again.items != other.items
    assert {item.answer for item in task.items} == set("ABCD")
    for item in task.items:
        assert f"({item.answer}) right" in item.question
        assert item.legal == ("A", "B", "C", "D")
    assert task.scorer(task.items[0], Action(text=f"The answer is {task.items[0].answer}")) == 1


def test_a_malformed_gpqa_row_is_named(tmp_path):
    with pytest.raises(BadInput, match=r"g\.csv row 2 Incorrect Answer 3"):
        load_gpqa(gpqa(tmp_path / "g.csv", [["Q", "a", "b", "c", "d"], ["Q", "a", "b", "c", ""]]))
    with pytest.raises(BadInput, match="four different options"):
        load_gpqa(gpqa(tmp_path / "g.csv", [["Q", "a", "a", "c", "d"]]))


def science(**changes):
    row = {
        "question": "Which is metal?",
        "choices": ["wood", "iron"],
        "answer": 1,
        "hint": "Look.",
        "image": "image.png",
    }
    return row | {"split": "test", "subject": "natural science", "lecture": "SECRET", "solution": "SECRET"} | changes


def test_scienceqa_keeps_the_test_questions_with_an_image(tmp_path):
    rows = {"1": science(), "2": science(image=None), "3": science(split="train")}
    write(tmp_path / "problems.json", rows)
    (tmp_path / "images/test/1").mkdir(parents=True)
    (tmp_path / "images/test/1/image.png").write_bytes(PNG)
    task = load_scienceqa(tmp_path)
    assert [item.id for item in task.items] == ["1"]
    item = task.items[0]
    assert item.question == "Look.\nWhich is metal?\n(A) wood\n(B) iron"
    assert (item.answer, item.legal) == ("B", ("A", "B"))
    assert item.images[0].url.startswith("data:image/png;base64,")
    assert "SECRET" not in str(item)
    assert [item.id for item in load_scienceqa(tmp_path / "problems.json", images=False).items] == ["2"]


@pytest.mark.parametrize(
    "row, words",
    [
        (science(answer=2), "problems.json row 1 answer"),
        (science(answer="B"), "a whole number"),
        (science(choices=["one"]), "at least 2 texts"),
        (science(image="../../secret.png"), "inside the data set's folder"),
        (science(image="gone.png"), "problems.json row 1 image"),
    ],
)
def test_a_malformed_scienceqa_row_is_named(tmp_path, row, words):
    with pytest.raises(BadInput) as caught:
        load_scienceqa(write(tmp_path / "problems.json", {"1": row}))
    assert words in str(caught.value)


def test_scienceqa_is_read_from_parquet_with_images_inside(tmp_path):
    import pandas as pd

    row = science(image={"bytes": PNG, "path": "image.png"})
    pd.DataFrame([row]).to_parquet(tmp_path / "test.parquet")
    assert load_scienceqa(tmp_path / "test.parquet").items[0].images[0].url.startswith("data:image/png")


def vet(**changes):
    row = {"imagename": "v.png", "question": "x?", "answer": "two <AND> red <OR> crimson", "imagesource": "web"}
    return row | {"capability": ["ocr"]} | changes


async def test_mmvet_is_read_by_key_and_scored_by_parts_or_by_a_grader(tmp_path):
    write(tmp_path / "mm-vet.json", {"v1_0": vet()})
    (tmp_path / "images").mkdir()
    (tmp_path / "images/v.png").write_bytes(PNG)
    task = load_mmvet(tmp_path)
    item = task.items[0]
    assert (item.id, item.info["kind"], item.info["capability"]) == ("v1_0", "open", ["ocr"])
    for said, score in (("Two red cars", 1), ("two cars", 0.5), ("a Crimson one", 1), ("reddish", 0)):
        assert task.scorer(item, Action(text=said)) == score
    grader = Graded(Model(Scripted(['{"Grade": 7}', "x", "x"]), name="scripted"))
    assert await grader(item, Action(text="two")) == {"score": 0.7, "graded": 1.0}
    assert await grader(item, Action(text="two")) == {"score": 0.5, "graded": 0.0}


@pytest.mark.parametrize("row, words", [(vet(capability=3), "capability"), (vet(answer=None), "v.json row 1 answer")])
def test_a_malformed_mmvet_row_is_named(tmp_path, row, words):
    (tmp_path / "v.png").write_bytes(PNG)
    with pytest.raises(BadInput, match=words):
        load_mmvet(write(tmp_path / "v.json", {"v1_0": row}))


@pytest.mark.parametrize("source", ["no/such/place", "missing.json"])
def test_a_missing_source_is_refused(source):
    with pytest.raises(BadInput, match="exists"):
        load_math(source)


def test_a_broken_file_is_refused(tmp_path):
    (tmp_path / "b.json").write_text("{")
    (tmp_path / "b.parquet").write_bytes(b"x")
    (tmp_path / "b.jsonl").write_text("{}\nx\n")
    for name, words in (("b.json", "JSON"), ("b.parquet", "readable"), ("b.jsonl", "row")):
        with pytest.raises(BadInput, match=words):
            load_math(tmp_path / name)
