"""The single-model baselines: what each asks, in which order, and how often."""

import pytest

from palestra import agents
from palestra.core.errors import BadInput
from palestra.core.records import Observation
from palestra.core.scope import current
from palestra.models import Model, Scripted
from palestra.teams import MAD, MRP, MADPersona, SelfConsistency, SelfContrast, SelfRefine

SUM = Observation(text="What is 17 + 25?", info={"kind": "number"})


def scripted(answer):
    stages = []

    def reply(request):
        stages.append((current().agent, current().role, current().stage))
        return answer(request, len(stages))

    return Model(Scripted(reply), name="scripted"), stages


async def test_self_consistency_takes_the_majority_of_independent_samples():
    model, stages = scripted(lambda request, count: f"\\boxed{{{[41, 42, 42][count - 1]}}}")
    action = await SelfConsistency(agents.chain_of_thought(model)).fresh(0).act(SUM)
    assert (action.text, action.info["answers"], action.info["calls"]) == ("42", ["41", "42", "42"], 3)
    assert [stage for _, _, stage in stages] == ["sample 1", "sample 2", "sample 3"]


async def test_self_refine_generates_criticises_and_refines():
    model, stages = scripted(lambda request, count: ["\\boxed{41}", "Wrong sum.", "\\boxed{42}"][count - 1])
    action = await SelfRefine(agents.chain_of_thought(model), model).act(SUM)
    assert (action.text, action.info["answers"], action.info["calls"]) == ("42", ["41", "42"], 3)
    assert [role for _, role, _ in stages] == ["answer", "feedback", "refine"]


async def test_self_refine_stops_when_nothing_is_wrong():
    model, _ = scripted(lambda request, count: ["\\boxed{42}", "No change needed."][count - 1])
    action = await SelfRefine(agents.chain_of_thought(model), model, rounds=5).act(SUM)
    assert (action.text, action.info["calls"]) == ("42", 2)


async def test_self_contrast_solves_from_several_perspectives_then_revises():
    def answer(request, count):
        role = current().role
        return {"perspectives": "1. tens first\n2) by columns", "revise": "\\boxed{42}"}.get(
            role, f"{role} \\boxed{{4}}"
        )

    model, stages = scripted(answer)
    action = await SelfContrast(model).act(SUM)
    assert action.info["perspectives"][:2] == ["tens first", "by columns"] and len(action.info["perspectives"]) == 3
    assert (action.text, action.info["calls"], len(stages)) == ("42", 7, 7)
    assert [role for _, role, _ in stages] == ["perspectives", *["solve"] * 3, "contrast", "checklist", "revise"]


async def test_meta_reasoning_picks_one_method_and_uses_it():
    model, _ = scripted(
        lambda request, count: '{"Reason": "sums", "Index": 2}' if request.schema else "use tens \\boxed{42}"
    )
    team = MRP(model, [agents.chain_of_thought(model), agents.step_back(model)])
    action = await team.act(SUM)
    assert (action.text, action.info["chosen"], action.info["drawn"], action.info["calls"]) == (
        "42",
        "step_back",
        False,
        3,
    )


async def test_meta_reasoning_draws_a_method_when_the_reply_names_none():
    model, _ = scripted(lambda request, count: "hm" if request.schema else "\\boxed{42}")
    team = MRP(model, [agents.io(model), agents.chain_of_thought(model)])
    chosen = {(await team.fresh(seed).act(SUM)).info["chosen"] for seed in range(20)}
    assert chosen == {"io", "cot"}


async def test_persona_debate_ends_when_the_moderator_prefers_a_side():
    def answer(request, count):
        side = current().agent
        if side == "moderator":
            preferred = "undecided" if current().stage == "round 1" else "negative"
            return f'{{"Reason": "clear", "Preference": "{preferred}"}}'
        return {"affirmative": "\\boxed{41}", "negative": "\\boxed{42}"}[side]

    model, stages = scripted(answer)
    action = await MADPersona(model).act(SUM)
    assert (action.text, action.info["rounds"], action.info["calls"]) == ("42", 2, 6)
    assert [agent for agent, _, _ in stages] == ["affirmative", "negative", "moderator"] * 2
    assert "methods" not in action.info  # a persona is no reasoning method


async def test_an_undecided_persona_debate_draws_between_the_sides():
    def answer(request, count):
        return (
            "no JSON" if request.schema else {"affirmative": "\\boxed{41}", "negative": "\\boxed{42}"}[current().agent]
        )

    model, _ = scripted(answer)
    texts = {(await MADPersona(model, rounds=1).fresh(seed).act(SUM)).text for seed in range(20)}
    assert texts == {"41", "42"}


def test_wrong_settings_are_refused():
    model, _ = scripted(lambda request, count: "")
    agent = agents.io(model)
    for make in (
        lambda: MAD(agent, n=1),
        lambda: MAD(agent, rounds=0),
        lambda: SelfConsistency(agent, samples=0),
        lambda: SelfRefine(agent, model, rounds=0),
        lambda: SelfContrast(model, perspectives=1),
        lambda: MRP(model, [agent]),
        lambda: MADPersona(model, rounds=0),
    ):
        with pytest.raises(BadInput):
            make()
