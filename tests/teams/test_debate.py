"""Rounds are simultaneous, messages hold processes, calls are counted, and the judge decides every round."""

import asyncio
from itertools import pairwise

import pytest

from palestra import agents
from palestra.core import Recorder, Scope
from palestra.core.budget import Account
from palestra.core.errors import BadInput, ModelError
from palestra.core.records import Observation
from palestra.core.scope import current, enter
from palestra.judges import majority, pick_best
from palestra.models import Model, Scripted
from palestra.teams import MAD, Debate, Turn
from palestra.tools import Sandbox

SUM = Observation(text="What is 17 + 25?", info={"kind": "number"})
OPEN = Observation(text="Why is the sky blue?")


@pytest.fixture(scope="module")
def sandbox():
    return Sandbox()


def scripted(answer):
    return Model(Scripted(answer), name="scripted")


def tagging(request):
    """Every reply is unique: it names who says it, in which round and role, so that leaks can be traced."""
    scope = current()
    if scope.role == "process" and scope.agent == "pot":
        return f"```python\nprint(42) # <{scope.agent} {scope.stage} {scope.role}>\n```"
    return f"<{scope.agent} {scope.stage} {scope.role}> \\boxed{{42}}"


def dmad(model, sandbox, **settings):
    team = [agents.chain_of_thought(model), agents.step_back(model), agents.program(model, sandbox=sandbox)]
    return Debate(team, **settings)


async def recorded(team, question=SUM):
    """The action and the calls it took."""
    recorder = Recorder()

    async def act():
        enter(Scope(account=Account("test"), recorder=recorder))
        return await team.fresh(7).act(question)

    action = await asyncio.create_task(act())
    return action, recorder.calls


async def test_dmad_with_three_text_methods_and_three_rounds_makes_fifteen_calls(sandbox):
    action, calls = await recorded(dmad(scripted(tagging), sandbox))
    assert len(calls) == 15 == action.info["calls"] == action.info["calls_planned"]
    by_round = [sum(call.stage == f"round {number}" for call in calls) for number in (1, 2, 3)]
    assert by_round == [1 + 2 + 2] * 3
    assert {(call.agent, call.role) for call in calls} == {
        ("cot", "answer"), ("step_back", "process"), ("step_back", "answer"), ("pot", "process"), ("pot", "answer")
    }  # fmt: skip
    assert action.text == "42"


async def test_a_language_model_judge_adds_one_call_a_round():
    def answer(request):
        return '{"Reason": "first", "Index": 1}' if request.schema else f"{current().agent} says so"

    model = scripted(answer)
    team = Debate([agents.chain_of_thought(model), agents.io(model)], judge=pick_best(model))
    action, calls = await recorded(team, OPEN)
    assert len(calls) == 2 * 3 + 3
    assert [call.stage for call in calls if call.role == "judge"] == ["round 1", "round 2", "round 3"]
    assert action.text == "cot says so"


async def test_nobody_sees_a_message_of_the_running_round_and_everybody_sees_all_of_the_last(sandbox):
    _, calls = await recorded(dmad(scripted(tagging), sandbox))
    for call in calls:
        prompt = "\n".join(message.text for message in call.messages)
        now = int(call.stage[-1])
        for agent in ("cot", "step_back", "pot"):
            for number in (1, 2, 3):
                heard = f"<{agent} round {number} " in prompt
                if agent == call.agent:
                    own_process = number == now and call.role == "answer" and agent != "cot"
                    assert heard == (number < now or own_process), (call.agent, call.stage, agent, number)
                else:
                    assert heard == (number < now), (call.agent, call.stage, agent, number)


