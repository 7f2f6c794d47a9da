import pickle
import sys
from types import SimpleNamespace
from typing import Annotated, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palestra.core.errors import BadInput
from palestra.tools import Tool, tool


class Point(msgspec.Struct):
    x: int
    y: int


@tool(example={"where": {"x": 1, "y": 2}})
async def look(where: Point, mode: Literal["near", "far"] = "near", tags: list[str] = []) -> dict[str, int]:  # noqa: B006
    """Look at a place.

    The light is good.

    Args:
        where: the place,
            in metres.
        mode (str): how far.

    Returns:
        What is there.
    """
    return {"x": where.x, "far": int(mode == "far"), "tags": len(tags)}


def test_the_schema_comes_from_annotations_and_docstring():
    spec = look.spec
    assert spec.name == "look"
    assert spec.description == "Look at a place.\n\nThe light is good."
    assert spec.parameters["required"] == ["where"]
    assert spec.parameters["additionalProperties"] is False
    assert spec.parameters["properties"]["where"]["description"] == "the place, in metres."
    assert spec.parameters["properties"]["mode"]["enum"] == ["far", "near"]
    assert spec.parameters["$defs"]["Point"]["properties"] == {"x": {"type": "integer"}, "y": {"type": "integer"}}
    assert spec.example == {"where": {"x": 1, "y": 2}}


async def test_a_call_is_validated_and_returns_text():
    assert await look.call({"where": {"x": 3, "y": 4}, "mode": "far"}) == '{"x":3,"far":1,"tags":0}'


@pytest.mark.parametrize(
    "arguments, part",
    [
        ({}, "where"),
        ({"where": {"x": "a", "y": 1}}, "look.where.x"),
        ({"where": {"x": 1, "y": 1}, "mdoe": "far"}, "did you mean 'mode'?"),
        ({"where": {"x": 1, "y": 1}, "mode": "middle"}, "look.mode='middle'"),
    ],
)
async def test_wrong_arguments_name_the_argument(arguments, part):
    with pytest.raises(BadInput) as caught:
        await look.call(arguments)
    assert part in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_decorated_function_can_still_be_called():
    @tool
    def double(number: Annotated[int, msgspec.Meta(ge=0)]) -> int:
        """Twice the number."""
        return 2 * number

    assert double(4) == 8
    assert double.parameters["properties"]["number"]["minimum"] == 0


def test_a_tool_crosses_a_process_border_by_name(monkeypatch):
    monkeypatch.setitem(sys.modules, "a_module_of_tools", SimpleNamespace(look=look))
    monkeypatch.setattr(look.function, "__module__", "a_module_of_tools")
    assert pickle.loads(pickle.dumps(look)) is look
    copy = pickle.loads(pickle.dumps(Tool(math_floor, name="floor", example={"x": 1.5})))
    assert copy.spec == Tool(math_floor, name="floor", example={"x": 1.5}).spec


def test_functions_that_cannot_be_tools_are_refused():
    def bare(x):
        """Something."""

    def variable(*args: int):
        """Something."""

    def silent(x: int): ...

    for function in (bare, variable, silent):
        with pytest.raises(BadInput):
            Tool(function)
    with pytest.raises(BadInput):
        tool(example={"n": "three"})(_count)


def math_floor(x: float) -> int:
    """Round down."""
    return int(x // 1)


def _count(n: int) -> int:
    """Count."""
    return n


@given(st.integers())
async def test_numbers_may_arrive_as_text(number):
    if abs(number) < 2**63:
        assert await Tool(_count).call({"n": str(number)}) == str(number)
