"""Scores are the sum of the model's own log-probabilities, whatever shares the batch; only rounding differs."""

import asyncio

import numpy as np
import pytest
import torch

from palestra.core.errors import BadInput, ContextOverflow
from palestra.core.records import GREEDY, Sampling
from palestra.models.embedded.torch_lm import native_dtype

PROMPT = "Question: What is the capital of Italy?\nAnswer: Rome\n\nQuestion: What is the capital of France?\nAnswer:"
OPTIONS = (" Paris", " London", " New York City", " the city of Madrid")
pytestmark = pytest.mark.model


def by_hand(lm, prompt, option):
    """One forward pass of the whole text, as the textbook has it."""
    prefix, ending = lm.tokens(prompt), lm.tokens(option, start=False)
    with torch.inference_mode():
        values = lm.model(torch.tensor([prefix + ending])).logits[0].log_softmax(-1)
    return sum(float(values[len(prefix) - 1 + place, token]) for place, token in enumerate(ending))


async def test_a_score_is_the_sum_over_the_options_tokens(float32):
    found = await float32.score(PROMPT, OPTIONS)
    assert found == pytest.approx([by_hand(float32.engine.lm, PROMPT, option) for option in OPTIONS], abs=1e-3)
    assert max(found) == found[0]


async def test_scores_do_not_depend_on_what_shares_the_batch(float32):
    alone = await float32.score(PROMPT, OPTIONS[:1])
    prompts = [PROMPT, "Grass is", "The opposite of hot is"]
    together = await asyncio.gather(*(float32.score(prompt, OPTIONS) for prompt in prompts))
    assert together[0][0] == pytest.approx(alone[0], abs=1e-3)


async def test_rows_of_one_option_each_give_the_same_scores(float32, monkeypatch):
    lm = float32.engine.lm
    packed = await float32.score(PROMPT, OPTIONS)
    monkeypatch.setattr(type(lm), "plain", property(lambda self: False))
    assert await float32.score(PROMPT, OPTIONS) == pytest.approx(packed, abs=1e-3)


async def test_the_embedded_default_scores_with_torch_and_says_so(smollm2, float32):
    from palestra.core.budget import Account
    from palestra.core.scope import Recorder, Scope, enter

    recorder = Recorder()
    enter(Scope(account=Account("test"), recorder=recorder))
    found = await smollm2.score(PROMPT, OPTIONS)
    assert recorder.calls[-1].engine == "torch"
    assert smollm2.engine.torch.lm.model.dtype == getattr(torch, native_dtype())
    assert found == pytest.approx(await float32.score(PROMPT, OPTIONS), abs=0.15)


async def test_a_prompt_too_long_or_empty_is_named_and_its_neighbours_are_scored(float32):
    long, empty, good = await asyncio.gather(
        float32.score("word " * 8200, (" a",)),
        float32.score("", (" a",)),
        float32.score("A", (" a",)),
        return_exceptions=True,
    )
    assert isinstance(long, ContextOverflow)
    assert isinstance(empty, BadInput)
    assert good[0] < 0


async def test_hidden_states_are_the_models_own_without_padding(float32):
    texts = ["Hello", "A somewhat longer text"]
    lm = float32.engine.lm
    found = await float32.hidden_states(texts, layer=3)
    for text, states in zip(texts, found, strict=True):
        with torch.inference_mode():
            expected = lm.model(torch.tensor([lm.tokens(text)]), output_hidden_states=True).hidden_states[3][0]
        assert states.dtype == np.float32
        np.testing.assert_allclose(states, expected.numpy(), atol=1e-3)
    with pytest.raises(BadInput, match="from -31 to 30"):
        await float32.hidden_states(texts, layer=31)


async def test_many_prompts_are_decoded_together_each_as_if_alone(float32):
    prompts = ["What is the capital of France?", "Say hello.", "Name a fruit, please, in one word."]
    alone = [
        (await float32.complete(prompt, sampling=Sampling(temperature=0.0, max_tokens=8))).text for prompt in prompts
    ]
    lengths = (8, 3, 8)
    replies = await asyncio.gather(
        *(
            float32.complete(prompt, sampling=Sampling(temperature=0.0, max_tokens=length))
            for prompt, length in zip(prompts, lengths, strict=True)
        )
    )
    assert replies[0].text == alone[0] == "The capital of France is Paris."
    assert alone[1].startswith(replies[1].text)
    assert replies[2].text == alone[2]
    assert (replies[1].usage.output_tokens, replies[1].finish_reason) == (3, "length")
    assert replies[0].engine == "torch"


async def test_streaming_holds_back_what_may_become_a_stop_string(float32):
    stopping = Sampling(temperature=0.0, max_tokens=12, stop=(" is Paris",))
    pieces = [piece async for piece in float32.stream("What is the capital of France?", sampling=stopping)]
    assert "".join(pieces) == "The capital of France"
    assert len(pieces) > 1


async def test_logprobs_of_a_reply_agree_with_scores(float32):
    asked = Sampling(temperature=0.0, max_tokens=1, logprobs=2)
    (token,) = (await float32.complete("What is the capital of France?", sampling=asked)).logprobs
    rendered = float32.engine._prompt(request_for("What is the capital of France?"))[0]
    assert token.logprob == pytest.approx((await float32.score(rendered, (token.token,)))[0], abs=1e-3)
    assert GREEDY.temperature == 0


def request_for(text):
    from palestra.core.records import Message
    from palestra.models.engine import Request

    return Request(kind="complete", model="", messages=(Message("user", text),))
