"""Settings: texts are read as the field's type, a typo is named, and no text does worse than `BadInput`."""

from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta, Struct, field

from palestra.core import configure, parse_pairs
from palestra.core.errors import BadInput


class Inner(Struct):
    depth: int = 2
    name: str = "x"


class Config(Struct):
    rounds: int = 3
    rate: float = 0.5
    greedy: bool = False
    title: str = "debate"
    methods: tuple[str, ...] = ("cot",)
    sizes: list[int] = field(default_factory=list)
    pair: tuple[int, float] = (1, 2.0)
    limit: int | None = None
    loss: Literal["kl", "reverse_kl"] = "kl"
    options: dict[str, Any] = field(default_factory=dict)
    weights: dict[str, float] = field(default_factory=dict)
    inner: Inner = field(default_factory=lambda: Inner(depth=7))
    maybe: Inner | None = None
    share: Annotated[float, Meta(ge=0, le=1, description="a share")] = 0.5


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("rounds", "12", 12),
        ("rounds", "-1", -1),
        ("rate", "1e-3", 1e-3),
        ("rate", "2", 2.0),
        ("greedy", "true", True),
        ("greedy", "0", False),
        ("title", "true", "true"),
        ("title", "12", "12"),
        ("title", '{"a": 1}', '{"a": 1}'),
        ("title", "", ""),
        ("methods", "cot,pot", ("cot", "pot")),
        ("methods", "cot", ("cot",)),
        ("methods", '["a,b", "c"]', ("a,b", "c")),
        ("methods", "", ()),
        ("sizes", "1, 2,3", [1, 2, 3]),
        ("sizes", "[4]", [4]),
        ("pair", "3,4", (3, 4.0)),
        ("limit", "5", 5),
        ("limit", "null", None),
        ("loss", "reverse_kl", "reverse_kl"),
        ("options", '{"a": {"b": [1]}}', {"a": {"b": [1]}}),
        ("weights", '{"a": 1}', {"a": 1.0}),
        ("inner", '{"depth": 9}', Inner(depth=9)),
        ("maybe", '{"name": "y"}', Inner(name="y")),
        ("share", "0.25", 0.25),
    ],
)
def test_a_text_is_read_as_the_type_of_its_field(name: str, text: str, value: object) -> None:
    assert getattr(configure(Config, {name: text}), name) == value


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("rounds", "three", "int"),
        ("rounds", "1.5", "int"),
        ("rate", "fast", "float"),
        ("greedy", "maybe", "bool"),
        ("sizes", "1,x", "list of int"),
        ("pair", "1", "tuple|list"),
        ("loss", "klx", "one of kl, reverse_kl"),
        ("share", "1.5", "<= 1.0"),
        ("rouns", "3", "did you mean 'rounds'"),
        ("inner.dept", "3", "did you mean 'depth'"),
        ("rounds.x", "3", "rounds has no settings of its own"),
        ("inner.depth", "x", "int"),
    ],
)
def test_a_wrong_value_says_what_is_allowed(name: str, text: str, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        configure(Config, {name: text})


def test_values_that_are_no_texts_are_checked_too() -> None:
    assert configure(Config, {"rounds": 4, "methods": ["a"], "inner": {"depth": 1}}).methods == ("a",)
    with pytest.raises(BadInput, match="rounds"):
        configure(Config, {"rounds": 1.5})
    with pytest.raises(BadInput, match="rounds"):
        configure(Config, {"rounds": object()})


def test_a_dot_changes_one_setting_and_keeps_the_others() -> None:
    assert configure(Config, {"inner.name": "y"}).inner == Inner(depth=7, name="y")
    assert configure(Config, {"inner": {"depth": 1}, "inner.name": "y"}).inner == Inner(depth=1, name="y")
    assert configure(Config, {"maybe.depth": "4"}).maybe == Inner(depth=4)


def test_a_setting_that_is_missing_is_named() -> None:
    class Needs(Struct):
        path: str

    with pytest.raises(BadInput, match="path"):
        configure(Needs, {})


def test_a_struct_may_refuse_values_together() -> None:
    class Careful(Struct):
        low: int = 0
        high: int = 1

        def __post_init__(self) -> None:
            if self.low > self.high:
                raise ValueError("low is above high")

    with pytest.raises(BadInput, match="low is above high"):
        configure(Careful, {"low": "5"})


NAMES = st.sampled_from([*Config.__struct_fields__, "inner.depth", "maybe.name", "unknown", "", ".", "inner."])
JSONISH = st.sampled_from(
    ["[", '{"a":', '"\ud800"', "null", "true", "[" * 2000, "9" * 5000, "1e999", "nan", '{"a":1,"a":2}']
)
TEXTS = st.one_of(
    st.text(), st.text(st.characters(), max_size=5), JSONISH, st.text('[]{},:"0123456789.e-', max_size=12)
)


@given(NAMES, TEXTS)
def test_any_text_is_a_value_or_bad_input(name: str, text: str) -> None:
    try:
        configure(Config, {name: text})
    except BadInput as error:
        assert "\n" not in str(error)


@given(st.lists(st.text()))
def test_any_pairs_are_settings_or_bad_input(pairs: list[str]) -> None:
    try:
        assert all("=" in pair for pair in pairs) or not parse_pairs(pairs)
    except BadInput:
        pass


def test_a_value_may_hold_equals_signs() -> None:
    assert parse_pairs(["a=b=c", " d = e"]) == {"a": "b=c", "d": " e"}
    with pytest.raises(BadInput, match="key=value"):
        parse_pairs(["a"])
