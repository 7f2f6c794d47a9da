"""Each method makes its calls in order; the answering call sees the process; failures are answers, not exceptions."""

import pytest

from palestra import agents
from palestra.agents import METHODS, Example, Reasoner
from palestra.core.errors import BadInput
from palestra.core.records import Image, Observation
from palestra.models import Model, Scripted

SUM = Observation(text="What is 17 + 25?", info={"kind": "number"})
PICTURE = Observation(text="Which?", legal=("A", "B"), images=(Image("data:image/png;base64,AA=="),))


def recording(*replies):
    """A model that gives `replies` in order, and the list of requests it saw."""
    seen, left = [], list(replies)

    def answer(request):
        seen.append(request.messages)
        return left.pop(0)

    return Model(Scripted(answer), name="scripted"), seen


@pytest.mark.parametrize("name, calls", [("io", 1), ("cot", 1), ("step_back", 2), ("pot", 2), ("l2m", 2)])
async def test_text_methods_make_one_or_two_calls(name, calls):
    model, seen = recording(*["```python\nprint(42)\n```"] * (calls - 1), "So \\boxed{42}")
    agent = Reasoner(model, name)
    action = await agent.act(SUM)
    assert (len(seen), agent.planned_calls, action.info["calls"], action.text) == (calls, calls, calls, "42")


@pytest.mark.parametrize("make", [agents.ccot, agents.ddcot])
async def test_image_methods_make_two_calls_and_see_the_image_once(make):
    model, seen = recording("graph", "The answer is B")
    action = await make(model).act(PICTURE)
    assert (action.text, action.info["process"]) == ("B", "graph")
    assert [len(message.images) for message in seen[1]] == [1, 0, 0]


@pytest.mark.parametrize("make", [agents.ccot, agents.ddcot])
async def test_image_methods_refuse_a_question_without_image(make):
    model, seen = recording()
    with pytest.raises(BadInput, match="at least one image"):
        await make(model).act(SUM)
    assert seen == []


async def test_the_answering_call_sees_the_process():
    model, seen = recording("Add tens and ones apart.", "\\boxed{42}")
    action = await agents.step_back(model).act(SUM)
    assert [message.role for message in seen[1]] == ["user", "assistant", "user"]
    assert seen[1][1].text == "Add tens and ones apart." == action.info["process"]


async def test_the_program_is_executed_and_its_output_shown():
    model, seen = recording("Here:\n```python\nprint(17 + 25)\n```\nDone.", "It is \\boxed{42}.")
    action = await agents.program(model).act(SUM)
    assert "The program printed:\n```\n42\n```" in seen[1][-1].text
    assert (action.text, action.info["output"], action.info["error"]) == ("42", "42", "")
    assert "print(17 + 25)" in action.info["process"]


@pytest.mark.parametrize(
    "code, error",
    [
        ("print(1 / 0)", "ZeroDivisionError: division by zero"),
        ("while True: pass", "stopped after"),
        ("x = 3", "the program printed nothing"),
        ("I would add them up.", "SyntaxError"),
    ],
)
async def test_a_failing_program_is_a_none_answer_with_the_error_as_process(code, error):
    from palestra.tools import Limits, Sandbox

    model, seen = recording(f"```python\n{code}\n```")
    agent = agents.program(model, sandbox=Sandbox(limits=Limits(seconds=0.5)))
    turn = await agent.respond(SUM)
    assert (turn.answer, turn.calls, len(seen)) == (None, 1, 1)
    assert turn.process.startswith("The program failed: ") and error in turn.process
    assert (await agents.program(recording(code)[0]).act(SUM)).text == "" if "pass" not in code else True


async def test_a_failed_program_is_told_to_its_author_in_the_next_round():
    model, seen = recording("print(1 / 0)", "print(42)", "\\boxed{42}")
    agent = agents.program(model)
    first = await agent.respond(SUM)
    second = await agent.respond(SUM, own=[first])
    assert second.answer == "42"
    assert seen[1][-1].text.startswith("Your program failed: ZeroDivisionError")


async def test_examples_are_earlier_exchanges_of_the_same_form():
    model, seen = recording("```python\nprint(42)\n```", "\\boxed{42}")
    example = Example("What is 1 + 2?", "It is \\boxed{3}.", process="print(1 + 2)", output="3")
    await agents.program(model, examples=[example], system="").act(SUM)
    assert [message.role for message in seen[1]] == ["system", *["user", "assistant"] * 3, "user"]
    asked, code, printed, reply = seen[1][1:5]
    assert asked.text.replace("1 + 2", "17 + 25") == seen[1][5].text
    assert code.text == "```python\nprint(1 + 2)\n```"
    assert printed.text.replace("\n3\n", "\n42\n") == seen[1][7].text
    assert reply.text == "It is \\boxed{3}."


async def test_no_answer_is_none():
    turn = await agents.io(recording("I cannot say.")[0]).respond(SUM)
    assert turn.answer is None
    assert "No answer." in turn.told()


def test_methods_are_found_by_name():
    assert sorted(METHODS) == ["ccot", "cot", "ddcot", "io", "l2m", "pot", "step_back"]
    with pytest.raises(BadInput, match="did you mean 'step_back'"):
        agents.method("stepback")
