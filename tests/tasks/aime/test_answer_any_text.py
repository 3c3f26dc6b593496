"""The grader on what nobody expected: texts of 100 kB made to be slow, and texts drawn at random."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from botgrpo_cli.tasks.aime.answer import Grade, grade, last_box

GOLD = frozenset({42})

HUGE = {
    "open braces": "\\boxed" + "{" * 100_000,
    "open boxes": r"\boxed{" * 15_000,
    "nested boxes": r"\boxed{" * 15_000 + "42" + "}" * 15_000,
    "many boxes": r"\boxed{42}" * 10_000,
    "backslashes": "\\" * 100_000,
    "spaces after boxed": ("\\boxed" + " " * 1_000) * 100,
    "think": "<think>" * 15_000,
    "half a tag": "<think" + " " * 100_000,
    "digits": r"\boxed{" + "9" * 100_000 + "}",
    "commas": r"\boxed{" + "1,000" * 20_000 + "}",
    "power tower": r"\boxed{" + "9^{" * 30_000 + "}" * 30_000 + "}",
    "combining marks": r"\boxed{" + "\u0323\u0307" * 50_000 + "}",
    "equals": r"\boxed{" + "=" * 100_000 + "42}",
    "answer is": "answer is " * 10_000,
    "noise": "0123456789 $x$ {} \n" * 5_000,
}


@pytest.mark.parametrize("name", HUGE)
@pytest.mark.parametrize("mode", ["strict", "lenient"])
def test_hundred_thousand_characters_are_just_longer(name, mode):
    found = grade(HUGE[name], GOLD, mode=mode)
    assert found.correct is (name in ("many boxes", "equals"))


PARTS = st.sampled_from(
    ["\\boxed{", "\\fbox{", "}", "{", "\\{", "\\}", "\\", "42", "<think>", "</think>", "=", " ", "\\text{", ",", "."]
)
NOISE = st.lists(PARTS | st.text(max_size=3), max_size=30).map("".join)


@settings(max_examples=300, deadline=None)
@given(text=NOISE | st.text(), mode=st.sampled_from(["strict", "lenient"]))
@example(text="\ud800\\boxed{\udfff}", mode="strict")
def test_any_text_is_graded_and_the_fields_agree(text, mode):
    found = grade(text, GOLD, mode=mode)
    assert found.correct == (found.extracted == 42)
    if found.status in ("not_int", "unclosed"):
        assert found.extracted is None
    if found.status in ("ok", "multi"):
        assert found.extracted is not None


def slow_boxes(text: str) -> tuple[str | None, int]:
    """The definition by loops: every box's own brace matching, boxes inside closed ones left out."""
    escaped = {match.start() + 1 for match in re.finditer(r"\\.", text, re.DOTALL)}
    closed: list[tuple[int, int]] = []
    count, inside_until = 0, -1
    for start in re.finditer(r"\\(?:boxed|fbox)\s*\{", text):
        if start.start() < inside_until:
            continue
        depth = 1
        for at in range(start.end(), len(text)):
            if at not in escaped:
                depth += {"{": 1, "}": -1}.get(text[at], 0)
            if depth == 0:
                closed.append((start.end(), at))
                inside_until = at
                break
        count += 1
    return (text[slice(*closed[-1])] if closed else None), count


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(["\\boxed{", "\\fbox{", "}", "}", "{", "\\{ ", "\\} ", "4"]), max_size=25).map("".join))
def test_last_box_is_what_the_loops_find(text):
    assert last_box(text) == slow_boxes(text)


@given(st.integers(0, 999), st.sampled_from(["ok", "padded", "full width", "boxed twice"]))
def test_every_answer_in_every_spelling(value, spelling):
    text = {
        "ok": f"\\boxed{{{value}}}",
        "padded": f"\\boxed{{{value:03d}}}",
        "full width": "\\boxed{" + "".join(chr(0xFF10 + int(digit)) for digit in str(value)) + "}",
        "boxed twice": f"\\boxed{{\\boxed{{{value}}}}}",
    }[spelling]
    assert unicodedata.normalize("NFKC", text).isascii()
    assert grade(text, frozenset({value})) == Grade(True, value, "ok")
    assert grade(text, frozenset({(value + 1) % 1000})).correct is False
