"""Steps in bytes, and which tokens they own: on tokenizers of both kinds, with characters cut in half."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerFast

from botgrpo_cli.rewards.spans import TokenBytes
from botgrpo_cli.rewards.steps import (
    MOST_STEPS,
    Steps,
    split_steps,
    step_texts,
    steps_and_tokens,
    steps_of_tokens,
)
from botgrpo_cli.tiny import weights_folder
from tests.rewards.test_spans import llama_like, unigram

# Text -> the text of its steps, without white space around each.
BLANK_LINES = {
    "": [],
    " \n\n ": [""],
    "a": ["a"],
    "a\n\nb": ["a", "b"],
    "\n\n a\n\n\n \t\nb\n\n": ["a", "b"],
    "a\r\n\r\nb\r\n \r\nc": ["a", "b", "c"],
    "a\nb\n\nc": ["a\nb", "c"],
    "a\nb": ["a", "b"],
    "a\r\nb\n": ["a", "b"],
    "a\nb\n\n": ["a", "b"],
    "日本\n\né🙂": ["日本", "é🙂"],
    "a\u00a0\n\u00a0\nb": ["a\u00a0", "\u00a0", "b"],
    # never cut inside
    "a\n\n$$\nx\n\ny\n$$\n\nb": ["a", "$$\nx\n\ny\n$$", "b"],
    "\\[ x\n\ny \\]\n\nb": ["\\[ x\n\ny \\]", "b"],
    "\\begin{align}\nx\n\ny\\\\[2pt]\n\\end{align}\n\nb": ["\\begin{align}\nx\n\ny\\\\[2pt]\n\\end{align}", "b"],
    "\\begin{a}\n\n\\begin{a}\n\n\\end{a}\n\n\\end{a}\n\nb": [
        "\\begin{a}\n\n\\begin{a}\n\n\\end{a}\n\n\\end{a}",
        "b",
    ],
    "$$\\begin{aligned}\nx\n\ny\\end{aligned}$$\n\nb": ["$$\\begin{aligned}\nx\n\ny\\end{aligned}$$", "b"],
    "```py\nx\n\n$$\n```\n\nb $$\n\nc": ["```py\nx\n\n$$\n```", "b $$", "c"],
    "~~~\n```\n\nx\n~~~\n\nb": ["~~~\n```\n\nx\n~~~", "b"],
    "````\n```\n\nx\n````\n\nb": ["````\n```\n\nx\n````", "b"],
    "a\n\n```\nx\n\ny": ["a", "```\nx\n\ny"],
    "$$\nx\ny\n$$\nb": ["$$\nx\ny\n$$", "b"],
    # what opens nothing
    "a $$\n\nb": ["a $$", "b"],
    "a \\[\n\nb": ["a \\[", "b"],
    "\\begin{a}\n\nb\n\n\\end{c}": ["\\begin{a}", "b", "\\end{c}"],
    "\\$$ a\n\nb $$": ["\\$$ a", "b $$"],
    "a\\\\[1pt]\n\nb \\]": ["a\\\\[1pt]", "b \\]"],
    "```x``` a\n\nb": ["```x``` a", "b"],
    "a ```\n\nb": ["a ```", "b"],
    "$x\n\ny$": ["$x", "y$"],
}


@pytest.mark.parametrize(("text", "expected"), BLANK_LINES.items())
def test_cuts_at_blank_lines(text, expected):
    data = text.encode()
    assert step_texts([data], split_steps(data)) == expected


MARKERS = {
    "Step 1: a\n\nb\nStep 2: c": ["Step 1: a\n\nb", "Step 2: c"],
    "First.\n\nMore.\n**Step 1:** a\n## step 2. b\n- STEP 3) c": [
        "First.\n\nMore.",
        "**Step 1:** a",
        "## step 2. b",
        "- STEP 3) c",
    ],
    "Step 1\na\n\nStep 2 - b": ["Step 1\na", "Step 2 - b"],
    "Step 1: a\n\nb": ["Step 1: a\n\nb"],
    "In Step 1: a\n\nStepping 2: b": ["In Step 1: a", "Stepping 2: b"],
    "```\nStep 1: a\nStep 2: b\n```\n\nc": ["```\nStep 1: a\nStep 2: b\n```", "c"],
    "a\nb": ["a", "b"],
}


@pytest.mark.parametrize(("text", "expected"), MARKERS.items())
def test_cuts_at_markers(text, expected):
    data = text.encode()
    assert step_texts([data], split_steps(data, at="markers")) == expected


def test_what_is_over_the_most_joins_the_last():
    data = b"\n\n".join(b"%d" % n for n in range(100))
    spans = split_steps(data)
    assert len(spans) == MOST_STEPS == 64
    assert step_texts([data], spans)[-1].split() == [str(n) for n in range(63, 100)]
    assert step_texts([data], split_steps(data, most=1)) == [data.decode()]
    assert len(split_steps(data, most=100)) == 100


@pytest.mark.parametrize("wrong", [{"at": "lines"}, {"most": 0}])
def test_wrong_calls(wrong):
    with pytest.raises(ValueError, match="expected 'blank-lines' or 'markers'"):
        split_steps(b"a", **wrong)


TOKENS = [
    # pieces, step of each token, text of each step
    ([], [], []),
    ([b""], [-1], []),
    ([b" ", b"\n\n", b""], [0, 0, -1], [""]),
    ([b"\n\n", b" a", b"\n", b"\n", b"b", b""], [0, 0, 0, 0, 1, -1], ["a", "b"]),
    ([b"a.\n\n", b"\n\nb"], [0, 1], ["a.", "b"]),
    ([b"a\n", b"\nb", b"\n \nc\n\n", b"d"], [0, 1, 2, 3], ["a", "b", "c", "d"]),
    ([b"a", b"\n\n  ", b"  ", b"b"], [0, 0, 0, 1], ["a", "b"]),
    # b owns no token: it merges into the next step, at the end into the one before
    ([b"a", b".\n\nb\n\n", b"c"], [0, 0, 1], ["a.", "b\n\nc"]),
    ([b"a", b".\n\nb\n\n"], [0, 0], ["a.\n\nb"]),
    ([b"a\n\nb\n\nc\n\nd", b"d"], [0, 1], ["a", "b\n\nc\n\ndd"]),
    # a special token in the middle is in no step and cuts nothing
    ([b"a", b"", b"b\n\n", b"c"], [0, -1, 0, 1], ["ab", "c"]),
    # halves of a character
    ([b"a\n\n\xc3", b"\xa9", b"\n\n", b"\xf0\x9f", b"\x99\x82"], [0, 1, 1, 2, 2], ["a", "é", "🙂"]),
    ([b"a\n\n", b"\xc3", b"\xa9", b"\n\nb"], [0, 1, 1, 2], ["a", "é", "b"]),
]


@pytest.mark.parametrize(("pieces", "owner", "texts"), TOKENS)
def test_tokens_of_steps(pieces, owner, texts):
    found = steps_and_tokens(pieces)
    assert found.of_token == owner == steps_of_tokens(pieces)
    assert step_texts(pieces, found.spans) == texts


def first_text(piece: bytes) -> int | None:
    return len(piece) - len(piece.lstrip()) if piece.strip() else None


def check(pieces: Sequence[bytes], found: Steps) -> None:
    """What is promised of any completion."""
    data = b"".join(pieces)
    assert len(found.of_token) == len(pieces)
    assert [token for token, step in enumerate(found.of_token) if step == -1] == [
        token for token, piece in enumerate(pieces) if not piece
    ]
    labels = [step for step in found.of_token if step >= 0]
    assert labels == sorted(labels)
    assert sorted(set(labels)) == list(range(len(found.spans)))
    assert len(found.spans) <= MOST_STEPS
    assert sum(end - start for start, end in found.spans) == len(data)
    assert all(left.end == right.start for left, right in zip(found.spans, found.spans[1:], strict=False))
    position, before = 0, 0
    for piece, step in zip(pieces, found.of_token, strict=True):
        text = first_text(piece)
        if text is not None:
            start, end = found.spans[step]
            assert start <= position + text < end
            before = step
        elif piece:
            assert step == before
        position += len(piece)
    cuts = {span.start for span in split_steps(data)}
    assert {span.start for span in found.spans} <= cuts
    assert all(data[cut - 1 : cut] == b"\n" for cut in cuts - {0})


def react_qwen2() -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(
        tokenizer_file=str(weights_folder("react-qwen2") / "tokenizer.json"), eos_token="<|im_end|>"
    )


@pytest.mark.parametrize("make", [react_qwen2, unigram, llama_like])
def test_five_thousand_random_id_sequences(make):
    tokenizer = make()
    table = TokenBytes(tokenizer)
    rng = Random(0)
    size = len(tokenizer)
    marks = [i for i in range(size) if set(b"".join(table.pieces([i]))) & set(b"\n$\\`")]
    assert marks
    several = 0
    for _ in range(5_000):
        ids = [rng.choice(marks) if rng.random() < 0.3 else rng.randrange(size + 5) for _ in range(rng.randrange(50))]
        pieces = table.pieces(ids)
        found = steps_and_tokens(pieces)
        check(pieces, found)
        several += len(found.spans) > 2
    assert several > 1_000


CHUNKS = st.sampled_from(
    ["\n", "\n\n", " ", "\r\n", "$$", "\\[", "\\]", "```", "\n```\n", "\\begin{a}", "\\end{a}", "é"]
)
TEXTS = st.lists(CHUNKS | st.text(max_size=4), max_size=30).map("".join)


@settings(max_examples=300, deadline=None)
@given(text=TEXTS, data=st.data(), at=st.sampled_from(["blank-lines", "markers"]))
def test_any_text_in_any_pieces(text, data, at):
    raw = text.encode("utf-8", "surrogatepass")
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=12)))
    pieces = [raw[start:end] for start, end in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
    spans = split_steps(raw, at=at)
    assert b"".join(raw[start:end] for start, end in spans) == raw
    if raw.strip():
        assert all(raw[start:end].strip() for start, end in spans)
        assert "".join(raw[start:end].decode("utf-8", "surrogatepass") for start, end in spans) == text
    found = steps_and_tokens(pieces, at=at)
    if at == "blank-lines":
        check(pieces, found)


@pytest.mark.parametrize(
    "piece", [b"$$", b"\\[", b"\\begin{a}", b"\\end{a}", b"```\n", b"\n\n", b"\n", b" ", b"step 1"]
)
def test_a_hundred_thousand_bytes_are_just_longer(piece):
    data = piece * (100_000 // len(piece))
    for at in ("blank-lines", "markers"):
        spans = split_steps(data, at=at)
        assert spans[0].start == 0
        assert spans[-1].end == len(data)
