"""Models by name."""

import pickle
import subprocess
import sys

import pytest

from palestra.core.budget import Account
from palestra.core.errors import BadInput, MissingKey, NoRecordedReply, UnknownModel
from palestra.core.records import Call, Sampling
from palestra.core.scope import Recorder, Scope, enter
from palestra.core.tasks import Item
from palestra.models import Endpoint, Model, Price, Recorded, Scripted, model


@pytest.fixture(autouse=True)
def no_keys(monkeypatch):
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "PALESTRA_API_KEY", "PALESTRA_PRICES"):
        monkeypatch.delenv(name, raising=False)


def endpoint(made: Model) -> Endpoint:
    assert isinstance(made.engine, Endpoint)
    return made.engine


@pytest.mark.parametrize(
    "spec, near",
    [("smolm2", "smollm2"), ("scriptd", "scripted"), ("openia/gpt-5", "openai/<name>"), ("guff:x.gguf", "gguf:<path>")],
)
def test_an_unknown_spec_is_one_line_with_the_list_and_the_nearest_name(spec, near):
    with pytest.raises(UnknownModel) as found:
        model(spec)
    line = str(found.value)
    assert line.startswith(f"unknown model '{spec}': expected one of smollm2, minilm, hf:<path or id>")
    assert line.endswith(f"(did you mean '{near}'?)")


@pytest.mark.parametrize("spec", ["", "hf:", "gguf:", "openai/", "zzzz", "http", "scripted:x"])
def test_half_a_spec_is_unknown(spec):
    with pytest.raises(UnknownModel, match="expected one of"):
        model(spec)


def test_a_missing_key_is_one_line_when_the_model_is_made():
    with pytest.raises(MissingKey, match=r"^openai/gpt-5 needs a key: set OPENAI_API_KEY in the environment$"):
        model("openai/gpt-5")
    with pytest.raises(MissingKey, match="set PALESTRA_API_KEY or OPENAI_API_KEY"):
        model("https://models.example.org/v1#m")


@pytest.mark.parametrize("spec", ["http://localhost:1/v1#m", "http://127.0.0.1:1/v1#org/m", "http://[::1]:1/v1#m"])
def test_loopback_needs_no_key(spec):
    assert "authorization" not in endpoint(model(spec))._headers


def test_keys_come_from_the_environment_and_are_nowhere_shown(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", " sk-openai\n")
    gpt = model("openai/gpt-5")
    assert endpoint(gpt).url == "https://api.openai.com/v1"
    assert endpoint(gpt)._headers["authorization"] == "Bearer sk-openai"
    monkeypatch.setenv("PALESTRA_API_KEY", "sk-own")
    other = model("https://models.example.org/v1#m")
    assert endpoint(other)._headers["authorization"] == "Bearer sk-own"
    for made in (gpt, other):
        assert b"sk-" not in pickle.dumps(made)
        assert "sk-" not in f"{made!r} {made.engine!r}"
    monkeypatch.setenv("OPENAI_API_KEY", "sk-ü")
    with pytest.raises(MissingKey, match="holds characters that no key has"):
        model("openai/gpt-5")


def test_the_base_url_of_openai_can_be_another(monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:4000/v1/")
    made = endpoint(model("openai/gpt-5"))
    assert (made.url, made.model, made.modern) == ("http://localhost:4000/v1", "gpt-5", False)


def test_an_address_without_the_name_of_a_model_is_refused():
    with pytest.raises(BadInput, match="http://localhost:8000/v1#<name of the model>"):
        model("http://localhost:8000/v1")


def test_options_reach_the_endpoint_and_wrong_ones_are_named(tmp_path):
    prices = tmp_path / "prices.json"
    prices.write_text('{"m": {"input": 1, "output": 2}}')
    made = endpoint(model("http://localhost:1/v1#m", attempts=2, timeout=3.0, prices=prices, connections=7))
    assert (made.backoff.attempts, made._timeouts["read"], made.connections) == (2, 3.0, 7)
    assert made.price == Price(1.0, 2.0)
    with pytest.raises(BadInput, match=r"options.*'tiemout'"):
        model("http://localhost:1/v1#m", tiemout=3)
    with pytest.raises(BadInput, match=r"options.*'latenzy'"):
        model("scripted", latenzy=3)


def test_options_that_change_replies_are_part_of_the_name_and_others_are_not():
    assert model("http://localhost:1/v1#m", attempts=2, timeout=3.0).name == "http://localhost:1/v1#m"
    items = [Item("1", "1+1", 2)]
    assert model("simulated:0.5", items=items, form="= {answer}").name == "simulated:0.5?form== {answer}"


def test_a_model_passes_through_or_is_made_again_with_what_is_given():
    made = model("scripted")
    assert model(made) is made
    other = model(made, sampling=Sampling(temperature=0.0), cache=Recorded({}), offline=True)
    assert (other.engine, other.defaults.temperature, other.offline) == (made.engine, 0.0, True)
    assert made.defaults.temperature == 0.7
    with pytest.raises(BadInput, match="the model is made already"):
        model(made, latency=1.0)


def test_an_engine_becomes_a_model_and_other_things_do_not():
    engine = Scripted(name="mine")
    assert (model(engine).engine, model(engine).name) == (engine, "mine")
    with pytest.raises(BadInput):
        model(3)  # type: ignore


def test_offline_without_recorded_replies_is_refused():
    with pytest.raises(BadInput, match="offline="):
        model("scripted", offline=True)


@pytest.mark.parametrize("spec", ["openai/gpt-5", "gguf:/no/such/file.gguf", "hf:/no/such/folder", "scripted"])
async def test_a_replay_needs_no_key_and_no_weights(spec):
    call = (await recorded_call(spec)) if spec == "scripted" else None
    replay = model(spec, cache=Recorded.of([call] if call else []), offline=True)
    assert replay.name == spec
    if call is not None:
        enter(Scope(account=Account("episode"), recorder=Recorder()))
        assert (await replay.complete("x")).text == "x"
    with pytest.raises(NoRecordedReply):
        await replay.complete("y")
    with pytest.raises(NoRecordedReply):
        async for _ in replay.stream("y"):
            pass


async def recorded_call(spec: str) -> Call:
    scope = Scope(account=Account("episode"), recorder=Recorder())
    enter(scope)
    await model(spec).complete("x")
    return scope.recorder.calls[0]


async def test_embedding_without_the_weights_says_what_is_missing_even_in_a_replay():
    with pytest.raises(UnknownModel, match="/no/such/file"):
        await model("gguf:/no/such/file.gguf", cache=Recorded({}), offline=True).embed(["x"])


def test_a_replay_of_a_misspelt_model_is_still_unknown():
    with pytest.raises(UnknownModel, match="did you mean"):
        model("smolm2", cache=Recorded({}), offline=True)


def test_importing_the_room_loads_no_heavy_package():
    code = (
        "import sys, palestra.models;"
        "heavy = {'httpx', 'numpy', 'torch', 'transformers', 'jsonschema', 'xllamacpp', 'sqlite3'} & set(sys.modules);"
        "sys.exit(f'loaded: {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_model_is_the_function_even_after_the_module_of_that_name_is_imported():
    import palestra.models
    import palestra.models.model

    assert callable(palestra.models.model)
