"""A schema is either enforced by llama.cpp to the letter or refused before the call; every reply is validated."""

import asyncio
import json
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from palestra.core.errors import BadInput, BadReply, MissingExtra
from palestra.core.records import Completion, Message, Sampling, Usage
from palestra.models import schema
from palestra.models.schema import MAX_ITEMS, MAX_LENGTH, anchored, check_value, for_grammar


def completion(text, reason="stop"):
    return Completion(Message("assistant", text), Usage(), finish_reason=reason, model="m")


def closed(**properties):
    return {"type": "object", "properties": properties, "required": list(properties)}


REFUSED = {
    "uniqueItems": ({"type": "array", "items": {"type": "integer"}, "uniqueItems": True}, "#/uniqueItems"),
    "not": (closed(a={"not": {"const": 1}}), "#/properties/a/not"),
    "if": (closed(a={"type": "integer"}) | {"if": {}, "then": {}}, "#/if"),
    "dependentRequired": (closed(a={"type": "integer"}) | {"dependentRequired": {}}, "#/dependentRequired"),
    "open pattern": (closed(a={"type": "string", "pattern": "[a-c]"}), "#/properties/a/pattern"),
    "allOf": ({"allOf": [closed(a={"const": 1})]}, "#/allOf"),
    "prefixItems": ({"type": "array", "prefixItems": [{"const": 1}]}, "#/prefixItems"),
    "format": ({"type": "array", "items": {"type": "string", "format": "email"}}, "#/items/format"),
    "inside $defs": ({"$defs": {"x/y": {"not": {}}}, "$ref": "#/$defs/x~1y"}, "#/$defs/x~1y/not"),
    "inside anyOf": ({"anyOf": [{"type": "integer"}, {"contains": {}}]}, "#/anyOf/1/contains"),
    "any JSON": ({}, "#"),
    "free object": (closed(a={"type": "object"}), "#/properties/a"),
    "free keys": ({"type": "object", "additionalProperties": {"type": "integer"}}, "#"),
    "array of anything": ({"type": "array"}, "#"),
    "true": (closed(a=True), "#/properties/a"),
    "union beside others": ({"anyOf": [{"const": 1}], "minimum": 3}, "#/minimum"),
    "remote reference": ({"$ref": "https://example.org/x"}, "#/$ref"),
    "unknown type": ({"type": "text"}, "#/type"),
    "required but absent": (closed(a={"const": 1}) | {"required": ["b"]}, "#/required"),
}
# What the grammar enforces: each is sampled at a high temperature below.
HONOURED = {
    "enum and const": closed(a={"enum": ["x", 2, None]}, b={"const": "fixed"}),
    "integers": closed(a={"type": "integer", "minimum": 3, "maximum": 9}, b={"type": "integer", "multipleOf": 5, "minimum": 0, "maximum": 100}),
    "exclusive": closed(a={"type": "integer", "exclusiveMinimum": 3, "exclusiveMaximum": 6}),
    "lengths": closed(a={"type": "string", "minLength": 2, "maxLength": 6}),
    "pattern": closed(a={"type": "string", "pattern": "^[a-c]{2,4}$"}, b={"type": "string", "pattern": "^(yes|no)$"}),
    "formats": closed(a={"type": "string", "format": "date"}, b={"type": "string", "format": "uuid"}),
    "array": closed(a={"type": "array", "items": {"type": "boolean"}, "minItems": 2, "maxItems": 3}),
    "union": {"oneOf": [closed(name={"const": "a"}, x={"type": "boolean"}), closed(name={"const": "b"}, y={"type": "null"})]},
    "references": {"$defs": {"c": {"enum": ["x", "y"]}}} | closed(a={"$ref": "#/$defs/c"}, b={"anyOf": [{"$ref": "#/$defs/c"}, {"type": "null"}]}),
    "nested": closed(a={"type": "object", "properties": {"b": {"type": ["integer", "null"], "minimum": 0, "maximum": 9}}, "required": ["b"]}),
    "annotations": {"title": "T", "$schema": "https://json-schema.org/draft/2020-12/schema", "description": "d"} | closed(a={"const": 1, "default": 1, "examples": [1]}),
    "optional": {"type": "object", "properties": {"a": {"const": 1}, "b": {"const": 2}}, "required": ["b"]},
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_grammar_would_drop_is_refused_with_its_place(name):
    given_schema, place = REFUSED[name]
    with pytest.raises(BadInput) as error:
        for_grammar(given_schema)
    assert error.value.field == f"schema{place}"


@pytest.mark.parametrize("name", HONOURED)
def test_what_it_enforces_is_closed_and_stays_the_callers(name):
    before = json.dumps(HONOURED[name])
    Draft202012Validator.check_schema(for_grammar(HONOURED[name]))
    assert json.dumps(HONOURED[name]) == before


def test_objects_are_closed_and_texts_and_arrays_limited():
    made = for_grammar(closed(a={"type": "string"}, b={"type": "array", "items": {"type": "string", "minLength": 500}}))
    assert made["additionalProperties"] is False
    assert made["properties"]["a"]["maxLength"] == MAX_LENGTH
    assert made["properties"]["b"]["maxItems"] == MAX_ITEMS
    assert made["properties"]["b"]["items"]["maxLength"] == 500
    assert made["x-guidance"]["whitespace_flexible"] is False


def test_a_bare_number_is_warned_of():
    with pytest.warns(UserWarning, match="#/properties/a: a bare number"):
        for_grammar(closed(a={"type": "number"}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for_grammar(closed(a={"type": "number", "multipleOf": 0.5, "minimum": 0, "maximum": 1}))


@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from([*sorted(schema.HONOURED), "not", "x", "title"]), inner, max_size=4),
    max_leaves=12,
))  # fmt: skip
def test_whatever_is_given_is_enforceable_or_one_clear_line(value):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            made = for_grammar(value)
        except BadInput as error:
            assert str(error).startswith("schema#")
            return
    assert "x-guidance" in made
    assert for_grammar(made) == made  # closing twice changes nothing


