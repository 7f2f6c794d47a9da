import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palestra.core.errors import BadInput
from palestra.core.records import Observation
from palestra.judges import boxed, extract, kind_of, number, option

CASES = json.loads((Path(__file__).parents[1] / "fixtures/dmad/cases.json").read_text())


@pytest.mark.parametrize("case", CASES["extract"], ids=lambda case: case["text"])
def test_options_are_found_as_in_the_fixture(case):
    assert extract(case["text"], "option") == case["value"]


@pytest.mark.parametrize(
    "text, letter",
    [
        ("(B) looks right, but the answer is C", "C"),  # a phrase beats a letter in brackets
        ("The correct answer is D. The answer is A.", "A"),  # the reference's order of phrases, not of the text
        ("**B** is it, not (C)", "C"),
        ("so: **B", "B"),
        ("The answer is An apple", None),
        ("The answer is H", None),
    ],
)
def test_the_order_of_patterns_decides(text, letter):
    assert option(text) == letter


@pytest.mark.parametrize(
    "text, value",
    [
        ("3 + 4 = 7. \\boxed{7}. Check: 9", "7"),
        ("The answer is 1,234.5 dollars.", "1234.5"),
        ("first 3, then 5", "5"),
        ("so −4", "-4"),
        ("\\boxed{x}", None),
        ("none", None),
    ],
)
def test_numbers_are_found(text, value):
    assert number(text) == value


@pytest.mark.parametrize(
    "text, value",
    [
        (r"\boxed{1} then \boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed{\text{a } {b}}.", r"\text{a } {b}"),
        (r"\boxed 7$", "7"),
        (r"\boxed{never closed", None),
        ("nothing", None),
    ],
)
def test_boxes_are_found_with_balanced_braces(text, value):
    assert boxed(text) == value


def test_without_a_box_the_last_sentence_that_names_the_answer_counts():
    assert extract("Thus the answer is $x+1$.\nDone", "boxed") == "x+1"
    assert extract("  all of this ", "open") == "all of this"
    assert extract(" ", "open") is None


@given(st.text(alphabet="ab{}\\x ", max_size=30).filter(lambda text: text.count("{") == text.count("}")))
def test_what_is_put_in_a_box_comes_out(text):
    depth, fine = 0, True
    for sign in text:
        depth += (sign == "{") - (sign == "}")
        fine = fine and depth >= 0
    if fine and "\\boxed" not in text and "\\fbox" not in text:
        assert boxed(f"so \\boxed{{{text}}}") == (text.strip() or None)


def test_the_kind_comes_from_the_question():
    assert kind_of(Observation(legal=("A", "B"))) == "option"
    assert kind_of(Observation(text="why?")) == "open"
    assert kind_of(Observation(info={"kind": "number"})) == "number"
    with pytest.raises(BadInput, match="did you mean 'number'"):
        kind_of(Observation(info={"kind": "numbr"}))
