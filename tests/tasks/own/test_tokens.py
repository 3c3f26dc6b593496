"""From parts of a text to tokens: identities, and a slow and obvious way to the same numbers."""

from __future__ import annotations

import codecs
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from botgrpo_cli.rewards.spans import line_of_token
from botgrpo_cli.rewards.spread import spread
from botgrpo_cli.rewards.steps import steps_and_tokens
from botgrpo_cli.tasks.own.functions import Span
from botgrpo_cli.tasks.own.tokens import character_starts, on_tokens, on_units, softened

BROKEN = [
    b"\xf0\x9f\x98",
    b"\xf0\x9f",
    b"\xe2\x82",
    b"\xc3",
    b"\xff",
    b"\x80",
    b"\xed\xa0\x80",
    b"\xc0\xaf",
    b"\xef\xbf",
]
TEXTS = st.lists(
    st.one_of(
        st.text("aé€🙂\n\ufffd ", max_size=4).map(str.encode),
        st.text(max_size=3).map(str.encode),
        st.sampled_from(BROKEN),
        st.binary(max_size=3),
    ),
    max_size=6,
).map(b"".join)
VALUES = st.sampled_from([-1.0, -0.5, -0.25, 0.0, 0.25, 0.5, 1.0])


@st.composite
def token_pieces(draw: st.DrawFn) -> list[bytes]:
    """A text cut anywhere, also inside of characters, with special tokens in between."""
    data = draw(TEXTS)
    cuts = draw(st.lists(st.integers(0, len(data)), max_size=8).map(sorted))
    return [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]


@st.composite
def spans_over(draw: st.DrawFn, length: int) -> list[Span]:
    ends = st.tuples(st.integers(0, length), st.integers(0, length)).map(sorted)
    return [(start, end, value) for (start, end), value in draw(st.lists(st.tuples(ends, VALUES), max_size=5))]


def characters_of_bytes(data: bytes) -> list[int]:
    """The character that each byte became a part of, as Python's own decoder tells it."""
    replaced: dict[int, int] = {}

    def note(problem: UnicodeDecodeError) -> tuple[str, int]:
        replaced[problem.start] = problem.end
        return "\ufffd", problem.end

    codecs.register_error("tests.own.note", note)
    text = data.decode("utf-8", "tests.own.note")
    assert text == data.decode("utf-8", "replace")
    owner: list[int] = []
    for n, character in enumerate(text):
        end = replaced.get(len(owner)) or len(owner) + len(character.encode())
        owner += [n] * (end - len(owner))
    assert len(owner) == len(data)
    return owner


def largest(values: list[float]) -> float:
    return max(values, key=abs, default=0.0)


@given(TEXTS)
def test_characters_start_where_the_decoder_says(data: bytes):
    owner = characters_of_bytes(data)
    count = len(data.decode("utf-8", "replace"))
    assert character_starts(data) == [*(owner.index(n) for n in range(count)), len(data)]


def test_every_broken_sequence_has_its_width():
    """Exhaustive over short ones: lead bytes of every class, continuations and what can't be one."""
    kinds = [*b"a\x80\x8f\x90\xa0\xbf\xc0\xc2\xe0\xe2\xed\xef\xf0\xf1\xf4\xf5\xff"]
    for first in kinds:
        for second in kinds:
            for third in kinds:
                data = bytes([first, second, third, 0xBF, 0x61])
                owner = characters_of_bytes(data)
                assert character_starts(data) == [*(owner.index(n) for n in range(owner[-1] + 1)), 5]


@given(st.data(), token_pieces())
def test_a_token_takes_the_largest_value_of_the_characters_that_it_has_a_byte_of(data: st.DataObject, pieces):
    text = b"".join(pieces).decode("utf-8", "replace")
    spans = data.draw(spans_over(len(text)))
    owner = characters_of_bytes(b"".join(pieces))
    ends = list(accumulate(map(len, pieces)))
    expected = []
    for piece, end in zip(pieces, ends, strict=True):
        held = set(owner[end - len(piece) : end])
        expected.append(largest([v for start, stop, v in spans if held & set(range(start, stop))]))
    assert on_tokens(spans, "characters", pieces) == expected


@given(st.data(), token_pieces(), VALUES)
def test_spans_that_cover_everything_reach_every_token_but_special_ones(data: st.DataObject, pieces, value: float):
    expected = [value if piece else 0.0 for piece in pieces]
    found = steps_and_tokens(pieces)
    text = b"".join(pieces).decode("utf-8", "replace")
    lengths = {
        "characters": len(text),
        "lines": text.count("\n") + 1,
        "steps": len(found.spans),
        "tokens": len(pieces),
    }
    for unit, length in lengths.items():
        cuts = data.draw(st.lists(st.integers(0, length), max_size=4).map(sorted))
        spans = [(start, end, value) for start, end in zip([0, *cuts], [*cuts, length], strict=True)]
        assert on_tokens(spans, unit, pieces, found.of_token) == expected
        if unit != "characters":
            assert on_tokens([value] * length, unit, pieces, found.of_token) == expected
        assert on_tokens([], unit, pieces, found.of_token) == [0.0] * len(pieces)
        assert on_tokens(None, unit, pieces, found.of_token) == [0.0] * len(pieces)


