from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from botgrpo_cli.tasks.aime.answer import Grade, grade, integer

GOLD = frozenset({42})

# What a box may hold -> the integer in it; None: no integer.
CONTENTS = {
    # the table of the task's rules
    "42": 42,
    "042": 42,
    "42.0": 42,
    "４２": 42,
    r"42^\circ": 42,
    "42.": 42,
    r"\mathbf{042}": 42,
    "m+n=42": 42,
    r"\text{(C) } 42": 42,
    r"42\%": None,
    "42, 43": None,
    "-42": -42,
    "4 2": None,
    # white space and math marks
    "  42 ": 42,
    "\n42\r\n": 42,
    "$42$": 42,
    r"\(42\)": 42,
    r"\,42\!": 42,
    r"\ 42\;": 42,
    r"~42\quad": 42,
    "\u200942\u202f": 42,
    # styles, nested and empty
    r"\text{42}": 42,
    r"\textbf{(A)}\ 42": 42,
    r"\mathrm{\mathbf{42}}": 42,
    r"\boldsymbol{42}": 42,
    r"\displaystyle 42": 42,
    r"\rm 42": 42,
    r"\boxed{42}": 42,
    "{{42}}": 42,
    "(C) 42": 42,
    "(C)": None,
    "(42)": None,
    # degrees
    r"42^{\circ}": 42,
    r"42 ^ \circ": 42,
    r"42\degree": 42,
    "42°": 42,
    "42º": 42,
    r"42\text{ degrees}": 42,
    "42°C": None,
    # signs
    "+42": 42,
    "−42": -42,
    "–42": -42,
    "－42": -42,
    "--42": None,
    "- 42": None,
    # equations
    "x=41=42": 42,
    r"\text{answer = 42}": 42,
    "42=m+n": None,
    "m ＝ 42": 42,
    "m != 42": None,
    "m >= 42": None,
    r"m \neq 42": None,
    # numbers of other forms
    "1,042": 1042,
    "1{,}042": 1042,
    r"1\,042": 1042,
    "42,043": 42043,
    "4,2": None,
    "42,": None,
    "1,04": None,
    "42.00": 42,
    "42.0.": 42,
    "42.5": None,
    ".0": None,
    "42..": None,
    "42…": None,
    "0": 0,
    "000": 0,
    "-0": 0,
    "9" * 18: 10**18 - 1,
    "9" * 19: None,
    "0" * 101: None,
    "𝟒𝟐": 42,
    "٤٢": 42,
    # what would have to be evaluated
    r"\dfrac{84}{2}": None,
    r"\frac{42}{1}": None,
    "6*7": None,
    "6×7": None,
    "9^{9^{9}}": None,
    "2^{10}": None,
    "4²": None,
    "4₂": None,
    "42!": None,
    r"\sqrt{1764}": None,
    "4e1": None,
    "0x2A": None,
    "4_2": None,
    "42½": None,
    "{42} or {43}": None,
    r"\{42\}": None,
    r"42\text{ cm}": None,
    r"42\text{ or }43": None,
    "forty-two": None,
    "": None,
    " ": None,
    "{": None,
    "x": None,
    "\x00": None,
    "\ud800": None,
}


@pytest.mark.parametrize(("content", "value"), CONTENTS.items())
def test_what_a_box_holds(content, value):
    assert integer(content) == value
    braces = re.sub(r"\\.", "", content)
    if braces.count("{") == braces.count("}"):
        status = "not_int" if value is None else "ok"
        assert grade(f"So \\boxed{{{content}}}.", GOLD) == Grade(value == 42, value, status)


