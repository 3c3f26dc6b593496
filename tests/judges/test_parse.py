"""What counts as a reply, and what does not."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from botgrpo_cli.judges.parse import Malformed, looks_refused, read_object, require_schema
from tests.judges.asks import GOOD, GOOD_TEXT, SCHEMA

FENCED = f"Here you are:\n```json\n{GOOD_TEXT}\n```\nDoes that help? {{}}"


@pytest.mark.parametrize(
    "text",
    [
        GOOD_TEXT,
        f"\n  {GOOD_TEXT}\n",
        FENCED,
        f"~~~\n{GOOD_TEXT}\n~~~",
        f"The score {{of 7}} is right, I think. {GOOD_TEXT} Thank you.",
        f'First I thought {{"score": 1, "side": "B"}}, but: {GOOD_TEXT}',
        f'<think>```json\n{{"score": 1, "side": "B"}}\n```</think>{GOOD_TEXT}',
        f'<think>no {{"score": 1}}\n</think>\n\n{FENCED}',
        f"```\nno JSON\n```\n{GOOD_TEXT}",
    ],
)
def test_the_object_is_found(text):
    assert read_object(text) == GOOD


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I like A better.",
        GOOD_TEXT[:-1],
        GOOD_TEXT.replace("7", "NaN"),
        GOOD_TEXT.replace("7", "Infinity"),
        '{"score": 7, "score": 9, "side": "A"}',
        '{"a":' * 5000,
        "{" * 50_000,
        '{"score": ' + "9" * 10_000 + "}",
    ],
)
def test_no_object_is_malformed(text):
    with pytest.raises(Malformed, match="no JSON object"):
        read_object(text)


@pytest.mark.parametrize("text", ["[1]", f"[{GOOD_TEXT}]", "7", "null", "true", '"A"', "```\n[1]\n```"])
def test_json_that_is_no_object_is_malformed_and_not_searched(text):
    with pytest.raises(Malformed, match="JSON, but no object"):
        read_object(text)


@given(st.text(alphabet='{}[]",:`~1a \n\\', max_size=60))
def test_any_text_is_an_object_or_malformed(text):
    with contextlib.suppress(Malformed):
        assert isinstance(read_object(text), dict)


@given(
    st.dictionaries(st.text(max_size=9), st.integers() | st.text(max_size=9) | st.booleans() | st.none(), max_size=4),
    st.sampled_from(["{}", "Prose: {} and so on", "```json\n{}\n```", "<think>hm</think>{}"]),
)
def test_every_object_survives_its_wrapping(value, frame):
    assert read_object(frame.replace("{}", json.dumps(value), 1)) == value


def test_the_schema_is_met():
    require_schema(GOOD, SCHEMA)


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"score": 11}, "score: 11 is greater than the maximum of 10"),
        ({"score": -1}, "score: "),
        ({"score": True}, "score: True is not of type 'integer'"),
        ({"score": "7"}, "score: "),
        ({"score": 6.5}, "score: "),
        ({"side": "C"}, "side: 'C' is not one of"),
        ({"more": 1}, "The object: "),
    ],
)
def test_a_broken_schema_names_the_place(change, place):
    with pytest.raises(Malformed) as caught:
        require_schema({**GOOD, **change}, SCHEMA)
    assert str(caught.value).startswith(place)


def test_a_missing_key_is_named():
    with pytest.raises(Malformed, match="'side' is a required property"):
        require_schema({"score": 7}, SCHEMA)


def test_entries_of_lists_can_be_left_to_the_reader():
    schema = {"type": "object", "properties": {"lines": {"type": "array", "maxItems": 1, "items": {"type": "integer"}}}}
    wrong = {"lines": ["x", 2], "more": 1}
    require_schema(wrong, schema, entries=False)
    with pytest.raises(Malformed):
        require_schema(wrong, schema)
    with pytest.raises(Malformed, match="lines: 'x' is not of type 'array'"):
        require_schema({"lines": "x"}, schema, entries=False)


@pytest.mark.parametrize(
    "text", ["I'm sorry, but I can't help with that.", "I cannot rate this.", "Sorry, I can't.", "I’m unable to judge."]
)
def test_refusals(text):
    assert looks_refused(text)


@pytest.mark.parametrize("text", ["", "I candidly like it.", f"I cannot say more than {GOOD_TEXT}", "It can't work."])
def test_other_texts_are_no_refusals(text):
    assert not looks_refused(text)
