"""The embedded model on llama.cpp: what it is told, what it is refused, what it costs, and how it is left."""

import asyncio
import time

import httpx
import pytest

from palestra.core.errors import BadInput, ContextOverflow, UnknownModel
from palestra.core.records import GREEDY, Image, Message, Sampling
from palestra.core.scope import Recorder, Scope, enter, scope
from palestra.models.embedded import gguf_engine, smollm2_engine
from palestra.models.model import Model

SHORT = Sampling(temperature=0.0, max_tokens=6)
pytestmark = pytest.mark.model


async def test_it_answers_an_easy_question_and_names_its_engine(smollm2):
    reply = await smollm2.complete("What is the capital of France?", sampling=GREEDY)
    assert reply.text == "The capital of France is Paris."
    assert (reply.engine, reply.model, reply.finish_reason) == ("llama.cpp", "smollm2", "stop")


async def test_an_empty_system_message_keeps_the_templates_own_sentence_out(smollm2):
    # ChatML: 3 tokens of system header, 2 of its end, the question's turn and the assistant's header.
    bare = await smollm2.complete("Hi", sampling=SHORT)
    empty = await smollm2.complete([Message("system", ""), Message("user", "Hi")], sampling=SHORT)
    assert bare.usage.input_tokens == empty.usage.input_tokens == 15
    assert bare.text == empty.text


async def test_a_raw_prompt_is_continued_as_it_stands(raw_smollm2):
    reply = await raw_smollm2.complete("The capital of France is", sampling=SHORT)
    assert reply.text.startswith(" Paris")
    assert reply.usage.input_tokens == 5


async def test_raw_form_takes_one_user_message_only(raw_smollm2):
    with pytest.raises(BadInput, match="one user message"):
        await raw_smollm2.complete([Message("system", "x"), Message("user", "y")])


async def test_a_begun_reply_is_continued(smollm2):
    begun = [Message("user", "What is the capital of France?"), Message("assistant", "The capital of France is")]
    assert (await smollm2.complete(begun, sampling=SHORT)).text.startswith(" Paris")


async def test_stop_strings_are_cut_with_the_space_before_them(raw_smollm2):
    stopping = Sampling(temperature=0.0, max_tokens=20, stop=("four",))
    reply = await raw_smollm2.complete("one two three four five\none two", sampling=stopping)
    assert (reply.text, reply.finish_reason) == (" three", "stop")


async def test_a_reply_ends_at_max_tokens_with_length(raw_smollm2):
    reply = await raw_smollm2.complete("one two three", sampling=Sampling(temperature=0.0, max_tokens=3))
    assert (reply.usage.output_tokens, reply.finish_reason) == (3, "length")


async def test_logprobs_are_the_models_own_and_of_the_drawn_token(raw_smollm2):
    asked = Sampling(temperature=0.0, max_tokens=1, logprobs=3)
    (token,) = (await raw_smollm2.complete("The capital of France is", sampling=asked)).logprobs
    assert token.token == " Paris"
    assert token.top[0] == (token.token, token.logprob)
    assert len(token.top) == 3
    assert -1.0 < token.logprob < 0.0


async def test_the_stream_brings_the_same_text_piece_by_piece(smollm2):
    whole = await smollm2.complete("Name three colours.", sampling=Sampling(temperature=0.0, max_tokens=12))
    pieces = [
        piece
        async for piece in smollm2.stream("Name three colours.", sampling=Sampling(temperature=0.0, max_tokens=12))
    ]
    assert len(pieces) > 3
    assert "".join(pieces) == whole.text


async def test_the_same_seed_gives_the_same_reply_alone_and_in_company(smollm2):
    warm = Sampling(temperature=0.8, max_tokens=12, seed=3)
    alone = (await smollm2.complete("Name an animal.", sampling=warm)).text
    others = [smollm2.complete(f"Name {n} animals.", sampling=Sampling(max_tokens=12)) for n in (2, 3)]
    again, *_ = await asyncio.gather(smollm2.complete("Name an animal.", sampling=warm), *others)
    assert again.text == alone


async def test_a_prompt_that_does_not_fit_is_refused_before_the_call(smollm2):
    recorder = Recorder()
    with_recorder = Scope(account=scope_account(), recorder=recorder)
    enter(with_recorder)
    with pytest.raises(ContextOverflow) as error:
        await smollm2.complete("word " * 2000)
    assert error.value.context == 768
    assert error.value.prompt_tokens > 2000
    assert with_recorder.account.used.calls == 0


