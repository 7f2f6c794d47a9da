"""Tools as text: what the model is shown, what its replies mean, and that the embedded model picks the right one."""

import asyncio

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from palestra.core.errors import BadInput, MissingExtra
from palestra.core.records import Message, Sampling, ToolCall, ToolSpec
from palestra.models import tool_text
from palestra.models.schema import for_grammar


def spec(name, description, example, request, **properties):
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    return ToolSpec(name, description, parameters, example=example, request=request)


WORD = {"type": "string", "maxLength": 30}
TOOLS = (
    spec("weather", "Tell the weather in a city", {"city": "Oslo"}, "What is the weather like in Oslo?", city=WORD),
    spec(
        "add", "Add two whole numbers", {"a": 12, "b": 30}, "What is 12 plus 30?",
        a={"type": "integer"}, b={"type": "integer"},
    ),
    spec(
        "send_mail", "Send a message to a person", {"to": "Anna", "text": "I am late"},
        "Tell Anna by mail that I am late.", to=WORD, text=WORD,
    ),
    spec(
        "set_timer", "Start a timer", {"minutes": 10}, "Set a timer for 10 minutes.",
        minutes={"type": "integer", "minimum": 1, "maximum": 600},
    ),
    spec(
        "translate", "Translate a word", {"word": "house", "language": "French"}, "How do you say house in French?",
        word=WORD, language={"enum": ["French", "German", "Spanish"]},
    ),
)  # fmt: skip
REQUESTS = (
    ("What is the weather like in Madrid?", "weather", {"city": "Madrid"}),
    ("What is the weather like in Cairo?", "weather", {"city": "Cairo"}),
    ("What is 7 plus 15?", "add", {"a": 7, "b": 15}),
    ("What is 40 plus 2?", "add", {"a": 40, "b": 2}),
    ("Tell Peter by mail that I am sick.", "send_mail", {"to": "Peter", "text": "I am sick"}),
    ("Set a timer for 25 minutes.", "set_timer", {"minutes": 25}),
    ("How do you say tree in German?", "translate", {"word": "tree", "language": "German"}),
    ("How do you say water in Spanish?", "translate", {"word": "water", "language": "Spanish"}),
)


def test_the_prompt_shows_each_tool_with_a_worked_call_and_ends_where_the_next_is_due():
    prompt = tool_text.transcript([Message("system", "Be quick."), Message("user", "Weather in\nRome?")], TOOLS)
    assert prompt.startswith("Be quick.\n\nTools:\n- reply(text): ")
    assert "- set_timer(minutes): Start a timer\n" in prompt
    assert 'Request: What is 12 plus 30?\nCall:\n{"name": "add", "arguments": {"a": 12, "b": 30}}\n' in prompt
    assert prompt.endswith("\n\nRequest: Weather in Rome?\nCall:\n")


def test_calls_and_results_are_told_in_order():
    talk = [
        Message("user", "What is 2 plus 3?"),
        Message("assistant", tool_calls=(ToolCall("1", "add", {"a": 2, "b": 3}),)),
        Message("tool", "5", tool_call_id="1"),
        Message("assistant", "It is 5."),
        Message("user", "Thanks"),
    ]
    told = tool_text.transcript(talk, TOOLS).split("\n\n")[-1]
    assert told == (
        'Request: What is 2 plus 3?\nCall:\n{"name": "add", "arguments": {"a": 2, "b": 3}}\nResult: 5\n'
        'Call:\n{"name": "reply", "arguments": {"text": "It is 5."}}\nRequest: Thanks\nCall:\n'
    )


def test_answering_in_words_is_offered_only_where_it_is_allowed():
    assert "reply" not in tool_text.transcript([Message("user", "x")], TOOLS, may_reply=False)
    assert len(tool_text.call_schema(TOOLS)["oneOf"]) == 6
    assert len(tool_text.call_schema(TOOLS, may_reply=False)["oneOf"]) == 5


def test_the_schema_fixes_names_and_closes_argument_keys():
    schema = tool_text.call_schema(TOOLS)
    for_grammar(schema)
    validator = Draft202012Validator(for_grammar(schema))
    assert validator.is_valid({"name": "add", "arguments": {"a": 1, "b": 2}})
    assert not validator.is_valid({"name": "add", "arguments": {"a": 1, "b": 2, "c": 3}})
    assert not validator.is_valid({"name": "weather", "arguments": {"a": 1, "b": 2}})
    assert not validator.is_valid({"name": "subtract", "arguments": {}})


