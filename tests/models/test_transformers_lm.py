"""Any causal model of transformers: tiny ones made here, saved and loaded by path; wrong paths are named."""

import asyncio

import numpy as np
import pytest

from palestra.core.errors import BadInput, BadReply, ContextOverflow, UnknownModel
from palestra.core.records import Message, Sampling
from palestra.models.model import Model
from palestra.models.transformers_lm import hf_engine

transformers = pytest.importorskip("transformers")
torch = pytest.importorskip("torch")

WORDS = "<s> </s> <pad> user assistant system : yes no maybe red green blue one two three four . the a is".split()
CHAT = "<s>{% for m in messages %}{{ m['role'] }} : {{ m['content'] }} {% endfor %}assistant :"


def save(folder, kind):
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    raw = Tokenizer(models.WordLevel({word: place for place, word in enumerate(WORDS)}, unk_token="<pad>"))
    raw.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    raw.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=raw, bos_token="<s>", eos_token="</s>", pad_token="<pad>", chat_template=CHAT
    )
    torch.manual_seed(0)
    if kind == "llama":
        config = transformers.LlamaConfig(
            vocab_size=len(WORDS), hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=64, bos_token_id=0, eos_token_id=1, pad_token_id=2,
            initializer_range=0.5, tie_word_embeddings=False,
        )  # fmt: skip
        model = transformers.LlamaForCausalLM(config)
    elif kind == "gpt2":
        config = transformers.GPT2Config(
            vocab_size=len(WORDS), n_embd=32, n_layer=2, n_head=4, n_positions=64, bos_token_id=0, eos_token_id=1,
            initializer_range=0.5,
        )  # fmt: skip
        model = transformers.GPT2LMHeadModel(config)
    else:  # an architecture that is not on the list of plain ones
        config = transformers.GPTNeoXConfig(
            vocab_size=len(WORDS), hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
            max_position_embeddings=64, bos_token_id=0, eos_token_id=1, initializer_range=0.5,
        )  # fmt: skip
        model = transformers.GPTNeoXForCausalLM(config)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


@pytest.fixture(scope="module", params=["llama", "gpt2", "gpt_neox"])
def tiny(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    save(folder, request.param)
    return Model(hf_engine(folder, dtype="float32"), name=f"hf:{request.param}")


async def test_scores_are_the_models_own(tiny):
    lm = tiny.engine.lm
    options = ("red", "green blue", "one two three")
    found = await tiny.score("the a is", options)
    for option, score in zip(options, found, strict=True):
        prefix, ending = lm.tokens("the a is"), lm.tokens(option, start=False)
        with torch.inference_mode():
            values = lm.model(torch.tensor([prefix + ending])).logits[0].log_softmax(-1)
        expected = sum(float(values[len(prefix) - 1 + place, token]) for place, token in enumerate(ending))
        assert score == pytest.approx(expected, abs=1e-4)
    assert prefix[0] == 0  # the tokenizer's start token comes once, before the prompt
    assert ending[0] != 0


async def test_greedy_replies_are_those_of_transformers_own_generate(tiny):
    lm = tiny.engine.lm
    talks = ["red", "one two three", "is the a blue ."]
    replies = await asyncio.gather(
        *(tiny.complete(text, sampling=Sampling(temperature=0.0, max_tokens=6)) for text in talks)
    )
    for text, reply in zip(talks, replies, strict=True):
        rendered = lm.tokenizer.apply_chat_template(
            [{"role": "user", "content": text}], tokenize=False, add_generation_prompt=True
        )
        ids = torch.tensor([lm.tokens(rendered, start=False)])
        made = lm.model.generate(ids, max_new_tokens=6, do_sample=False, pad_token_id=2)[0, ids.shape[1] :]
        assert reply.text == lm.tokenizer.decode(made, skip_special_tokens=True)
        assert reply.usage.input_tokens == ids.shape[1]


async def test_the_same_seed_draws_the_same_reply_and_another_another(tiny):
    async def draw(seed):
        return (await tiny.complete("red", sampling=Sampling(temperature=1.0, max_tokens=8, seed=seed))).text

    assert await draw(1) == await draw(1)
    assert len({await draw(seed) for seed in range(6)}) > 1


async def test_the_stream_is_the_reply(tiny):
    asked = Sampling(temperature=0.0, max_tokens=6)
    pieces = [piece async for piece in tiny.stream("red", sampling=asked)]
    assert "".join(pieces) == (await tiny.complete("red", sampling=asked)).text


async def test_hidden_states_have_a_row_for_every_token(tiny):
    states = await tiny.hidden_states(["red", "one two three"])
    assert [one.shape for one in states] == [(2, 32), (4, 32)]
    assert all(one.dtype == np.float32 for one in states)


async def test_what_does_not_fit_is_refused(tiny):
    with pytest.raises(ContextOverflow, match="does not fit the 64-token context"):
        await tiny.complete("red " * 80)
    reply = await tiny.complete("red " * 50, sampling=Sampling(temperature=1.0, max_tokens=500, seed=5))
    assert reply.usage.input_tokens + reply.usage.output_tokens <= 65


async def test_a_schema_is_told_in_words_and_the_reply_validated(tiny):
    with pytest.raises(BadReply):
        await tiny.complete("red", schema={"type": "object"}, sampling=Sampling(max_tokens=2))


async def test_a_begun_reply_is_part_of_the_prompt(tiny):
    begun = [Message("user", "red"), Message("assistant", " yes yes")]
    plain = await tiny.complete("red", sampling=Sampling(temperature=0.0, max_tokens=1))
    reply = await tiny.complete(begun, sampling=Sampling(temperature=0.0, max_tokens=1))
    assert reply.usage.input_tokens == plain.usage.input_tokens + 2


async def test_wrong_paths_names_and_options_are_one_clear_line(tmp_path):
    with pytest.raises(UnknownModel, match="no such folder"):
        hf_engine(tmp_path / "absent")
    with pytest.raises(UnknownModel, match=r"no config\.json"):
        hf_engine(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    with pytest.raises(UnknownModel, match="transformers cannot load it") as error:
        await Model(hf_engine(tmp_path), name="x").complete("Hi")
    assert "\n" not in str(error.value)
    with pytest.raises(BadInput, match="did you mean 'dtype'"):
        hf_engine(tmp_path, dtyp="float32")
    with pytest.raises(BadInput, match="dtype"):
        hf_engine(tmp_path, dtype="int8")