async def test_peers_share_their_processes_and_own_messages_come_first(sandbox):
    _, calls = await recorded(dmad(scripted(tagging), sandbox))
    second = next(call for call in calls if (call.agent, call.stage) == ("cot", "round 2"))
    own, heard = second.messages[1].text, second.messages[-1].text
    assert second.messages[1].role == "assistant" and own.startswith("<cot round 1")
    assert "<step_back round 1 process>" in heard and "<step_back round 1 answer>" in heard
    assert heard.index("<step_back round 1") < heard.index("<pot round 1") < heard.index("Question: What is 17")
    assert "print(42)" in heard and "The program printed:" in heard


async def test_sharing_answers_only_hides_the_processes(sandbox):
    _, calls = await recorded(dmad(scripted(tagging), sandbox, share="answer"))
    second = next(call for call in calls if (call.agent, call.stage) == ("cot", "round 2"))
    assert "process>" not in second.messages[-1].text and "Answer: 42" in second.messages[-1].text


async def test_a_slow_debater_does_not_leak_and_a_fast_one_does_not_wait_for_unread_peers():
    order = []

    async def answer(request):
        scope = current()
        await asyncio.sleep(0.05 if scope.agent == "slow" else 0)
        order.append((scope.agent, scope.stage))
        return f"<{scope.agent} {scope.stage}> \\boxed{{1}}"

    model = scripted(answer)
    team = [agents.io(model, name=name) for name in ("fast", "mate", "slow")]
    debate = Debate(team, rounds=3, allow_duplicates=True, sees=[[1], [0], [0, 1]])
    await recorded(debate)
    assert order[-3:] == [("slow", "round 1"), ("slow", "round 2"), ("slow", "round 3")]


async def test_history_as_sent_grows_by_appending_only(sandbox):
    _, calls = await recorded(dmad(scripted(tagging), sandbox))
    for agent in ("cot", "step_back", "pot"):
        mine = [call for call in calls if call.agent == agent]
        for earlier, later in pairwise(mine):
            assert later.messages[: len(earlier.messages)] == earlier.messages
            assert later.messages[len(earlier.messages)] == earlier.reply


async def test_plain_history_keeps_the_question_and_the_stored_message(sandbox):
    action, calls = await recorded(dmad(scripted(tagging), sandbox, history="plain"))
    last = next(call for call in calls if (call.agent, call.stage, call.role) == ("step_back", "round 3", "process"))
    assert [message.role for message in last.messages] == ["user", "assistant", "user", "assistant", "user"]
    assert "Step back" not in last.messages[0].text
    assert last.messages[1].text.startswith("I first derived the general principle")
    contexts = action.info["contexts"]
    assert [len(context) for context in contexts] == [6, 6, 6]  # two messages a round


async def test_answers_processes_and_decisions_are_recorded_for_every_round():
    def answer(request):
        scope = current()
        return f"\\boxed{{{ {'a': 1, 'b': 2, 'c': int(scope.stage[-1])}[scope.agent] }}}"

    model = scripted(answer)
    team = Debate([agents.io(model, name=name) for name in "abc"], rounds=2, allow_duplicates=True)
    info = (await recorded(team))[0].info
    assert info["answers"] == [["1", "2", "1"], ["1", "2", "2"]]
    assert info["decisions"] == ["1", "2"]
    assert info["methods"] == ["io"] * 3 and info["rounds"] == 2


async def test_a_tie_is_drawn_from_the_episode_seed():
    model = scripted(lambda request: f"\\boxed{{{ord(current().agent)}}}")
    team = Debate([agents.io(model, name=name) for name in "ab"], rounds=1, allow_duplicates=True)
    drawn = [(await team.fresh(seed).act(SUM)).text for seed in range(30)]
    assert set(drawn) == {"97", "98"}
    assert drawn == [(await team.fresh(seed).act(SUM)).text for seed in range(30)]