@given(st.from_regex(r"\A\^[a-c(|)\[\]\\.?*+{}1^$-]{0,8}\$\Z"))
def test_an_anchored_pattern_means_the_same_for_the_whole_text_and_any_part(pattern):
    import re

    if anchored(pattern):
        for text in ("", "a", "ab", "abc", "1", "xay", "aXb"):
            assert bool(re.search(pattern, text)) == bool(re.fullmatch(pattern[1:-1], text))


def test_a_reply_is_refused_when_cut_off_not_json_or_of_another_shape():
    wanted = closed(a={"type": "integer"})
    assert check_value(completion(' {"a": 1}\n'), wanted) == {"a": 1}
    for text, reason in (('{"a": 1}', "length"), ("a is 1", "stop"), ('{"a": "1"}', "stop")):
        with pytest.raises(BadReply):
            check_value(completion(text, reason), wanted)


@pytest.mark.model
async def test_the_model_keeps_every_honoured_keyword_at_high_temperature():
    from palestra.models.embedded import smollm2_engine
    from palestra.models.model import Model

    try:
        engine = smollm2_engine(slots=4)
    except MissingExtra as error:
        pytest.skip(str(error))
    model = Model(engine, name="smollm2")
    wild = [Sampling(temperature=1.5, max_tokens=64, seed=seed) for seed in (1, 2)]
    replies = await asyncio.gather(
        *(model.complete("Write some JSON.", schema=one, sampling=how) for one in HONOURED.values() for how in wild)
    )
    for reply, one in zip(replies, [one for one in HONOURED.values() for _ in wild], strict=True):
        assert "\n" not in reply.text
        Draft202012Validator(for_grammar(one)).validate(reply.parsed)
    with pytest.raises(BadInput, match="uniqueItems"):
        await model.complete("Write some JSON.", schema=REFUSED["uniqueItems"][0])
    engine.close()
