"""Whatever an episode holds is read back as it was, and nothing that it holds can break the run."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from palestra.core import Call, Episode, Image, Message, Step, Text, ToolCall, Usage
from palestra.store import Reading, Store
from palestra.store.codec import decode, encode

TEXTS = st.one_of(
    st.text(max_size=20), st.sampled_from(["", "\0", "a\0b", "é\r\n\t", "𝔘", "'; DROP TABLE x; --", "x" * 300])
)
NUMBERS = st.floats().map(lambda value: value + 0.0)  # SQLite keeps no sign of zero
WHOLE = st.integers(-(2**63), 2**63 - 1)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), NUMBERS, TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=6,
)
IMAGES = st.builds(Image, TEXTS, TEXTS)
TOOL_CALLS = st.builds(ToolCall, TEXTS, TEXTS, st.dictionaries(TEXTS, JSON, max_size=2))
MESSAGES = st.builds(
    Message,
    st.sampled_from(["system", "user", "assistant", "tool"]),
    st.one_of(TEXTS, st.lists(st.one_of(st.builds(Text, TEXTS), IMAGES), max_size=3).map(tuple)),
    name=st.one_of(st.none(), TEXTS),
    tool_calls=st.lists(TOOL_CALLS, max_size=2).map(tuple),
    tool_call_id=st.one_of(st.none(), TEXTS),
)
SPENT = st.builds(Usage, *[st.integers(0, 2**40)] * 4, st.floats(0, 1e6), st.floats(0, 1e6))
CALLS = st.builds(
    Call, TEXTS, TEXTS, TEXTS, st.integers(0, 2**31 - 1), TEXTS, TEXTS, TEXTS, st.binary(min_size=16, max_size=16),
    st.lists(MESSAGES, max_size=4).map(tuple), st.one_of(st.none(), MESSAGES),
    st.builds(Usage, st.integers(0, 9), *[st.integers(0, 2**40)] * 3, st.floats(0, 1e6), st.floats(0, 1e6)),
    TEXTS, st.floats(0, 2e9), st.integers(0, 9), st.one_of(st.none(), TEXTS), st.one_of(st.none(), WHOLE),
    st.one_of(st.none(), JSON),
)  # fmt: skip
STEPS = st.builds(
    Step, st.integers(0, 2**31 - 1), TEXTS, TEXTS, TEXTS, NUMBERS, st.dictionaries(TEXTS, JSON, max_size=2)
)
EPISODES = st.builds(
    Episode, study=st.just("1"), index=st.just(0), agent=TEXTS, task=TEXTS, seed=WHOLE,
    status=st.sampled_from(["done", "failed"]), reason=TEXTS, score=st.one_of(st.none(), NUMBERS.filter(lambda value: value == value)),
    reward=NUMBERS, metrics=st.dictionaries(TEXTS, NUMBERS, max_size=3), steps=st.lists(STEPS, max_size=4),
    calls=st.lists(CALLS, max_size=4), usage=SPENT, started=st.floats(0, 2e9), seconds=st.floats(0, 1e6),
    attempt=st.integers(1, 9), error=st.one_of(st.none(), TEXTS), output=st.one_of(st.none(), JSON),
)  # fmt: skip


def _same(read: Episode, written: Episode) -> None:
    written.usage.calls = sum(call.usage.calls for call in written.calls)  # summed up when read
    assert repr(read) == repr(written)  # NaN is equal to itself here


@settings(
    max_examples=80,
    phases=(Phase.reuse, Phase.generate),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.lists(EPISODES, min_size=1, max_size=3))
def test_any_episodes_are_read_back_as_they_were(store: Store, kit: Any, episodes: list[Episode]) -> None:
    for index, episode in enumerate(episodes):
        episode.index = index
    found = list(kit.record(store, episodes).episodes())
    assert len(found) == len(episodes)
    for read, written in zip(found, episodes, strict=True):
        _same(read, written)


def test_a_long_text_is_read_back_whole(any_store: Store, kit: Any) -> None:
    text = "wörd " * 200_000
    reading = kit.record(any_store, [kit.episode(steps=[kit.step(0, text, "ok")], calls=[kit.call(text, reply=text)])])
    read = reading.episode(1 << 32)
    assert read.steps[0].observation == read.calls[0].messages[0].text == read.calls[0].reply.text == text


def test_a_conversation_with_images_and_tools_is_read_back_whole(any_store: Store, kit: Any) -> None:
    wish = ToolCall("1", "look", {"at": "the lake", "zoom": 1.5})
    said = (
        Message("system", "You see."),
        Message("user", (Text("What is this?"), Image("data:image/png;base64,AAAA", "a lake"))),
        Message("assistant", tool_calls=(wish,)),
        Message("tool", "water", name="look", tool_call_id="1"),
        Message("user", ()),
    )
    call = kit.call(messages=said, reply=None)
    call.messages, call.reply = said, Message("assistant", "A lake.", tool_calls=(wish, wish))
    read = kit.record(any_store, [kit.episode(calls=[call])]).episode(1 << 32).calls[0]
    assert read == call


def test_a_record_of_every_kind_survives_postgresql(postgres: Store, kit: Any) -> None:
    call = kit.call("q" * 5000, reply="é𝔘", role="r" * 400, seed=-(2**63), output={"a": [math.inf, None, 2**80]})
    episode = kit.episode(
        agent="long name " * 100, task="t" * 2000, seed=2**63 - 1, score=math.inf, reward=math.nan,
        metrics={"score": math.nan}, steps=[kit.step(0, "see", "do", math.nan, deep={"x": [1]})], calls=[call],
        usage=Usage(1, 2**40), error="Zeile\nzwei",
    )  # fmt: skip
    _same(kit.record(postgres, [episode]).episode(1 << 32), episode)


def test_nul_is_kept_by_sqlite_and_replaced_on_postgresql(any_store: Store, kit: Any) -> None:
    episode = kit.episode(
        steps=[kit.step(0, "a\0b", "c", note="d\0")], calls=[kit.call("a\0b", reply="e\0")], error="f\0"
    )
    read = kit.record(any_store, [episode]).episode(1 << 32)
    held = "\0" if any_store.engine.dialect.name == "sqlite" else "\ufffd"
    assert read.status == "done"
    assert (read.steps[0].observation, read.calls[0].messages[0].text, read.error) == (
        f"a{held}b",
        f"a{held}b",
        f"f{held}",
    )
    assert read.calls[0].reply.text == f"e{held}"
    assert read.steps[0].info == {"note": "d\0"}, "JSON escapes it"


def test_half_a_surrogate_pair_becomes_the_replacement_character(any_store: Store, kit: Any) -> None:
    episode = kit.episode(steps=[kit.step(0, "a\ud800b", "c", note="\udfff")], error="x\ud83d\ud83d", output=["\ud800"])
    read = kit.record(any_store, [episode]).episode(1 << 32)
    assert (read.status, read.steps[0].observation, read.error) == ("done", "a\ufffdb", "x\ufffd\ufffd")
    assert (read.steps[0].info, read.output) == ({"note": "\udfff"}, ["\ud800"]), "JSON escapes it"


def test_a_score_that_is_no_number_counts_as_none(any_store: Store, kit: Any) -> None:
    reading = kit.record(any_store, [kit.episode(score=math.nan, metrics={"score": math.nan})])
    read = reading.episode(1 << 32)
    assert read.score is None
    assert math.isnan(read.metrics["score"])


def test_arrays_and_numbers_of_numpy_become_lists_and_numbers(store: Store, kit: Any) -> None:
    output = {"policy": np.array([[0.25, 0.75]]), "value": np.float32(0.5), "count": np.int64(3), "path": Path("a/b")}
    read = kit.record(store, [kit.episode(output=output, metrics={"m": np.float64(0.1)})]).episode(1 << 32)
    assert read.output == {"policy": [[0.25, 0.75]], "value": 0.5, "count": 3, "path": "a/b"}
    assert read.metrics == {"m": 0.1}


@pytest.mark.parametrize(
    "bad",
    [
        {"agent": "a\ud800"},
        {"seed": 2**70},
        {"steps": [Step(0, "a", object(), "x", 0.0)]},  # type: ignore[arg-type]
        {"usage": Usage(1, 10**30)},
        {"output": (lambda deep: deep.append(deep) or deep)([])},
    ],
    ids=["name", "seed", "text", "usage", "circle"],
)
def test_an_episode_that_cannot_be_stored_is_a_failed_one_and_its_neighbours_are_whole(
    any_store: Store, kit: Any, bad: dict[str, Any]
) -> None:
    good = [
        kit.episode(index, steps=[kit.step(0, "shared", f"{index}")], calls=[kit.call("p", reply="r")])
        for index in range(4)
    ]
    odd = kit.episode(4, **({"steps": [kit.step(0, "shared", "odd")]} | bad))
    if "agent" in bad or "seed" in bad:  # what a failed record cannot do without
        odd = kit.episode(4, calls=[kit.call("p", reply="r", **({"agent": "a\ud800"} if "agent" in bad else bad))])
    reading = kit.record(any_store, [*good[:2], odd, *good[2:]])
    read = {episode.index: episode for episode in reading.episodes()}
    assert sorted(read) == [0, 1, 2, 3, 4]
    assert (read[4].status, read[4].reason, read[4].steps, read[4].calls) == ("failed", "error", [], [])
    assert "cannot be stored" in (read[4].error or "")
    for episode in good:
        _same(read[episode.index], episode)


@given(JSON)
def test_the_codec_gives_back_what_it_got(value: Any) -> None:
    again = decode(encode(value))
    assert repr(again) == repr(value) or encode(again) == encode(value)


def test_the_fingerprint_covers_everything_but_the_time(store: Store, kit: Any) -> None:
    def print_of(**changes: Any) -> str:
        call = kit.call("q", reply=changes.pop("reply", "r"), started=changes.pop("when", 1.0))
        return kit.record(store, [kit.episode(calls=[call], steps=[kit.step(0, "o", "a")], **changes)]).fingerprint()

    same = print_of()
    assert print_of(when=99.0, seconds=3.0, started=5.0, attempt=2) == same
    for change in ({"reply": "x"}, {"score": 1.0}, {"output": [1]}, {"seed": 8}, {"error": "e"}, {"reward": math.nan}):
        assert print_of(**change) != same, change


def test_the_order_in_which_calls_ended_does_not_matter(store: Store, kit: Any) -> None:
    calls = [kit.call(f"q{n % 3}", reply=f"r{n}", agent=f"a{n % 2}", request=bytes([n % 3] * 16)) for n in range(6)]
    prints = {kit.record(store, [kit.episode(calls=order)]).fingerprint() for order in (calls, calls[::-1])}
    assert len(prints) == 1


def test_calls_of_the_recipe_are_read_back_and_replaced_when_it_runs_again(store: Store, kit: Any) -> None:
    from palestra.store import Writer

    row = kit.begin(store)
    for times in (3, 2):
        writer = Writer(store, row)
        for number in range(times):
            writer.calls([kit.call(f"plan {number}", reply=f"{times}")])
            writer.flush()
        writer.close()
    reading = Reading(store, row)
    assert [call.messages[0].text for call in reading.recipe_calls()] == ["plan 0", "plan 1"]
    assert {call.reply.text for call in reading.calls() if call.reply} == {"2"}
    assert list(reading.episodes()) == []