async def test_failed_votes_are_dropped_and_no_vote_at_all_is_no_answer():
    model = scripted(lambda request: "\\boxed{5}" if current().agent == "c" else "no idea")
    team = Debate([agents.io(model, name=name) for name in "abc"], rounds=1, allow_duplicates=True)
    action = await team.act(SUM)
    assert (action.text, action.info["answers"]) == ("5", [[None, None, "5"]])
    silent = Debate([agents.io(scripted(lambda request: "?"), name=name) for name in "ab"], allow_duplicates=True)
    assert (await silent.act(SUM)).text == ""


async def test_early_stop_on_consensus_reports_what_it_saved(sandbox):
    action, calls = await recorded(dmad(scripted(tagging), sandbox, early_stop=True))
    assert len(calls) == 5
    assert {key: action.info[key] for key in ("rounds", "calls", "calls_saved", "consensus")} == {
        "rounds": 1, "calls": 5, "calls_saved": 10, "consensus": True
    }  # fmt: skip
    differing = scripted(lambda request: f"\\boxed{{{ord(current().agent)}}}")
    team = Debate([agents.io(differing, name=name) for name in "ab"], allow_duplicates=True, early_stop=True)
    assert (await team.act(SUM)).info["rounds"] == 3


async def test_sequential_debate_is_an_option_that_reads_the_running_round():
    model = scripted(lambda request: f"<{current().agent} {current().stage}> \\boxed{{1}}")
    team = Debate([agents.io(model, name=name) for name in "ab"], rounds=1, allow_duplicates=True, sync=False)
    _, calls = await recorded(team)
    assert "<a round 1>" in calls[1].messages[-1].text


async def test_mad_copies_one_agent_under_different_names():
    action, calls = await recorded(MAD(agents.chain_of_thought(scripted(tagging)), n=3, rounds=2))
    assert action.info["agents"] == ["cot-1", "cot-2", "cot-3"]
    assert len({call.seed for call in calls}) == len(calls) == 6


async def test_a_failing_debater_ends_the_debate_with_its_own_error():
    def answer(request):
        if current().agent == "b":
            raise ModelError("gone")
        return "\\boxed{1}"

    team = Debate([agents.io(scripted(answer), name=name) for name in "ab"], allow_duplicates=True)
    with pytest.raises(ModelError, match="gone"):
        await team.act(SUM)


@pytest.mark.parametrize(
    "settings, words",
    [
        ({"count": 1}, "at least two debaters"),
        ({"count": 3}, "allow_duplicates"),
        ({"rounds": 0}, "at least 1"),
        ({"rounds": 1.5}, "whole number"),
        ({"history": "as-sent"}, "did you mean 'as_sent'"),
        ({"share": "proces"}, "did you mean 'process'"),
        ({"sees": [[1]]}, "one list of peers"),
        ({"sees": [[0], [1]]}, "other debaters"),
    ],
)
def test_wrong_settings_are_refused_in_one_line(settings, words):
    model = scripted(tagging)
    count = settings.pop("count", 2)
    team = [agents.io(model), agents.chain_of_thought(model), agents.io(model, name="io2")][:count]
    with pytest.raises(BadInput) as caught:
        Debate(team, **settings)
    assert words in str(caught.value) and "\n" not in str(caught.value)


async def test_the_judge_must_fit_the_kind_of_answer():
    model = scripted(tagging)
    team = [agents.io(model), agents.chain_of_thought(model)]
    with pytest.raises(BadInput, match="pick_best"):
        await Debate(team, judge=majority()).act(OPEN)
    with pytest.raises(BadInput, match="majority"):
        await Debate(team, judge=pick_best(model)).act(SUM)


def test_a_message_tells_process_and_answer_once():
    turn = Turn("a", "cot", "7", process="3+4=7 \\boxed{7}", reply="3+4=7 \\boxed{7}")
    assert turn.told() == "3+4=7 \\boxed{7}"
    assert turn.told("answer") == "Answer: 7"
    assert Turn("a", "pot", None, process="It failed.").told() == "It failed.\nNo answer."
    assert Turn("a", "sim", "B", process="By rule").told() == "By rule\nAnswer: B"
