"""The Model face: seeds, budgets, records, validation and replay are the same whatever engine answers."""

import asyncio
import pickle

import msgspec
import pytest

from palestra.core.budget import Account, Budget
from palestra.core.errors import BadInput, BadReply, BudgetExceeded, ContextOverflow, NoRecordedReply, ServerFault
from palestra.core.records import Call, Completion, Message, Sampling, ToolCall, ToolSpec, Usage
from palestra.core.scope import Recorder, Scope, enter, scope
from palestra.models import Cache, Model, Output, Recorded, Request, Scripted, model

AGE = {
    "type": "object",
    "properties": {"age": {"type": "integer"}},
    "required": ["age"],
    "additionalProperties": False,
}


def in_episode(seed: int = 0, budget: Budget | None = None, agent_budget: Budget | None = None) -> Scope:
    """Enter the scope of a fresh episode."""
    new = Scope(account=Account("episode", budget=budget), recorder=Recorder(agent_budget), seed=seed)
    enter(new)
    return new


def seeds(episode: Scope) -> dict[str, list[int | None]]:
    found: dict[str, list[int | None]] = {}
    for call in episode.recorder.calls:
        found.setdefault(call.messages[-1].text, []).append(call.seed)
    return found


class Costly:
    """Answers with the texts given, one after the other; each reply costs 10 input and 5 output tokens and a dollar."""

    name = "costly"

    def __init__(self, *texts: str | Exception) -> None:
        self.texts = list(texts)
        self.requests: list[Request] = []

    async def complete(self, request: Request) -> Completion:
        self.requests.append(request)
        await asyncio.sleep(0)
        said = self.texts.pop(0)
        if isinstance(said, Exception):
            raise said
        return Completion(Message("assistant", said), Usage(1, 10, 5, 0, 1.0, 0.25), model="served-name")


# Seeds


async def test_the_seed_of_a_call_depends_on_scope_and_request_and_not_on_order_or_concurrency():
    ask = model("scripted", latency=lambda request: len(request.messages[-1].text) % 3 / 1000)
    texts = [f"question {'x' * n}" for n in range(20)]
    first = in_episode(seed=5)
    for text in texts:
        await ask.complete(text)
    second = in_episode(seed=5)
    await asyncio.gather(*(ask.complete(text) for text in reversed(texts)))
    assert seeds(first) == seeds(second)
    assert len({tuple(several) for several in seeds(first).values()}) == len(texts)


async def test_the_same_request_again_gets_another_seed_and_the_same_two_seeds_in_every_run():
    ask = model("scripted")
    runs = []
    for _ in range(2):
        episode = in_episode(seed=1)
        await asyncio.gather(ask.complete("again"), ask.complete("again"))
        runs.append(sorted(seeds(episode)["again"]))
    assert runs[0] == runs[1]
    assert len(set(runs[0])) == 2


@pytest.mark.parametrize("part", ["agent", "role", "stage"])
async def test_agents_roles_stages_and_episodes_that_ask_the_same_get_different_seeds(part):
    ask = model("scripted")
    episode = in_episode(seed=1)
    for name in ("a", "b"):
        with scope(**{part: name}):
            await ask.complete("same")
    other = in_episode(seed=2)
    await ask.complete("same")
    assert len({*seeds(episode)["same"], *seeds(other)["same"]}) == 3


async def test_a_seed_given_by_the_caller_is_used_as_it_is():
    ask = model("scripted")
    episode = in_episode()
    await ask.complete("x", sampling=Sampling(seed=7))
    await ask.complete("x", sampling=Sampling(seed=7))
    assert seeds(episode) == {"x": [7, 7]}
    assert len({call.request for call in episode.recorder.calls}) == 1


async def test_everything_that_determines_a_reply_changes_the_digest():
    ask = model("scripted", score=lambda request: [0.0] * len(request.options))
    episode = in_episode()
    seeded = Sampling(seed=1)
    tool = ToolSpec("look", "Looks.", {"type": "object"})
    await ask.complete("x", sampling=seeded)
    await ask.complete("y", sampling=seeded)
    await ask.complete(Message("system", "x"), sampling=seeded)
    await ask.complete("x", sampling=Sampling(seed=2))
    await ask.complete("x", sampling=Sampling(seed=1, temperature=0.0))
    await ask.complete("x", sampling=seeded, tools=[tool])
    await ask.score("x", [" y"])
    await ask.score("x", [" z"])
    digests = [call.request for call in episode.recorder.calls]
    assert len(set(digests)) == len(digests) == 8


