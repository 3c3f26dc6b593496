"""Which values of functions are taken, and in which words the others are refused; in a real child process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.tasks.own.asking import asked, call, reason


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("None", None),
        ("True", 1.0),
        ("0", 0.0),
        ("numpy.float32(0.5)", 0.5),
        ("numpy.array([0.25])", 0.25),
        ("torch.tensor(0.5)", 0.5),
        ("1.7", "gave 1.7 for the prompt 'p3'; expected a number from 0 to 1."),
        ("-0.001", "gave -0.001 for"),
        ("float('nan')", "gave nan for"),
        ("numpy.float64('inf')", "gave inf for"),
        ("torch.tensor([0.5, 0.5])", "gave tensor([0.5000, 0.5000]) for"),
        ("10 ** 400", "expected a number from 0 to 1."),
        ("'0.5'", "gave '0.5' for"),
        ("1j", "gave 1j for"),
        ("[0.5]", "gave [0.5] for"),
        ("'x' * 1000", "…"),
        ("type('Odd', (), {'__repr__': lambda self: 1 / 0})()", "gave a value of type Odd whose repr fails for"),
    ],
)
def test_values_of_a_term(tmp_path: Path, given: str, expected: Any):
    heavy = "".join(f"import {name}\n" for name in ("numpy", "torch") if name in given)
    (answer,) = asked(tmp_path, f"{heavy}def solved(text): return {given}\n", "solved")
    if isinstance(expected, str):
        assert reason(answer).startswith(f"sums.py:{3 if heavy else 2}: solved gave ")
        assert expected in reason(answer)
        assert len(reason(answer)) < 220
    else:
        assert answer == expected
        assert type(answer) in (float, type(None))


def test_bounds_in_words(tmp_path: Path):
    for arguments, words in (
        ("low=0, high=None", "a number of at least 0"),
        ("low=None, high=-1", "a number of at most -1"),
        ("low=-0.5", "a number from -0.5 to 1"),
    ):
        (answer,) = asked(tmp_path, f"@term({arguments})\ndef f(text): return float('inf')\n", "f")
        assert reason(answer).endswith(f"; expected {words}.")
    assert asked(tmp_path, "@metric\ndef f(text): return -1e300\n", "f") == [-1e300]


def test_values_of_a_batch(tmp_path: Path):
    calls = [call(prompt_id=f"p{n}") for n in range(4)]
    text = "def f(completions): return {}\n"

    def given(values: str, before: str = "") -> list[Any]:
        return asked(tmp_path, before + text.format(values), "f", *calls)

    assert given("(1, None, -5.5, 2)") == [1.0, None, -5.5, 2.0]
    assert given("numpy.arange(4)", "import numpy\n") == [0.0, 1.0, 2.0, 3.0]
    answers = given("[1, float('nan'), 'a', 2]")
    assert (answers[0], answers[3]) == (1.0, 2.0)  # a wrong value is its own completion's trouble
    whom = "for 4 completions, one of them for the prompt"
    assert reason(answers[1]) == f"sums.py:2: f gave nan {whom} 'p1'; expected a finite number."
    assert reason(answers[2]) == f"sums.py:2: f gave 'a' {whom} 'p2'; expected a finite number."
    few = [f"sums.py:2: f gave 3 values {whom} 'p{n}'; expected one value each." for n in range(4)]
    assert [reason(answer) for answer in given("[1, 2, 3]")] == few
    assert reason(given("None")[0]) == f"sums.py:2: f gave None {whom} 'p0'; expected a list of 4 values."
    raised = [f"sums.py:2: f raised ZeroDivisionError: division by zero (sums.py:2) {whom} 'p{n}'." for n in range(4)]
    assert [reason(answer) for answer in given("1 / 0")] == raised


SPANS = "expected a list of triples (start, end, value)"


@pytest.mark.parametrize(
    ("unit", "given", "expected"),
    [
        ("characters", "[(0, 3, -1), (8, 8, 0.5)]", [(0, 3, -1.0), (8, 8, 0.5)]),
        ("characters", "[]", []),
        ("characters", "None", None),
        ("characters", "numpy.array([[0, 3]]).tolist()", f"gave [0, 3] for the prompt 'p3'; {SPANS}."),
        ("characters", "[[numpy.int64(0), 1, numpy.float32(0.5)]]", [(0, 1, 0.5)]),
        ("characters", "[(0, 9, 1)]", "expected 0 <= start <= end <= 8, the number of characters."),
        ("characters", "[(3, 2, 1)]", "gave the span (3, 2, 1)"),
        ("characters", "[(-1, 2, 1)]", "gave the span (-1, 2, 1)"),
        ("characters", "[(0.0, 2, 1)]", "expected whole numbers as its start and end."),
        ("characters", "[(0, 2, 1.5)]", "gave 1.5 for the span from 0 to 2 for the prompt 'p3'; expected a number"),
        ("characters", "[(0, 2, float('nan'))]", "gave nan for the span from 0 to 2"),
        ("characters", "[0.5] * 8", f"gave 0.5 for the prompt 'p3'; {SPANS}."),
        ("characters", "0.5", f"gave 0.5 for the prompt 'p3'; {SPANS}."),
        ("lines", "[0.5, -1, True]", [0.5, -1.0, 1.0]),
        ("lines", "numpy.zeros(3)", [0.0, 0.0, 0.0]),
        ("lines", "[(0, 3, 1)]", [(0, 3, 1.0)]),
        ("lines", "[0.5]", "gave 1 number for the prompt 'p3'; expected one for each of its 3 lines."),
        ("lines", "[0.5, None, 0]", "gave None at 1 for"),
        (
            "lines",
            "[0.5, 2, 0]",
            "gave 2 at 1 for the prompt 'p3'; expected a number from -1 to 1 for each of the lines",
        ),
        ("lines", "[0.5, 0, (0, 1, 1)]", "gave (0, 1, 1) at 2"),
        ("lines", "[(0, 4, 1)]", "end <= 3, the number of lines."),
        ("lines", "'abc'", f"{SPANS}, or 3 numbers, one each of the lines."),
        ("steps", "[1, 0]", [1.0, 0.0]),
        ("steps", "[(1, 3, 0)]", "end <= 2, the number of steps."),
        ("tokens", "[0.5] * 4", [0.5] * 4),
        ("tokens", "[0.5] * 5", "gave 5 numbers for the prompt 'p3'; expected one for each of its 4 tokens."),
    ],
)
def test_values_of_a_signal(tmp_path: Path, unit: str, given: str, expected: Any):
    heavy = "import numpy\n" if "numpy" in given else ""
    one = call("a b\nc 🙂\n", steps=("a b", "c"), tokens=("a", " b\n", "c 🙂\n", ""))
    text = f"{heavy}@signal({unit!r})\ndef doubt(text): return {given}\n"
    (answer,) = asked(tmp_path, text, "doubt", one)
    if isinstance(expected, str):
        assert expected in reason(answer)
    else:
        assert answer == expected


def test_a_signal_in_batch_form(tmp_path: Path):
    text = '@signal("lines")\ndef f(completions, steps): return [[0.5] * (c.count("\\n") + 1) for c in completions]\n'
    assert asked(tmp_path, text, "f", call("a"), call("a\nb")) == [[0.5], [0.5, 0.5]]
