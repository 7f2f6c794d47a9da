"""Reply caches and recorded runs give back what they were given."""

import multiprocessing
import pickle
import sqlite3
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palestra.core.errors import ContextOverflow, StoreError
from palestra.core.records import Call, Completion, Message, TokenLogprob, ToolCall, Usage
from palestra.models import Cache, Failure, Output, Recorded

FLOATS = st.floats(allow_nan=False)
TEXTS = st.text(max_size=20)
COMPLETIONS = st.builds(
    Completion,
    message=st.builds(
        lambda text, calls: Message("assistant", text, tool_calls=tuple(calls)),
        TEXTS,
        st.lists(
            st.builds(ToolCall, TEXTS, TEXTS, st.dictionaries(TEXTS, TEXTS | FLOATS | st.none(), max_size=2)),
            max_size=2,
        ),
    ),
    usage=st.builds(Usage, *[st.integers(0, 2**40)] * 4, usd=FLOATS, seconds=FLOATS),
    finish_reason=TEXTS,
    model=TEXTS,
    engine=TEXTS,
    retries=st.integers(0, 9),
    logprobs=st.lists(
        st.builds(TokenLogprob, TEXTS, FLOATS, st.lists(st.tuples(TEXTS, FLOATS), max_size=2).map(tuple)), max_size=2
    ).map(tuple),
)
OUTPUTS = st.builds(Output, st.lists(FLOATS, max_size=3), st.builds(Usage, st.integers(0, 9), seconds=FLOATS))


@pytest.fixture(scope="module")
def shared(tmp_path_factory) -> Cache:
    return Cache(tmp_path_factory.mktemp("cache") / "replies.db")


@given(request_key=st.binary(min_size=16, max_size=16), reply=COMPLETIONS | OUTPUTS)
def test_a_cached_reply_is_equal_to_the_one_kept_and_the_first_one_stays(shared, request_key, reply):
    before = shared.get(request_key)
    shared.put(request_key, reply)
    assert shared.get(request_key) == (before if before is not None else reply)


def test_a_cache_outlives_its_process_and_is_named_by_its_path(tmp_path):
    cache = Cache(tmp_path / "deep" / "replies.db")
    reply = Completion(Message("assistant", "4"), Usage(1, 2, 3, seconds=0.1))
    cache.put(b"k", reply)
    cache.close()
    copy = pickle.loads(pickle.dumps(cache))
    assert copy.get(b"k") == reply
    assert cache.get(b"k") == reply
    assert cache.get(b"other") is None
    assert len(copy) == 1


def write(path: str, start: int) -> None:
    cache = Cache(path)
    for number in range(start, start + 200):
        cache.put(number.to_bytes(16, "little"), Output([float(number)], Usage(calls=1)))


def test_processes_and_threads_write_to_one_cache_at_once(tmp_path):
    path = str(tmp_path / "replies.db")
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=write, args=(path, start)) for start in (0, 100)]
    workers += [threading.Thread(target=write, args=(path, start)) for start in (200, 300)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    cache = Cache(path)
    assert len(cache) == 500
    assert cache.get((399).to_bytes(16, "little")) == Output([399.0], Usage(calls=1))


def test_a_cache_used_on_both_sides_of_a_fork_opens_its_file_again(tmp_path):
    cache = Cache(tmp_path / "replies.db")
    cache.put(b"a", Output([1.0], Usage()))
    child = multiprocessing.get_context("fork").Process(target=lambda: cache.put(b"b", Output([2.0], Usage())))
    child.start()
    child.join(30)
    assert child.exitcode == 0
    assert cache.get(b"b") == Output([2.0], Usage())


def text_file(path: Path) -> None:
    path.write_text("this is a letter, not a database, and it is long enough to be read as one" * 20)


def other_database(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE accounts (id)")


def newer(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")


@pytest.mark.parametrize(
    "spoil, line",
    [
        (text_file, "not a database"),
        (other_database, "some other database"),
        (newer, "version 99"),
        (Path.mkdir, "cannot"),
    ],
)
def test_a_file_that_is_no_cache_is_one_clear_line_and_is_left_alone(tmp_path, spoil, line):
    path = tmp_path / "replies.db"
    spoil(path)
    with pytest.raises(StoreError, match=line):
        Cache(path)
    if spoil is other_database:
        with sqlite3.connect(path) as connection:
            assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("accounts",)]


def test_a_reply_that_cannot_be_read_is_one_clear_line(tmp_path):
    cache = Cache(tmp_path / "replies.db")
    with sqlite3.connect(tmp_path / "replies.db") as connection:
        connection.execute("INSERT INTO replies VALUES (?, 'completion', ?)", (b"k", b"\xc1garbage"))
    with pytest.raises(StoreError, match="cannot be read"):
        cache.get(b"k")


def call(**fields: object) -> Call:
    plain = Call("a", "", "", 0, "complete", "m", "e", b"k", (Message("user", "x"),), None, Usage(1), "stop", 0.0)
    for name, value in fields.items():
        setattr(plain, name, value)
    return plain


def test_requests_made_several_times_get_their_replies_in_the_recorded_order():
    recorded = Recorded.of([call(reply=Message("assistant", text)) for text in ("one", "two")])
    assert [recorded.get(b"k").text for _ in range(3)] == ["one", "two", "two"]  # type: ignore
    assert len(recorded) == 1


def test_failed_calls_fail_again_and_calls_without_a_reply_are_left_out():
    numbers = {"prompt_tokens": 9, "context": 8, "model": "m"}
    text = "ContextOverflow: prompt of 9 tokens does not fit the 8-token context of m"
    recorded = Recorded.of(
        [
            call(request=b"1", error=text, output=numbers, usage=Usage()),
            call(request=b"2", error="CancelledError: "),
            call(request=b"3", error="KeyError: 'x'"),
            call(request=b"4", kind="embed", output={"shape": [[3]]}),
            call(request=b"5", error="BadReply: no JSON: at line 1", retries=3),
        ]
    )
    failure = recorded.get(b"1")
    assert isinstance(failure, Failure)
    assert isinstance(failure.error, ContextOverflow)
    assert (failure.error.context, str(failure.error), failure.usage) == (8, text.partition(": ")[2], Usage())
    assert [recorded.get(key) for key in (b"2", b"3", b"4", b"unknown")] == [None] * 4
    refused = recorded.get(b"5")
    assert isinstance(refused, Failure)
    assert (type(refused.error).__name__, str(refused.error)) == ("BadReply", "no JSON: at line 1")


def test_scores_come_back_in_the_order_of_the_options_even_when_an_option_is_there_twice():
    messages = tuple(Message("user", text) for text in ("prompt", " b", " a", " b"))
    recorded = Recorded.of([call(kind="score", messages=messages, output={" a": -1.0, " b": None})])
    assert recorded.get(b"k") == Output([float("-inf"), -1.0, float("-inf")], Usage(1), "e")
