"""What functions said of a completion, as reward, signal and metrics; numbers by hand."""

from __future__ import annotations

import math

import pytest

from botgrpo_cli.recipe.section import SpreadConfig
from botgrpo_cli.tasks.base import UNSCORED, Completion, Prompt
from botgrpo_cli.tasks.own.functions import Failure, Function
from botgrpo_cli.tasks.own.score import find_steps, score

FUNCTIONS = {
    "right": Function("right", "term", low=0.0, high=1.0),
    "short": Function("short", "term", batch=True),
    "wrong": Function("wrong", "signal", unit="lines", low=-1.0, high=1.0),
    "quoted": Function("quoted", "signal", unit="characters", low=-1.0, high=1.0),
    "words": Function("words", "metric"),
}
PIECES = (b"a\n", b"b\n", b"c", b"")
WEIGHTS = {"right": 2.0, "short": 0.5, "wrong": 1.0, "quoted": 0.5}


def scored(answers, kind="none", weights=WEIGHTS):
    spread = SpreadConfig(kind=kind, half_life=1.0)
    completion = Completion(Prompt("p", "Go.", "easy"), PIECES, True)
    return score(completion, answers, FUNCTIONS, weights, find_steps(PIECES, "lines"), spread)


def test_terms_are_weighted_and_signals_reach_their_tokens():
    found = scored({"right": 1.0, "short": -3.0, "wrong": [(1, 2, -0.5)], "quoted": [(2, 3, -1.0)], "words": 7.0})
    assert found.reward == 2.0 * 1.0 + 0.5 * -3.0
    assert found.local == [0.0, -0.5 - 0.5, 0.0, 0.0]
    assert found.terms == {"right": 1.0, "short": -3.0}
    assert found.metrics == {
        **{"right": 1.0, "short": -3.0, "words": 7.0},
        **{"unscored_rate": 0.0, "truncated": 0.0, "length": 4.0},
    }
    assert found.steps == [0, 1, 2, -1]
    assert found.detail == {"text": "a\nb\nc", "signals": {"wrong": [[1, 2, -0.5]], "quoted": [[2, 3, -1.0]]}}


def test_signals_stay_in_bounds_whatever_their_weights_add_up_to():
    found = scored({"wrong": [-1.0, 1.0, 0.25], "quoted": [(0, 5, -1.0)]}, weights={"wrong": 3.0, "quoted": 4.0})
    assert found.local == [-1.0, -1.0, -1.0, 0.0]


def test_lines_are_softened_and_characters_are_not():
    found = scored({"wrong": [(0, 1, -1.0)], "quoted": [(4, 5, 1.0)]}, "exponential")
    assert found.local == [-1.0, -0.5, -0.25 + 0.5, 0.0]


def test_a_term_that_does_not_apply_adds_nothing_and_has_no_value():
    found = scored({"right": None, "short": -1.0, "wrong": None})
    assert found.reward == -0.5
    assert math.isnan(found.terms["right"])
    assert (found.local, found.metrics["unscored_rate"]) == ([0.0] * 4, 0.0)


@pytest.mark.parametrize("name", ["right", "wrong"])
def test_a_failed_term_or_signal_leaves_the_rollout_unscored(name):
    found = scored({"right": 1.0, "wrong": [], name: Failure("sums.py:3: it gave 7.")})
    assert math.isnan(found.reward)
    assert found.detail[UNSCORED] == ["sums.py:3: it gave 7."]
    assert found.metrics["unscored_rate"] == 1.0


def test_a_failed_metric_costs_its_value_alone():
    found = scored({"right": 1.0, "words": Failure("sums.py:9: it raised.")})
    assert (found.reward, UNSCORED in found.detail) == (2.0, False)
    assert found.detail["failed"] == {"words": "sums.py:9: it raised."}
    assert math.isnan(found.metrics["words"])


def test_what_a_step_is():
    pieces = (b"Step 1: a\n", b"\n", b"Step 2: b\n", b"")
    assert find_steps(pieces, "lines").texts == ["Step 1: a", "", "Step 2: b", ""]
    assert find_steps(pieces, "blank-lines").texts == ["Step 1: a", "Step 2: b"]
    assert find_steps(pieces, "markers").of_token == [0, 0, 1, -1]
