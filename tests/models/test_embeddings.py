"""Sentence embeddings: unit rows, close for like meanings, the same whatever shares the batch."""

import asyncio

import numpy as np
import pytest

from palestra.core.errors import BadInput, MissingExtra
from palestra.models.embeddings import minilm_engine
from palestra.models.model import Model

pytestmark = pytest.mark.model
TEXTS = ("A cat sits on the mat.", "A kitten rests on the rug.", "Share prices fell sharply today.")


@pytest.fixture(scope="module")
def minilm():
    try:
        return Model(minilm_engine(), name="minilm")
    except MissingExtra as error:
        pytest.skip(str(error))


async def test_rows_have_length_one_and_like_meanings_are_close(minilm):
    vectors = await minilm.embed(TEXTS)
    assert vectors.shape == (3, 384)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    likeness = vectors @ vectors.T
    assert likeness[0, 1] > 0.5 > 0.2 > likeness[0, 2]


async def test_a_vector_is_the_masked_mean_of_the_last_states(minilm):
    import torch

    tokenizer, model = minilm.engine._load()
    vectors = await minilm.embed(TEXTS)
    for text, vector in zip(TEXTS, vectors, strict=True):
        with torch.inference_mode():
            states = model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0].numpy()
        mean = states.mean(axis=0)
        np.testing.assert_allclose(vector, mean / np.linalg.norm(mean), atol=1e-5)


async def test_company_changes_nothing_and_order_is_kept(minilm):
    long = "many words " * 400  # cut at 256 tokens
    alone = await minilm.embed(TEXTS[:1])
    together, other = await asyncio.gather(minilm.embed((long, *TEXTS)), minilm.embed(TEXTS[2:]))
    np.testing.assert_allclose(together[1], alone[0], atol=1e-5)
    np.testing.assert_allclose(together[3], other[0], atol=1e-5)


async def test_it_cannot_speak(minilm):
    with pytest.raises(BadInput, match="only embeds"):
        await minilm.complete("Hi")