async def test_a_long_prompt_that_fits_by_count_is_answered(smollm2):
    # More bytes than the slot has tokens, so it has to be counted; 600 words are about 600 tokens.
    reply = await smollm2.complete("word " * 600, sampling=Sampling(temperature=0.0, max_tokens=1))
    assert 600 <= reply.usage.input_tokens < 768


async def test_what_a_slot_has_read_is_not_read_again(smollm2):
    told = "Ann lives in Rome with two cats, a dog and a bird. " * 6
    await smollm2.complete(f"{told}Who lives in Rome?", sampling=SHORT)
    second = await smollm2.complete(f"{told}How many cats?", sampling=SHORT)
    assert second.usage.cached_tokens > 0.8 * second.usage.input_tokens


async def test_without_prompt_cache_everything_is_read_again():
    engine = smollm2_engine(slots=1, context=256, cache_prompt=False)
    model = Model(engine, name="uncached")
    first = await model.complete("Say hello to Ann.", sampling=SHORT)
    second = await model.complete("Say hello to Ann.", sampling=SHORT)
    assert first.usage.cached_tokens == second.usage.cached_tokens == 0
    engine.close()


async def test_with_affinity_every_agent_finds_its_own_conversation_cached():
    engine = smollm2_engine(slots=3, context=512, affinity="agent")
    model = Model(engine, name="affine")
    evaluated = total = 0
    enter(Scope(account=scope_account(), recorder=Recorder()))
    talks = {
        name: [Message("user", f"You are {name}. Talk about {name}'s day. " * 4)] for name in ("ann", "bob", "cid")
    }
    for turn in range(2):
        for name, talk in talks.items():
            with scope(agent=name):
                reply = await model.complete(talk, sampling=SHORT)
            talk += [reply.message, Message("user", f"Go on, part {turn}.")]
            if turn:
                evaluated += reply.usage.input_tokens - reply.usage.cached_tokens
                total += reply.usage.input_tokens
    engine.close()
    assert evaluated < 0.4 * total


async def test_the_event_loop_is_free_while_the_model_works(smollm2):
    task = asyncio.create_task(smollm2.complete("Tell a story.", sampling=Sampling(max_tokens=30)))
    ticks = 0
    while not task.done():
        await asyncio.sleep(0.005)
        ticks += 1
    assert ticks > 5


async def test_leaving_a_call_stops_the_model(raw_smollm2):
    task = asyncio.create_task(raw_smollm2.complete("Count: 1, 2, 3,", sampling=Sampling(max_tokens=700)))
    await asyncio.sleep(0.3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    started = time.perf_counter()
    threads = raw_smollm2.engine.llama._pool._threads
    await raw_smollm2.complete("one two", sampling=Sampling(max_tokens=1))
    while raw_smollm2.engine.llama._pool._work_queue.qsize():
        await asyncio.sleep(0.01)
    assert threads
    assert time.perf_counter() - started < 10  # 700 tokens would take longer on this engine's one thread


async def test_its_own_http_server_answers_with_the_same_model(smollm2):
    body = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4, "temperature": 0}
    async with httpx.AsyncClient(base_url=smollm2.engine.serve_address(), trust_env=False, timeout=60) as client:
        reply = await client.post("/v1/chat/completions", json=body)
    assert reply.status_code == 200
    assert reply.json()["usage"]["completion_tokens"] == 4


async def test_images_are_refused(smollm2):
    with pytest.raises(BadInput, match="does not see"):
        await smollm2.complete(Message("user", (Image("data:image/png;base64,AA=="),)))


def test_equal_options_share_one_engine_and_wrong_ones_are_named():
    assert smollm2_engine(slots=2) is smollm2_engine(slots=2) is not smollm2_engine(slots=3)
    with pytest.raises(BadInput, match="did you mean 'slots'"):
        smollm2_engine(slot=2)
    with pytest.raises(BadInput, match="slots=0"):
        smollm2_engine(slots=0)
    with pytest.raises(BadInput, match="affinity"):
        smollm2_engine(affinity="team")


async def test_files_that_are_no_models_are_named(tmp_path):
    with pytest.raises(UnknownModel, match="absent"):
        gguf_engine(tmp_path / "absent.gguf")
    (tmp_path / "bad.gguf").write_bytes(b"GGUF" + bytes(100))
    with pytest.raises(UnknownModel, match=r"cannot load .*bad\.gguf"):
        await Model(gguf_engine(tmp_path / "bad.gguf"), name="bad").complete("Hi")


def scope_account():
    from palestra.core.budget import Account

    return Account("test")