@given(st.data(), token_pieces())
def test_a_token_takes_the_value_of_its_own_line_and_step(data: st.DataObject, pieces):
    found = steps_and_tokens(pieces)
    for unit, owner in (("lines", line_of_token(pieces)), ("steps", found.of_token)):
        length = b"".join(pieces).count(b"\n") + 1 if unit == "lines" else len(found.spans)
        values = data.draw(st.lists(VALUES, min_size=length, max_size=length))
        expected = [values[part] if part >= 0 else 0.0 for part in owner]
        assert on_tokens(values, unit, pieces, found.of_token) == expected
        spans = [(n, n + 1, value) for n, value in enumerate(values)]
        assert on_tokens(spans, unit, pieces, found.of_token) == expected


@given(st.data(), st.integers(0, 12))
def test_of_spans_that_overlap_the_largest_counts_and_never_the_sum(data: st.DataObject, count: int):
    spans = data.draw(spans_over(count))
    expected = [largest([v for start, end, v in spans if start <= n < end]) for n in range(count)]
    assert on_units(spans, count) == expected


def test_the_same_mistake_found_twice_is_one():
    pieces = [b"ab", b"cd", b""]
    assert on_tokens([(0, 2, -0.5), (0, 4, -0.5)], "characters", pieces) == [-0.5, -0.5, 0.0]
    assert on_tokens([(0, 1, 0.5), (1, 2, -0.5)], "characters", pieces) == [0.5, 0.0, 0.0]  # equal ones: the first


def test_a_character_in_three_tokens_reaches_all_three_and_no_neighbour():
    pieces = [b"a", b"\xf0\x9f", b"", b"\x99", b"\x82b", b"c"]
    assert on_tokens([(1, 2, 1.0)], "characters", pieces) == [0.0, 1.0, 0.0, 1.0, 1.0, 0.0]
    assert on_tokens([(2, 3, 1.0)], "characters", pieces) == [0.0, 0.0, 0.0, 0.0, 1.0, 0.0]


@pytest.mark.parametrize(
    ("answer", "unit", "steps", "words"),
    [
        ([(0, 4, 1.0)], "characters", None, "beyond 3 characters"),
        ([0.5], "lines", None, "1 numbers for 2 parts"),
        ([0.5] * 3, "lines", None, "3 numbers for 2 parts"),
        ([(0, 3, 1.0)], "lines", None, "beyond 2 parts"),
        ([0.5] * 3, "tokens", None, "3 numbers for 2 parts"),
        ([0.5], "steps", [0, 1], "1 numbers for 2 parts"),
        ([0.5], "steps", None, "needs the step of each token"),
    ],
)
def test_an_answer_to_another_completion_is_refused(answer, unit, steps, words: str):
    with pytest.raises(ValueError, match=words):
        on_tokens(answer, unit, [b"a\n", b"b"], steps)


def test_steps_without_a_token_are_no_mistake():
    """The text of a completion that was cut off may have a step more than its tokens."""
    assert on_tokens([0.5, -1.0], "steps", [b"a", b""], [0, -1]) == [0.5, 0.0]
    assert on_tokens([(0, 2, 1.0)], "steps", [b"a", b""], [0, -1]) == [1.0, 0.0]


@given(st.lists(VALUES, max_size=12), st.sampled_from(["exponential", "linear", "none"]), st.sampled_from([0.5, 1, 2]))
def test_softening_keeps_signs_apart(values: list[float], kind, half_life: float):
    blame = [min(value, 0.0) for value in values]
    spread_blame = [-value for value in spread([-value for value in blame], kind=kind, half_life=half_life)]
    assert softened(blame, kind, half_life) == spread_blame
    assert softened([-value for value in values], kind, half_life) == [-v for v in softened(values, kind, half_life)]
    both = softened(values, kind, half_life)
    for n, value in enumerate(values):
        assert abs(both[n]) <= max(map(abs, values))
        if kind == "none":
            assert both[n] == value
        if value and not any(v * value < 0 for v in values):
            assert abs(both[n]) >= abs(value)


def test_softening_of_values_beyond_one_is_in_proportion():
    assert softened([0, -4.0, 0], "exponential", 1) == [-2.0, -4.0, -2.0]