# Budgets


async def test_a_limit_on_calls_is_exact_at_any_concurrency():
    ask = model("scripted", latency=0.001)
    episode = in_episode(budget=Budget(calls=7))
    results = await asyncio.gather(*(ask.complete(f"{n}") for n in range(50)), return_exceptions=True)
    assert sum(isinstance(result, Completion) for result in results) == 7
    assert sum(isinstance(result, BudgetExceeded) for result in results) == 43
    assert len(episode.recorder.calls) == 7
    assert episode.account.used.calls == 7
    assert episode.account.reserved == 0


async def test_tokens_and_dollars_are_charged_to_the_agent_and_to_all_above():
    study = Account("study")
    episode = Scope(account=Account("episode", parent=study), recorder=Recorder(Budget(tokens=20)), seed=0)
    enter(episode)
    ask = Model(Costly("1", "2", "3"), name="m")
    with scope(agent="critic"):
        await ask.complete("a")
        await ask.complete("b")
        with pytest.raises(BudgetExceeded, match="agent 'critic' budget of 20 tokens"):
            await ask.complete("c")
    with scope(agent="solver"):
        await ask.complete("c")
    assert study.used == Usage(3, 30, 15, 0, 3.0, 0.75)
    assert episode.recorder.accounts["critic"].used.usd == 2.0


async def test_a_reply_that_does_not_fit_the_schema_is_charged_recorded_and_asked_for_again():
    engine = Costly("forty", '{"age": 40}')
    episode = in_episode()
    reply = await Model(engine, name="m").complete("How old?", schema=AGE)
    assert reply.parsed == {"age": 40}
    refused, kept = episode.recorder.calls
    assert refused.error is not None
    assert refused.error.startswith("BadReply: ")
    assert refused.reply == Message("assistant", "forty")
    assert kept.error is None
    assert kept.output == {"age": 40}
    assert refused.seed != kept.seed
    assert episode.account.used == Usage(2, 20, 10, 0, 2.0, 0.5)


async def test_the_second_try_has_another_seed_even_when_the_caller_gave_one():
    engine = Costly("forty", '{"age": "forty"}')
    in_episode()
    with pytest.raises(BadReply, match="does not fit"):
        await Model(engine, name="m").complete("How old?", schema=AGE, sampling=Sampling(seed=3))
    first, second = (request.sampling.seed for request in engine.requests)
    assert first == 3 != second


# Records of what failed


async def test_a_failed_call_is_recorded_with_its_error_and_charged_as_a_call():
    episode = in_episode()
    with pytest.raises(ServerFault):
        await Model(Costly(ServerFault("down")), name="m").complete("x")
    (call,) = episode.recorder.calls
    assert (call.error, call.finish_reason, call.reply, call.usage.calls) == ("ServerFault: down", "error", None, 1)
    assert episode.account.used.calls == 1
    assert episode.account.reserved == 0


async def test_a_fault_of_the_program_and_a_cancelled_call_are_recorded_too():
    episode = in_episode()
    with pytest.raises(ZeroDivisionError):
        await Model(Costly(ZeroDivisionError("oops")), name="m").complete("x")
    waiting = asyncio.create_task(model("scripted", latency=60.0).complete("y"))
    await asyncio.sleep(0.01)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert [call.error for call in episode.recorder.calls] == ["ZeroDivisionError: oops", "CancelledError: "]
    assert episode.account.used.calls == 2
    assert episode.account.reserved == 0


class Small(Costly):
    """Takes prompts of up to three characters."""

    def check(self, request: Request) -> None:
        if len(request.messages[-1].text) > 3:
            raise ContextOverflow(len(request.messages[-1].text), 3, "small")


async def test_a_prompt_that_does_not_fit_is_refused_before_the_call_costs_nothing_and_is_recorded():
    engine = Small("ok")
    episode = in_episode(budget=Budget(calls=1))
    with pytest.raises(ContextOverflow):
        await Model(engine, name="m").complete("too long")
    await Model(engine, name="m").complete("ok?")
    assert [call.usage.calls for call in episode.recorder.calls] == [0, 1]
    assert len(engine.requests) == 1


