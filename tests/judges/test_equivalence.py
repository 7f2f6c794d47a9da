import pytest
from hypothesis import given
from hypothesis import strategies as st

from palestra.judges import equivalent, normal_form


@pytest.mark.parametrize(
    "answer, gold",
    [
        (r"\frac12", "0.5"),
        (r"\dfrac{3}{4}", r"\frac{6}{8}"),
        (r"x = 5", "5"),
        (r"$12$", "12.0"),
        ("1,000", "1000"),
        (r"90^\circ", "90"),
        (r"(1, \frac{1}{2})", "(1,0.5)"),
        (r"2\sqrt{3}", "sqrt(12)"),
        (r"\text{Evelyn}", "evelyn"),
        (r"50\%", "50"),
        (r"2^{10}", "1024"),
        (r"\frac{\sqrt{4}}{2}", "1"),
        ("3\\pi", "3*pi"),
    ],
)
def test_the_same_answer_in_other_words_is_right(answer, gold):
    assert equivalent(answer, gold)
    assert equivalent(gold, answer)


@pytest.mark.parametrize(
    "answer, gold",
    [
        ("12", "21"),
        ("(1,2)", "(2,1)"),
        ("(1,2)", "[1,2]"),
        (None, "1"),
        ("", "0"),
        ("x", "y"),
        ("9**9**9", "1"),
        ("__import__('os')", "1"),
        ("1/0", "0"),
    ],
)
def test_other_answers_are_not(answer, gold):
    assert not equivalent(answer, gold)


@given(st.fractions(max_denominator=999))
def test_every_spelling_of_a_fraction_is_one(value):
    tex = f"{'-' if value < 0 else ''}\\frac{{{abs(value.numerator)}}}{{{value.denominator}}}"
    assert normal_form(tex) == normal_form(f"{value.numerator}/{value.denominator}") == str(value)


@given(st.text(max_size=60))
def test_no_text_breaks_it(text):
    assert equivalent(text, text)