# Whole completions -> (correct, extracted, status) in strict mode with the gold 42.
TEXTS = {
    "we get 3 then 42": (False, None, "no_box"),
    "": (False, None, "no_box"),
    "The answer is 42.": (False, None, "no_box"),
    "boxed{42}": (False, None, "no_box"),
    r"\boxed 42": (False, None, "no_box"),
    r"\boxedfoo{42}": (False, None, "no_box"),
    r"\boxed{42": (False, None, "unclosed"),
    r"\boxed{\text{42}": (False, None, "unclosed"),
    r"\boxed{42\}": (False, None, "unclosed"),
    r"\fbox{42}": (True, 42, "ok"),
    r"\boxed {42}": (True, 42, "ok"),
    "\\boxed\r\n{42}\r\n": (True, 42, "ok"),
    r"$$\boxed{42}$$": (True, 42, "ok"),
    r"\[ \boxed{42} \]": (True, 42, "ok"),
    r"**\boxed{42}**": (True, 42, "ok"),
    r"\boxed{42}\text{ cm}": (True, 42, "ok"),
    r"\boxed{42}\%": (True, 42, "ok"),
    r"\\boxed{42}": (True, 42, "ok"),
    r"\boxed{42}<|im_end|>": (True, 42, "ok"),
    r"\boxed{42}</s></s>": (True, 42, "ok"),
    r"\boxed{42}}": (True, 42, "ok"),
    r"$\{\boxed{42}": (True, 42, "ok"),
    r"\boxed{\boxed{42}}": (True, 42, "ok"),
    r"\boxed{\fbox{\text{42}}}": (True, 42, "ok"),
    r"\boxed{43}": (False, 43, "ok"),
    # several boxes
    r"\boxed{41}, no: \boxed{42}": (True, 42, "multi"),
    r"\boxed{42} or \boxed{43}": (False, 43, "multi"),
    r"\boxed{42} and again \boxed{42}": (True, 42, "multi"),
    r"\boxed{42}, checked: \boxed{4": (True, 42, "multi"),
    r"\boxed{4 \boxed{42}": (True, 42, "multi"),
    r"\boxed{42} \boxed{x}": (False, None, "not_int"),
    r"\boxed{4\boxed{2}}": (True, 42, "ok"),
    r"\boxed{4 \boxed{2}}": (False, None, "not_int"),
    # reasoning
    r"<think>\boxed{42}</think>": (False, None, "no_box"),
    r"<think>\boxed{42}</think> So 42.": (False, None, "no_box"),
    r"<think>\boxed{41}</think>\boxed{42}": (True, 42, "ok"),
    r"\boxed{41}</think>\boxed{42}": (True, 42, "ok"),
    r"<think>a</think>\boxed{41}<think>b</think>\boxed{42}": (True, 42, "ok"),
    r"<think>\boxed{42}": (False, None, "no_box"),
    r"\boxed{42}<think>": (False, None, "no_box"),
    r"<think>a</think>\boxed{42}<think>hm": (False, None, "no_box"),
    r"<THINK>\boxed{41}</Think>\boxed{42}": (True, 42, "ok"),
    r"<thinking>\boxed{41}</thinking>\boxed{42}": (True, 42, "ok"),
    r"<think >\boxed{41}</think >\boxed{42}": (True, 42, "ok"),
    r"I <thought> of \boxed{42}": (True, 42, "ok"),
    "<think>\\boxed{4</think>\\boxed{42}": (True, 42, "ok"),
}


@pytest.mark.parametrize(("text", "expected"), TEXTS.items())
def test_whole_completions(text, expected):
    assert grade(text, GOLD) == Grade(*expected)


# With mode="lenient": what is taken besides the box.
LENIENT = {
    "The answer is 42.": 42,
    "the final ANSWER  IS: 42": 42,
    "The answer is **42**.\nDone.": 42,
    "The answer is $42$. We are done.": 42,
    r"The answer is \(m+n=42\).": 42,
    "The answer is:\n\n42<|im_end|>": 42,
    "The answer is 41. No, the answer is 42": 42,
    "The answer is 42 or 43.": None,
    "The answer is 42%.": None,
    "The answer is 42.5": None,
    "The answer is not 42": None,
    "answers: 42": None,
    "The answer is 42." + " and so on" * 20: None,
    r"The answer is 42, \boxed{42": None,
    r"The answer is 42. \boxed{x}": None,
    "<think>The answer is 42.</think>": None,
    "<think>The answer is 42.": None,
}


@pytest.mark.parametrize(("text", "value"), LENIENT.items())
def test_lenient(text, value):
    assert grade(text, GOLD).correct is False
    found = grade(text, GOLD, mode="lenient")
    assert (found.correct, found.extracted) == (value == 42, value)
    assert found.status == grade(text, GOLD).status


def test_lenient_prefers_the_box():
    assert grade(r"The answer is 41. \boxed{42}", GOLD, mode="lenient") == Grade(True, 42, "ok")
    assert grade(r"\boxed{41} The answer is 42.", GOLD, mode="lenient") == Grade(False, 41, "ok")


def test_zero_is_an_answer_and_several_golds_are_each_right():
    assert grade(r"\boxed{0}", frozenset({0})) == Grade(True, 0, "ok")
    assert grade(r"\boxed{}", frozenset({0})) == Grade(False, None, "not_int")
    both = frozenset({80, 81})
    assert [grade(rf"\boxed{{{n}}}", both).correct for n in ("080", "81", "82")] == [True, True, False]


def test_wrong_calls():
    with pytest.raises(ValueError, match="expected 'strict' or 'lenient'"):
        grade("", GOLD, mode="loose")
    with pytest.raises(ValueError, match="gold is empty"):
        grade("", frozenset())


def test_threads_grade_alike():
    texts = [*TEXTS] * 20
    alone = [grade(text, GOLD) for text in texts]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda text: grade(text, GOLD), texts)) == alone
