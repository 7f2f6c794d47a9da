"""The recipe from end to end: with a scripted model in a second or two, and with the embedded one where it is."""

import json

import pytest

import palestra as pl
from palestra.core.errors import BadInput
from palestra.core.scope import current
from palestra.models import Model, Scripted

QUICK = {"items": 2, "problems": 2000, "debated": 20, "cache_tokens": (4,), "cache_agents": 2, "cache_rounds": 1}


def answer(request):
    if request.schema:
        return (
            '{"Reason": "", "Index": 1}'
            if "Index" in request.schema["properties"]
            else '{"Reason":"","Preference":"negative"}'
        )
    return "```python\nprint(1)\n```" if current().role == "process" else "\\boxed{1}"


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    store = str(tmp_path_factory.mktemp("store"))
    settings = {**QUICK, "baselines": ("mad", "persona", "self_refine", "self_contrast", "mrp")}
    return pl.run("dmad", model=Model(Scripted(answer), name="scripted"), store=store, set=settings)


@pytest.mark.model
def test_every_claim_is_measured(outcome):
    claims = {claim.name: claim for claim in outcome.claims}
    assert outcome.status == "done"
    assert set(claims) == {
        "protocol", "diverse_beats_same", "fewer_rounds", "beats_mad", "programs", "cache_tokens", "cache_time"
    }  # fmt: skip
    assert claims["protocol"].holds and claims["diverse_beats_same"].holds and claims["fewer_rounds"].holds
    assert claims["programs"].holds is None  # two items show nothing


@pytest.mark.model
def test_debates_are_kept_as_records_and_reported(outcome):
    lines = (outcome.store.folder / outcome.id / "dmad.jsonl").read_text().splitlines()
    assert [len(json.loads(line)["agent_contexts"]) for line in lines] == [3, 3]
    for name in ("cot alone", "self-consistency", "dmad, round 2", "persona", "mrp", "flips"):
        assert name in outcome.words
    failed = [row for row in outcome.results()["debates"].rows() if row["status"] == "failed"]
    assert failed == []


@pytest.mark.parametrize(
    "settings, words",
    [
        ({"rounds": 0}, "rounds"),
        ({"methods": ("cot", "cot")}, "allow_duplicates"),
        ({"methods": ("cot",)}, "at least two debaters"),
        ({"methods": ("cot", "ccot")}, "methods without image"),
        ({"methods": ("cot", "step_bak")}, "did you mean 'step_back'"),
        ({"task": "math"}, "a file, folder or hub id"),
        ({"source": "x"}, "generated"),
        ({"baselines": ("madd",)}, "baselines"),
    ],
)
def test_wrong_settings_are_refused_before_anything_is_written(tmp_path, settings, words):
    with pytest.raises(BadInput) as caught:
        pl.run("dmad", model=Model(Scripted(answer), name="scripted"), store=str(tmp_path), set=QUICK | settings)
    assert words in str(caught.value) and "\n" not in str(caught.value)