# Streams


async def test_a_stream_is_recorded_and_charged_once_with_its_whole_text():
    episode = in_episode()
    pieces = [piece async for piece in model("scripted").stream("one two three")]
    assert pieces == ["one", " two", " three"]
    (call,) = episode.recorder.calls
    assert call.reply == Message("assistant", "one two three")
    assert episode.account.used == call.usage
    assert episode.account.reserved == 0


async def test_a_stream_and_a_completion_of_the_same_request_are_the_same_call():
    in_episode()
    seeded = Sampling(seed=1)
    ask = model("scripted", cache=Recorded({}))
    first, second = in_episode(), in_episode()
    enter(first)
    await ask.complete("x", sampling=seeded)
    enter(second)
    async for _ in ask.stream("x", sampling=seeded):
        pass
    assert first.recorder.calls[0].request == second.recorder.calls[0].request


async def test_a_stream_that_is_left_early_is_recorded_with_what_had_come():
    episode = in_episode()
    stream = model("scripted").stream("one two three")
    async for piece in stream:
        if piece == " two":
            break
    await stream.aclose()
    (call,) = episode.recorder.calls
    assert (call.finish_reason, call.reply, call.usage.output_tokens) == (
        "abandoned",
        Message("assistant", "one two"),
        2,
    )
    assert episode.account.reserved == 0


async def test_a_stream_that_fails_is_recorded_as_failed():
    episode = in_episode()
    with pytest.raises(ServerFault):
        async for _ in model("scripted", script=[ServerFault("down")]).stream("x"):
            pass
    assert [call.error for call in episode.recorder.calls] == ["ServerFault: down"]


# Replay


def on_disk(calls: list[Call]) -> list[Call]:
    """Calls as a store gives them back: through JSON."""
    return msgspec.json.decode(msgspec.json.encode(calls), type=list[Call])


async def conversation(ask: Model) -> list[object]:
    """Every kind of call and of failure that an agent may meet, with what it saw."""
    seen: list[object] = []
    for prompt in ("plain", "plain", "tool", "down", "down"):
        try:
            seen.append(await ask.complete(prompt))
        except ServerFault as error:
            seen.append(str(error))
    for prompt in ("age", "never an age"):
        try:
            seen.append(await ask.complete(prompt, schema=AGE))
        except BadReply as error:
            seen.append(str(error))
    seen.append(await ask.score("2+2=", [" 4", " 5", " 4"]))
    seen.append([piece async for piece in ask.stream("pieces")][-1][-3:])
    seen.append(await ask.complete("log", sampling=Sampling(logprobs=1)))
    return seen


def answers(request: Request):
    """Like a real model: each reply takes some measured time, and asking twice gives two replies."""
    seed = request.sampling.seed or 0
    text = request.messages[-1].text
    if text == "down":
        return ServerFault(f"down {seed % 7}") if seed % 2 else "up"
    if text == "tool":
        return Message("assistant", "", tool_calls=(ToolCall("1", "look", {"where": "Jülich"}),))
    if text == "age":
        return '{"age": 40}' if seed % 2 else "forty"
    if text == "log":
        top = (("é", -0.125), ("e", float("-inf")))
        usage = Usage(1, 3, 1, 1, 0.001, 0.1 + seed / 2**70)
        return msgspec.convert(
            {
                "message": Message("assistant", "é"),
                "usage": usage,
                "logprobs": [{"token": "é", "logprob": -0.125, "top": top}],
            },
            Completion,
        )
    usage = Usage(1, 3, len(text), 1, 0.1 + seed / 2**70, 0.3 + seed / 2**69)
    return Completion(Message("assistant", f"{text} {seed}"), usage, engine="script of the test", retries=seed % 3)


@pytest.mark.parametrize("seed", range(6))
async def test_a_replayed_run_is_equal_to_the_recorded_one_field_by_field_without_asking(seed):
    def score(request: Request) -> list[float]:
        return [-0.1, float("-inf"), -0.1]

    first = in_episode(seed)
    seen = await conversation(Model(Scripted(answers, score=score), name="m"))

    def refuse(request: Request) -> str:
        raise AssertionError("asked")

    second = in_episode(seed)
    recorded = Recorded.of(on_disk(first.recorder.calls))
    replayed = await conversation(
        Model(Scripted(refuse, score=lambda request: refuse(request)), name="m", replies=recorded, offline=True)  # type: ignore
    )
    assert replayed == seen
    for call in (*first.recorder.calls, *second.recorder.calls):
        call.started = 0.0
    assert second.recorder.calls == first.recorder.calls
    assert second.account.used == first.account.used


