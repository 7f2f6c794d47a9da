import pytest

from palestra.agents import react
from palestra.core.errors import BadInput
from palestra.core.records import Message, Observation, ToolCall, ToolSpec
from palestra.models import Model, Scripted
from palestra.tools import tool


@tool(example={"a": 1, "b": 2})
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
async def fail() -> str:
    """Fail."""
    raise RuntimeError("broken")


def scripted(*replies):
    seen, left = [], list(replies)

    def answer(request):
        seen.append(request)
        return left.pop(0)

    return Model(Scripted(answer), name="scripted"), seen


async def test_tools_are_called_until_there_is_an_answer():
    model, seen = scripted(ToolCall("1", "add", {"a": 2, "b": 3}), "It is 5.")
    action = await react(model, tools=[add], system="Be brief.").fresh(0).act(Observation(text="2 + 3?"))
    assert (action.text, action.info["calls"]) == ("It is 5.", 2)
    assert [message.role for message in seen[1].messages] == ["system", "user", "assistant", "tool"]
    assert (seen[1].messages[-1].text, seen[1].messages[-1].tool_call_id) == ("5", "1")
    assert seen[0].tools == (add.spec,)


async def test_mistakes_come_back_as_text():
    model, seen = scripted(
        ToolCall("1", "add", {"a": "two", "b": 3}), ToolCall("2", "ad", {}), ToolCall("3", "fail", {}), "ok"
    )
    await react(model, tools=[add, fail]).fresh(0).act(Observation(text="go"))
    errors = [message.text for message in seen[-1].messages if message.role == "tool"]
    assert "add.a='two'" in errors[0]
    assert "did you mean 'add'" in errors[1]
    assert errors[2] == "Error: RuntimeError: broken"


async def test_tools_of_the_environment_are_the_action_and_its_reply_the_next_observation():
    press = ToolSpec("press", "Press a key.", {"type": "object", "properties": {}})
    model, seen = scripted(
        Message("assistant", "both", tool_calls=(ToolCall("1", "add", {"a": 1, "b": 1}), ToolCall("2", "press", {}))),
        "done",
    )
    agent = react(model, tools=[add]).fresh(0)
    action = await agent.act(Observation(text="start", tools=(press,)))
    assert [call.name for call in action.tool_calls] == ["press"]
    last = await agent.act(Observation(text="pressed", tools=(press,)))
    assert last.text == "done"
    assert [message.text for message in seen[-1].messages if message.role == "tool"] == ["2", "pressed"]


async def test_the_loop_is_bounded_and_memory_is_per_episode():
    model, _ = scripted(*[ToolCall("1", "add", {"a": 1, "b": 1})] * 3)
    agent = react(model, tools=[add], max_calls=3)
    action = await agent.fresh(0).act(Observation(text="go"))
    assert action.info["calls"] == 3
    assert agent.messages == []


def test_wrong_settings_are_refused():
    for settings in ({"tools": [add, add]}, {"max_calls": 0}):
        with pytest.raises(BadInput):
            react(scripted()[0], **settings)
