import pytest

from palestra import agents
from palestra.bench import debate_record, method_record
from palestra.core.errors import BadInput
from palestra.core.records import Image, Observation, Usage
from palestra.core.tasks import Item
from palestra.judges import pick_best
from palestra.models import Model, Scripted
from palestra.teams import Debate

PICTURE = Item("v1_0", "What is it?", "a cat", images=(Image("data:,x"),), info={"kind": "open", "imagesource": "web"})


def answer(request):
    return '{"Reason": "short", "Index": 2}' if request.schema else f"reply {len(request.messages)}"


async def test_a_debate_on_an_open_question_is_written_in_the_references_fields():
    model = Model(Scripted(answer), name="scripted")
    team = Debate([agents.io(model), agents.ccot(model), agents.ddcot(model)], rounds=2, judge=pick_best(model))
    action = await team.act(Observation(text=PICTURE.question, images=PICTURE.images, info=PICTURE.info))
    record = debate_record(PICTURE, action.info, singles={"io": "a cat", "ccot": "a dog", "ddcot": "a cat"})
    assert [len(context) for context in record["agent_contexts"]] == [4, 4, 4]  # n x 2N
    assert [len(row) for row in record["answers_"]] == [3, 3]  # N x n
    assert (record["eval_index"], record["eval_reason"], record["eval_answer"]) == (
        1,
        "short",
        record["answers_"][-1][1],
    )
    assert (record["io_output"], record["ccot_output"], record["ddcot_output"]) == ("a cat", "a dog", "a cat")
    assert (record["question"], record["answer"], record["imagesource"]) == ("What is it?", "a cat", "web")


@pytest.mark.parametrize("make, field", [(agents.ccot, "scene_graphs"), (agents.ddcot, "subquestion_answerses")])
async def test_a_single_method_is_written_with_its_processes(make, field):
    agent = make(Model(Scripted(answer), name="scripted"))
    seen = Observation(text=PICTURE.question, images=PICTURE.images, info=PICTURE.info)
    infos = [(await agent.act(seen)).info for _ in range(3)]
    record = method_record(PICTURE, infos, usage=Usage(calls=6, input_tokens=10, output_tokens=4))
    assert (record[field], record["outputs"]) == (["reply 1"] * 3, ["reply 3"] * 3)
    assert record["usage"] == {"prompt_tokens": 10, "completion_tokens": 4}


def test_other_infos_are_refused():
    with pytest.raises(BadInput, match="contexts"):
        debate_record(PICTURE, {"answers": []})
    with pytest.raises(BadInput):
        method_record(PICTURE, [])
