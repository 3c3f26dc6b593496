from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from botgrpo_cli.errors import InputError
from botgrpo_cli.report.tokens import END, NEW_LINE, lines_of, remarks_of, scale_of, terms_of, tint
from botgrpo_cli.rewards.spans import line_of_token, readable

ROW = {
    "step": 3,
    "split": "train",
    "rollout": 5,
    "pieces": ["a", " b\n", "\n  c", "", "d\n"],
    "advantages": [1.0, -0.5, 2.0, None, 0.25],
    "local": [0.0, -1.0, 0.0, 0.0, 0.0],
}


def test_tokens_stand_on_their_lines_with_their_values():
    lines = lines_of(ROW)
    assert ["".join(token.text for token in line.tokens) for line in lines] == [
        f"a b{NEW_LINE}",
        NEW_LINE,
        f"  c{END}d{NEW_LINE}",
        "",
    ]
    assert [token.value for token in lines[2].tokens] == [2.0, 0.0, 0.25]
    assert lines[0].mean == 0.25
    assert lines[3].mean is None
    assert lines_of(ROW, "local")[0].mean == -0.5


@given(st.lists(st.binary(max_size=4), max_size=30))
def test_no_text_is_lost_and_lines_count_as_in_the_rewards(pieces):
    texts = readable(pieces)
    assert "".join(texts) == b"".join(pieces).decode(errors="replace")
    row = {"pieces": texts, "advantages": [0.0] * len(texts)}
    lines = lines_of(row)
    assert len(lines) == "".join(texts).count("\n") + 1
    assert max(line_of_token(pieces), default=0) < len(lines)


def test_colour_tells_sign_and_size():
    assert tint(0.0, 2.0) == (255, 255, 255)
    red, _, blue = tint(1.0, 2.0)
    assert blue > red
    red, _, blue = tint(-1.0, 2.0)
    assert red > blue
    assert tint(5.0, 2.0) == tint(2.0, 2.0) != tint(1.0, 2.0)


def test_one_large_token_does_not_fade_the_rest():
    row = {"advantages": [1.0] * 99 + [1000.0]}
    assert scale_of(row) == pytest.approx(1.0)
    assert scale_of({"advantages": [0.0, 0.0]}) == 1.0
    assert scale_of({"advantages": [0.0] * 99 + [2.0]}) == 2.0


def test_remarks_stand_on_their_lines():
    row = {
        "diagnostics": [
            {"tool": "compile", "line": 2, "message": "Expected )"},
            {"tool": "lint", "line": None, "message": "no line"},
        ]
    }
    assert remarks_of(row) == {2: ["compile: Expected )"]}
    assert remarks_of({}) == {}


def test_a_rollout_without_tokens_says_so():
    with pytest.raises(InputError, match="kept without tokens"):
        lines_of({"step": 0, "split": "held-out", "rollout": 1})


def test_terms_in_a_line():
    assert terms_of({"reward": 1.234, "terms": {"compile": 1.0, "lint": 0.5}}) == "reward 1.23: compile 1, lint 0.5"
    assert terms_of({"reward": None, "terms": {}}) == "reward none"
