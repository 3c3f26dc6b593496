from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from botgrpo_cli.tasks.aime.gold import parse_gold

CELLS = {
    "42": {42},
    " 042\n": {42},
    "0": {0},
    "000": {0},
    "42.0": {42},
    "080 or 081 (both were accepted)": {80, 81},
    "80 or 080": {80},
    "1 OR 2 or 3": {1, 2, 3},
    r"336^\circ": {336},
    "$25$": {25},
    "m+n = 17": {17},
    r"Thus $x=3$ and $\boxed{204}$.": {204},
    r"\boxed{1}, no: \boxed{2}": {2},
    r"Long " * 50 + r"\boxed{033}": {33},
}
ODD = {
    "": "empty",
    " \t": "empty",
    r"\boxed{}": "empty",
    "1000": "'1000' is not an integer",
    "-1": "not an integer",
    "1.5": "not an integer",
    "42, 43": "not an integer",
    "42 and 43": "not an integer",
    "42 or": "not an integer",
    "42 or more": "not an integer",
    "42 (proposed)": "not an integer",
    r"\frac{1}{2}": "not an integer",
    "proof": "not an integer",
    "9^{9^{9}}": "not an integer",
    "Find all n when " * 5 + "n = 5": "Find all n when…' is not",
}


@pytest.mark.parametrize(("cell", "golds"), CELLS.items())
def test_gold_cells(cell, golds):
    assert parse_gold(cell) == golds


@pytest.mark.parametrize(("cell", "says"), ODD.items())
def test_odd_cells(cell, says):
    with pytest.raises(ValueError, match=r"^The answer .*\.$") as caught:
        parse_gold(cell)
    assert says in str(caught.value)


@given(st.text())
def test_any_text_is_a_set_or_a_sentence(text):
    golds, refusal = None, ""
    try:
        golds = parse_gold(text)
    except ValueError as error:
        refusal = str(error)
    if golds is None:
        assert refusal.startswith("The answer ")
    else:
        assert golds
        assert all(0 <= gold <= 999 for gold in golds)
