"""The scripted model: functions, tables and lists of replies."""

import asyncio
import pickle
import time

import pytest

from palestra.core.errors import BadInput, ModelError, RateLimited
from palestra.core.records import Completion, Message, ToolCall, Usage
from palestra.models import Request, Scripted, model


async def test_a_table_answers_by_the_last_message():
    ask = model("scripted", script={"2+2=": "4", "capital?": Message("assistant", "Paris")})
    assert (await ask.complete([Message("user", "hi"), Message("user", "2+2=")])).text == "4"
    assert (await ask.complete("capital?")).text == "Paris"
    with pytest.raises(ModelError, match="no reply to 'else'"):
        await ask.complete("else")


async def test_a_list_answers_in_order_and_ends():
    ask = model("scripted", script=["one", ToolCall("1", "look", {}), RateLimited("slow", 2.0)])
    assert (await ask.complete("x")).text == "one"
    reply = await ask.complete("x")
    assert (reply.message.tool_calls[0].name, reply.finish_reason) == ("look", "tool_calls")
    with pytest.raises(RateLimited):
        await ask.complete("x")
    with pytest.raises(ModelError, match="all 3 were given"):
        await ask.complete("x")


async def test_functions_may_be_plain_or_asynchronous_and_see_the_whole_request():
    async def later(request: Request) -> str:
        await asyncio.sleep(0)
        return f"{request.sampling.temperature} {request.messages[-1].text}"

    assert (await model("scripted", script=later).complete("x")).text == "0.7 x"
    whole = Completion(Message("assistant", "as it is"), Usage(1, 2, 3), engine="mine")
    reply = await model("scripted", script=lambda request: whole).complete("x")
    assert (reply.engine, reply.usage) == ("mine", Usage(1, 2, 3))


async def test_usage_is_a_token_for_every_four_characters_rounded_up():
    reply = await model("scripted", script=["12345678"]).complete([Message("system", "1234"), Message("user", "12345")])
    assert (reply.usage.calls, reply.usage.input_tokens, reply.usage.output_tokens) == (1, 3, 2)


async def test_latency_is_waited_for_and_does_not_add_up_over_concurrent_calls():
    ask = model("scripted", latency=0.05)
    started = time.monotonic()
    replies = await asyncio.gather(*(ask.complete("x") for _ in range(20)))
    assert 0.05 <= time.monotonic() - started < 0.5
    assert replies[0].usage.seconds == 0.05


async def test_scores_come_from_a_function_and_must_be_one_for_each_option():
    ask = model("scripted", score=lambda request: [-float(len(option)) for option in request.options])
    assert await ask.score("x", [" a", " bcd"]) == [-2.0, -4.0]
    assert not model("scripted").can("score")
    with pytest.raises(BadInput, match="one for each of the 2 options"):
        await model("scripted", score=lambda request: [0.0]).score("x", [" a", " b"])


def test_an_import_path_names_a_script_that_crosses_process_borders():
    ask = model("scripted:palestra.models.scripted:echo")
    copy = pickle.loads(pickle.dumps(ask))
    assert asyncio.run(copy.complete("say it")).text == "say it"
    assert copy.name == "scripted:palestra.models.scripted:echo"


@pytest.mark.parametrize(
    "spec, line",
    [
        ("scripted:no_such_module:f", "No module named 'no_such_module'"),
        ("scripted:palestra.models.scripted:ecco", "did you mean 'echo'"),
        ("scripted::", "scripted:module:function"),
    ],
)
def test_a_path_that_names_nothing_is_one_clear_line(spec, line):
    with pytest.raises(BadInput, match=line):
        model(spec)


def test_a_script_that_is_none_is_refused():
    with pytest.raises(BadInput, match="script="):
        Scripted("one text")
    with pytest.raises(BadInput, match="reply="):
        asyncio.run(Scripted([3]).complete(Request("complete", "m", (Message("user", "x"),))))  # type: ignore


async def test_the_engine_takes_a_few_microseconds():
    engine, request = Scripted(), Request("complete", "m", (Message("user", "What is 2+2?"),))
    best = float("inf")
    for _ in range(20):
        started = time.perf_counter()
        for _ in range(500):
            await engine.complete(request)
        best = min(best, (time.perf_counter() - started) / 500)
    assert best < 10e-6
