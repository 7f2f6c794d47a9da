"""What was trained in torch says the same in llama.cpp: adapters and merged models, query and key order included."""

import json
import shutil

import numpy as np
import pytest

from palestra.core.errors import BadInput
from palestra.core.records import Sampling
from palestra.models.embedded import gguf_engine, gguf_export, smollm2_engine, weights
from palestra.models.model import Model

pytestmark = [pytest.mark.model, pytest.mark.slow]
PROMPT = "The capital of France is"
TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
TOLERANCE = 0.03  # F16 weights against float32
WIDTH = 576


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A random LoRA large enough to change the reply's odds, its folder, and torch's odds with and without it."""
    peft, torch = pytest.importorskip("peft"), pytest.importorskip("torch")
    from palestra.models.embedded.quiet import quietly, transformers

    folder = tmp_path_factory.mktemp("lora")
    torch.manual_seed(0)
    with quietly():
        base = transformers().AutoModelForCausalLM.from_pretrained(weights.smollm2_torch(), dtype=torch.float32)
        tokenizer = transformers().AutoTokenizer.from_pretrained(weights.smollm2_torch())
    model = peft.get_peft_model(base, peft.LoraConfig(r=4, lora_alpha=8, target_modules=list(TARGETS)))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(0, 0.015)
    model.save_pretrained(folder)
    ids = tokenizer(PROMPT, return_tensors="pt").input_ids

    def odds(model):
        with torch.inference_mode():
            values, places = model(ids).logits[0, -1].log_softmax(-1).topk(8)
        return {tokenizer.decode([place]): value for place, value in zip(places.tolist(), values.tolist(), strict=True)}

    with model.disable_adapter():
        plain = odds(model)
    tuned = odds(model)
    merged = model.merge_and_unload()
    gguf_export.write_model(merged, folder / "merged.gguf", kind="F16")
    gguf_export.write_model(weights.smollm2_torch(), folder / "base.gguf", kind="F16")
    return folder, plain, tuned


async def served(engine) -> dict[str, float]:
    asked = Sampling(temperature=0.0, max_tokens=1, logprobs=40)
    (token,) = (await Model(engine, name="x").complete(PROMPT, sampling=asked)).logprobs
    engine.close()
    return dict(reversed(token.top))  # of two tokens that read alike the likelier one


def gap(expected: dict[str, float], found: dict[str, float]) -> float:
    return max(abs(value - found.get(token, -np.inf)) for token, value in expected.items())


async def test_a_merged_model_has_torchs_log_probabilities(trained):
    folder, plain, tuned = trained
    found = await served(gguf_engine(folder / "merged.gguf", raw=True, slots=1))
    assert gap(tuned, found) < TOLERANCE < 0.2 < gap(plain, found)


async def test_an_adapter_on_its_base_has_torchs_log_probabilities(trained):
    folder, plain, tuned = trained
    adapter = gguf_export.write_adapter(folder, folder / "adapter.gguf")
    base = folder / "base.gguf"
    assert gap(plain, await served(gguf_engine(base, raw=True, slots=1))) < TOLERANCE
    assert gap(tuned, await served(gguf_engine(base, adapter=adapter, raw=True, slots=1))) < TOLERANCE


async def test_the_embedded_model_takes_the_folder_for_both_engines(trained):
    folder, plain, tuned = trained
    engine = smollm2_engine(adapter=folder, raw=True, slots=1, dtype="float32")
    scored = await Model(engine, name="x").score(PROMPT, list(tuned))
    assert scored == pytest.approx(list(tuned.values()), abs=1e-3)
    found = await served(engine)
    assert gap(tuned, found) != gap(plain, found)


def test_reordering_is_a_permutation_within_each_head():
    rows = np.arange(WIDTH, dtype=np.float32)[:, None]
    moved = gguf_export.interleaved(rows, 9).ravel()
    assert moved[:4].tolist() == [0, 32, 1, 33]
    assert moved[64:66].tolist() == [64, 96]
    assert sorted(moved) == sorted(rows.ravel())


def test_what_is_not_plain_lora_is_refused(trained, tmp_path):
    folder = trained[0]
    shutil.copy(folder / "adapter_model.safetensors", tmp_path)
    config = json.loads((folder / "adapter_config.json").read_text())
    for change in ({"use_dora": True}, {"peft_type": "IA3"}, {"modules_to_save": ["lm_head"]}, {"lora_alpha": 0}):
        (tmp_path / "adapter_config.json").write_text(json.dumps(config | change))
        with pytest.raises(BadInput):
            gguf_export.write_adapter(tmp_path, tmp_path / "out.gguf")
    with pytest.raises(BadInput, match="adapter_config"):
        gguf_export.write_adapter(tmp_path / "absent", tmp_path / "out.gguf")
    assert not list(tmp_path.glob("*.gguf"))


def test_a_model_of_another_shape_is_refused(tmp_path):
    transformers = pytest.importorskip("transformers")
    tiny = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(hidden_size=32, intermediate_size=64, num_hidden_layers=2, vocab_size=64)
    )
    with pytest.raises(BadInput, match="SmolLM2"):
        gguf_export.write_model(tiny, tmp_path / "tiny.gguf")
    assert not list(tmp_path.iterdir())