def test_a_tool_without_arguments_is_called_with_none():
    tool = ToolSpec("now", "Tell the time", {"type": "object", "properties": {}})
    validator = Draft202012Validator(for_grammar(tool_text.call_schema([tool], may_reply=False)))
    assert validator.is_valid({"name": "now", "arguments": {}})
    assert not validator.is_valid({"name": "now", "arguments": {"x": 1}})


def test_no_tools_or_two_of_one_name_are_refused():
    with pytest.raises(BadInput, match="at least one tool"):
        tool_text.transcript([Message("user", "x")], ())
    with pytest.raises(BadInput, match="each tool name once"):
        tool_text.call_schema((TOOLS[0], TOOLS[0]))


@given(st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=8), max_size=3))
def test_a_written_call_is_read_back(arguments):
    line = tool_text._call("add", arguments)
    (call,) = tool_text.parse(f" {line}\n", TOOLS).tool_calls
    assert (call.name, call.arguments) == ("add", arguments)
    assert tool_text.parse(line, TOOLS).tool_calls[0].id == call.id


@given(st.text() | st.recursive(st.none() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(
    st.sampled_from(["name", "arguments", "text"]), x)).map(lambda value: msgspec.json.encode(value).decode()))  # fmt: skip
def test_any_reply_is_read_as_something(text):
    message = tool_text.parse(text, TOOLS)
    assert message.role == "assistant"
    assert not message.tool_calls or message.tool_calls[0].name in {tool.name for tool in TOOLS}


def test_the_stand_in_reply_becomes_text_and_unknown_tools_stay_text():
    assert tool_text.parse('{"name": "reply", "arguments": {"text": "Hi"}}', TOOLS).text == "Hi"
    unknown = '{"name": "fly", "arguments": {}}'
    assert tool_text.parse(unknown, TOOLS) == Message("assistant", unknown)


simple = st.one_of(
    st.builds(lambda low, span: {"type": "integer", "minimum": low, "maximum": low + span}, st.integers(-9, 9),
              st.integers(0, 9)),
    st.builds(lambda low, more: {"type": "string", "minLength": low, "maxLength": low + more}, st.integers(0, 12),
              st.integers(1, 9)),
    st.builds(lambda values: {"enum": values}, st.lists(st.integers() | st.text(max_size=4), min_size=1, max_size=3)),
    st.just({"type": "boolean"}), st.just({"type": "null"}), st.just({"type": "number"}),
    st.just({"type": "string", "format": "date"}),
)  # fmt: skip
schemas = st.recursive(
    simple,
    lambda inner: st.builds(lambda item, least: {"type": "array", "items": item, "minItems": least}, inner,
                            st.integers(0, 3))
    | st.builds(lambda parts: {"type": "object", "properties": parts, "required": sorted(parts)},
                st.dictionaries(st.sampled_from(["city", "days", "to"]), inner, min_size=1)),
    max_leaves=6,
)  # fmt: skip


@given(schemas)
def test_a_derived_example_fits_its_schema(schema):
    Draft202012Validator(schema).validate(tool_text.example_of(schema))


@pytest.mark.model
@pytest.mark.parametrize("tool_choice", ["required", "auto"])
async def test_the_embedded_model_picks_tool_and_arguments_of_like_worded_requests(tool_choice):
    from palestra.models.embedded import smollm2_engine
    from palestra.models.model import Model

    try:
        engine = smollm2_engine(slots=2, tool_choice=tool_choice)
    except MissingExtra as error:
        pytest.skip(str(error))
    model = Model(engine, name="smollm2")
    asked = Sampling(temperature=0.0, max_tokens=64)
    replies = await asyncio.gather(*(model.complete(text, tools=TOOLS, sampling=asked) for text, _, _ in REQUESTS))
    engine.close()
    calls = [[(call.name, call.arguments) for call in reply.message.tool_calls] for reply in replies]
    right = [call == [(name, arguments)] for call, (_, name, arguments) in zip(calls, REQUESTS, strict=True)]
    assert all(reply.finish_reason == "tool_calls" for reply in replies if reply.message.tool_calls)
    named = [call[:1] and call[0][0] == name for call, (_, name, _) in zip(calls, REQUESTS, strict=True)]
    # Measured: required 8 tools and 7 calls in full of 8 (Cairo became Egypt); with the choice of words 7 and 6.
    assert sum(map(bool, named)) >= (7 if tool_choice == "required" else 6), calls
    assert sum(right) >= (6 if tool_choice == "required" else 5), calls