@pytest.mark.parametrize("seed", range(3))
async def test_a_cached_run_gives_the_same_again_and_keeps_refused_replies_too(seed, tmp_path):
    def calm(request: Request):
        said = answers(request)
        return "up" if isinstance(said, Exception) else said

    def score(request: Request) -> list[float]:
        return [-0.1, float("-inf"), -0.1]

    in_episode(seed)
    cache = Cache(tmp_path / "replies.db")
    seen = await conversation(Model(Scripted(calm, score=score), name="m", replies=cache))
    episode = in_episode(seed)
    again = Model(Scripted([], score=score), name="m", replies=Cache(tmp_path / "replies.db"), offline=True)
    assert await conversation(again) == seen
    assert any(call.error for call in episode.recorder.calls)


async def test_an_overflow_is_raised_again_with_its_numbers():
    episode = in_episode()
    ask = Model(Small(), name="m")
    with pytest.raises(ContextOverflow):
        await ask.complete("too long")
    recorded = Recorded.of(on_disk(episode.recorder.calls))
    in_episode()
    with pytest.raises(ContextOverflow) as found:
        await ask.using(replies=recorded, offline=True).complete("too long")
    assert (found.value.prompt_tokens, found.value.context) == (8, 3)


async def test_offline_an_unknown_request_is_one_clear_line():
    in_episode()
    ask = model("scripted", cache=Recorded({}), offline=True)
    with pytest.raises(NoRecordedReply, match="no recorded reply of scripted for the complete request 'new question'"):
        await ask.complete("new question")


class Vectors(Costly):
    """Embeds."""

    async def embed(self, request: Request) -> Output:
        import numpy as np

        return Output(np.ones((len(request.texts), 1), dtype=np.float32), Usage(calls=1))


async def test_embeddings_are_not_recorded_and_ask_the_engine_even_offline():
    episode = in_episode()
    ask = Model(Vectors(), name="m", replies=Recorded({}), offline=True)
    assert (await ask.embed(["a", "b"])).shape == (2, 1)
    assert episode.recorder.calls[0].output == {"shape": [[1], [1]]}


# What comes in


@pytest.mark.parametrize("prompt", [[], [{"role": "user", "content": "x"}], ["x"]])
async def test_messages_that_are_none_are_refused(prompt):
    with pytest.raises(BadInput, match="messages="):
        await model("scripted").complete(prompt)


@pytest.mark.parametrize(
    "options", [{"messages": "half a pair \ud83d"}, {"messages": "x", "schema": {"enum": [object()]}}]
)
async def test_what_cannot_be_written_as_json_is_refused(options):
    with pytest.raises(BadInput, match="request="):
        await model("scripted").complete(**options)


async def test_a_missing_capability_and_wrong_options_are_refused():
    ask = model("scripted")
    with pytest.raises(BadInput, match="a model that can embed"):
        await ask.embed(["x"])
    for options in ([], "abc"):
        with pytest.raises(BadInput, match="options="):
            await ask.score("x", options)


async def test_records_carry_the_name_that_was_asked_for_and_the_engine_that_answered():
    episode = in_episode()
    reply = await Model(Costly("x"), name="asked/for").complete("q")
    assert (reply.model, reply.engine) == ("asked/for", "costly")
    assert (episode.recorder.calls[0].model, episode.recorder.calls[0].engine) == ("asked/for", "costly")


async def test_a_model_made_by_name_crosses_a_process_border_with_its_sampling_and_replies(tmp_path):
    ask = model("scripted", sampling=Sampling(temperature=0.0), cache=tmp_path / "replies.db").using(offline=True)
    copy = pickle.loads(pickle.dumps(ask))
    assert (copy.name, copy.defaults.temperature, copy.offline) == ("scripted", 0.0, True)
    assert copy.replies.path == tmp_path / "replies.db"
    with pytest.raises(TypeError, match="cannot cross a process border"):
        pickle.dumps(Model(Costly(), name="m"))
