"""A reply read back from the run store is equal to the one the model gave."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from palestra.core.budget import Account
from palestra.core.errors import BadReply, ContextOverflow, ModelError, RateLimited
from palestra.core.records import Call, Completion, Episode, Message, TokenLogprob, ToolCall, Usage
from palestra.core.scope import Recorder, Scope
from palestra.models import Failure, Output, Request
from palestra.models.recording import call_of, reply_of
from palestra.store.reading import Reading
from palestra.store.store import Store
from palestra.store.writer import Writer

SCOPE = Scope(account=Account("episode"), recorder=Recorder())
TEXTS = st.text(max_size=12)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
LOGPROBS = st.floats(max_value=0.0, allow_nan=False)
VALUES = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXTS
COMPLETIONS = st.builds(
    Completion,
    message=st.builds(
        lambda text, calls: Message("assistant", text, tool_calls=tuple(calls)),
        TEXTS,
        st.lists(st.builds(ToolCall, TEXTS, TEXTS, st.dictionaries(TEXTS, VALUES, max_size=2)), max_size=2),
    ),
    usage=st.builds(Usage, st.integers(0, 9), *[st.integers(0, 2**40)] * 3, usd=FLOATS, seconds=FLOATS),
    finish_reason=st.sampled_from(["stop", "length", "tool_calls"]),
    model=st.just("m"),
    engine=st.sampled_from(["endpoint", "llama.cpp"]),
    retries=st.integers(0, 9),
    logprobs=st.lists(
        st.builds(TokenLogprob, TEXTS, LOGPROBS, st.lists(st.tuples(TEXTS, LOGPROBS), max_size=2).map(tuple)),
        max_size=2,
    ).map(tuple),
    parsed=VALUES | st.dictionaries(TEXTS, VALUES, max_size=2) | st.lists(VALUES, max_size=2),
)


def recorded(request: Request, reply: Completion | Output | None, error: Exception | None = None) -> Call:
    usage = Usage(calls=1, seconds=0.25) if reply is None else reply.usage
    return call_of(
        SCOPE, request, key=b"0123456789abcdef", engine="e", started=1.5, usage=usage, reply=reply, error=error
    )


def through_the_store(folder: Path, *calls: Call) -> list[Call]:
    store = Store(folder / "runs.db")
    run = store.begin("s", scale="smoke", seed=0, seeds=1, models={}, config={}, options={}, version="0")
    writer = Writer(store, run)
    writer.episode(0, Episode("study", 0, "a", "t", 0, calls=list(calls)))
    writer.flush()
    read = list(Reading(store, run).calls())
    writer.close()
    store.close()
    return read


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(replies=st.lists(COMPLETIONS, min_size=1, max_size=8))
def test_any_completion(replies, tmp_path_factory):
    request = Request("complete", "m", (Message("system", ""), Message("user", "x")))
    calls = [recorded(request, reply) for reply in replies]
    assert [reply_of(call) for call in through_the_store(tmp_path_factory.mktemp("s"), *calls)] == replies


@given(values=st.dictionaries(TEXTS, LOGPROBS, min_size=1, max_size=5))
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_scores(values, tmp_path_factory):
    options = (*values, next(iter(values)))
    reply = Output([values[option] for option in options], Usage(1, 9, seconds=0.125), "torch")
    (call,) = through_the_store(
        tmp_path_factory.mktemp("s"), recorded(Request("score", "m", prompt="x", options=options), reply)
    )
    assert reply_of(call) == reply


@pytest.mark.parametrize(
    "error",
    [RateLimited("slow: down", 2.5), ContextOverflow(9, 8, "m"), BadReply("not JSON: 'x'\nat all"), ModelError("")],
    ids=lambda error: type(error).__name__,
)
def test_any_failure_with_its_attributes_and_cost(error, tmp_path):
    error.__dict__["retries"] = 3
    (call,) = through_the_store(tmp_path, recorded(Request("complete", "m", (Message("user", "x"),)), None, error))
    assert call.retries == 3
    failure = reply_of(call)
    assert isinstance(failure, Failure)
    assert (type(failure.error), str(failure.error)) == (type(error), str(error))
    assert vars(failure.error) == vars(error)
    assert failure.usage == Usage(calls=1, seconds=0.25)
