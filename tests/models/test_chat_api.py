"""The wire format: bytes of any kind decode or raise BadReply, and a stream may be cut anywhere."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palestra.core.errors import BadReply
from palestra.core.records import Completion, Message, Sampling, TokenLogprob
from palestra.models.chat_api import Chunk, Events, chat_body, decode, is_strict, read_chat, read_embeddings
from palestra.models.engine import Request

ASKED = Request("complete", "m", (Message("user", "x"),), sampling=Sampling(seed=2**63 - 1))
KEYS = st.sampled_from(
    "choices message content role tool_calls function name arguments usage prompt_tokens logprobs top_logprobs model "
    "finish_reason data embedding index delta error token logprob".split()
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=20,
)
JSON = VALUES.map(lambda value: msgspec.json.encode(value) if not too_large(value) else b"[" * 9)


def too_large(value: object) -> bool:
    if isinstance(value, int):
        return not -(2**63) <= value < 2**64
    if isinstance(value, dict):
        return any(too_large(one) for one in value.values())
    return isinstance(value, list) and any(too_large(one) for one in value)


@given(content=st.binary(max_size=200) | JSON)
def test_any_bytes_are_a_completion_or_a_bad_reply(content):
    try:
        assert isinstance(read_chat(content, ASKED, name="m", seconds=0.0, engine="e"), Completion)
    except BadReply as error:
        assert "\n" not in str(error)


@given(content=st.binary(max_size=200) | JSON)
def test_any_bytes_are_embeddings_or_a_bad_reply(content):
    with pytest.raises(BadReply):
        read_embeddings(content, ["a", "b", "c", "d"], seconds=0.0)


def test_json_nested_without_end_is_a_bad_reply():
    for content in (b"[" * 100_000, b'{"a":' * 100_000, b'{"choices":[{"message":{"content":' + b"[" * 100_000):
        with pytest.raises(BadReply):
            read_chat(content, ASKED, name="m", seconds=0.0, engine="e")
        with pytest.raises(BadReply):
            decode(content, Chunk)


@given(data=st.data(), texts=st.lists(st.text(max_size=20), max_size=5), end=st.sampled_from([b"\n", b"\r\n", b"\r"]))
def test_events_do_not_depend_on_where_the_stream_is_cut(data, texts, end):
    sent = [msgspec.json.encode(text) for text in texts]
    content = b"".join(b"data: " + event + end + end for event in sent) + b": the last note" + end
    cuts = sorted(data.draw(st.lists(st.integers(0, len(content)), max_size=8)))
    events = Events()
    found = []
    for start, stop in zip([0, *cuts], [*cuts, len(content)], strict=True):
        found += events.feed(content[start:stop])
    assert found == sent


@given(chunks=st.lists(st.binary(max_size=30), max_size=10))
def test_any_stream_of_bytes_gives_events(chunks):
    events = Events()
    for chunk in chunks:
        assert all(isinstance(event, bytes) for event in events.feed(chunk))


def test_an_event_of_several_lines_is_joined_and_other_fields_are_left_out():
    assert Events().feed(b"id: 7\nevent: x\ndata: a\ndata:b\nretry: 1\n\n\n\n") == [b"a\nb"]


def test_a_line_end_cut_in_two_is_one_line_end():
    events = Events()
    assert [events.feed(part) for part in (b"data: a\r", b"\ndata: b\r", b"\n\r", b"\n")] == [[], [], [], [b"a\nb"]]


def test_a_line_that_comes_in_a_hundred_thousand_pieces_is_read_in_linear_time():
    events = Events()
    for _ in range(100_000):
        events.feed(b"data: xxxxxxxx")
    assert len(events.feed(b"\n\n")[0]) == 14 * 100_000 - 6


def test_openai_itself_is_not_told_limits_that_limit_nothing_and_others_always_are():
    plain = msgspec.json.decode(chat_body(ASKED, "m"))
    assert (plain["top_k"], plain["min_p"], plain["max_tokens"]) == (0, 0.0, 256)
    openai = msgspec.json.decode(chat_body(ASKED, "m", modern=True))
    assert "top_k" not in openai
    assert "min_p" not in openai
    assert openai["max_completion_tokens"] == 256
    limited = Request("complete", "m", ASKED.messages, sampling=Sampling(top_k=5, min_p=0.1))
    assert msgspec.json.decode(chat_body(limited, "m", modern=True))["top_k"] == 5


def test_seeds_fit_a_signed_32_bit_integer():
    assert msgspec.json.decode(chat_body(ASKED, "m"))["seed"] == 2**31 - 1


def test_log_probabilities_keep_minus_infinity_where_the_server_sends_null():
    tokens = [{"token": "é", "logprob": None, "top_logprobs": [{"token": "e", "logprob": -0.5}]}]
    body = {"choices": [{"message": {"content": "é"}, "logprobs": {"content": tokens}}]}
    reply = read_chat(msgspec.json.encode(body), ASKED, name="m", seconds=0.0, engine="e")
    assert reply.logprobs == (TokenLogprob("é", float("-inf"), (("e", -0.5),)),)


@pytest.mark.parametrize(
    "schema, strict",
    [
        ({"type": "object", "properties": {"a": {}}, "required": ["a"], "additionalProperties": False}, True),
        ({"type": "object", "properties": {"a": {}}, "additionalProperties": False}, False),
        ({"type": "object", "properties": {"a": {}}, "required": ["a"]}, False),
        ({"anyOf": [{"type": "object", "properties": {}}]}, False),
        ({"type": "array", "items": {"enum": ["x"]}}, True),
    ],
)
def test_strict_mode_is_asked_for_only_where_the_schema_allows_it(schema, strict):
    assert is_strict(schema) is strict
