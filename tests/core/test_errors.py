"""Errors are one line each, and cross process borders whole."""

import inspect
import pickle

import pytest

from palestra.core import errors
from palestra.core.errors import BadInput, BudgetExceeded, PalestraError, cause_of

MADE = {
    "BadInput": lambda: BadInput("scale", "lptop", choices=("smoke", "laptop")),
    "MissingExtra": lambda: errors.MissingExtra("jax", "jax"),
    "BudgetExceeded": lambda: BudgetExceeded("study", "calls", 3, 4),
    "ContextOverflow": lambda: errors.ContextOverflow(3000, 2048, "smollm2"),
    "RateLimited": lambda: errors.RateLimited("slow down", retry_after=2.5),
}
KINDS = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, PalestraError)]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_an_error_comes_out_of_a_pickle_as_it_was(kind: type[PalestraError]) -> None:
    error = MADE.get(kind.__name__, lambda: kind("it broke"))()
    error.add_note("palestra resume x")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert str(copy) == str(error)
    assert copy.__dict__ == error.__dict__
    assert "\n" not in str(copy)


def test_bad_input_is_one_line_whatever_the_value() -> None:
    line = str(BadInput("text", "a\nb" * 500, "something short"))
    assert "\n" not in line
    assert len(line) < 250


def test_the_nearest_choice_is_suggested_only_when_it_is_near() -> None:
    assert BadInput("scale", "papr", choices=("smoke", "paper")).suggestion == "paper"
    assert BadInput("scale", "zzz", choices=("smoke", "paper")).suggestion is None


def test_a_group_of_failures_is_about_the_budget_that_ran_out() -> None:
    spent = BudgetExceeded("study", "calls", 1, 1)
    group = ExceptionGroup("all", [ValueError("x"), ExceptionGroup("inner", [spent])])
    assert cause_of(group) is spent
    first = KeyError("k")
    assert cause_of(ExceptionGroup("all", [first, ValueError("x")])) is first
