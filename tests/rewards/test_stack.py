"""The weighted sum of bounded, named terms."""

from __future__ import annotations

import math

import pytest

from botgrpo_cli.rewards.stack import weighted_sum


def test_sum_of_weighted_terms():
    assert weighted_sum({"a": 1.0, "b": 0.5}, {"a": 0.2, "b": 2.0}) == pytest.approx(1.2)


@pytest.mark.parametrize("value", [-0.01, 1.01, math.inf])
def test_a_term_out_of_bounds_is_an_error(value):
    with pytest.raises(ValueError, match="'compile'"):
        weighted_sum({"compile": value}, {"compile": 0.0})


def test_a_term_that_could_not_be_scored_makes_the_reward_nan():
    assert math.isnan(weighted_sum({"a": 1.0, "b": math.nan}, {"a": 1.0, "b": 0.5}))


def test_a_term_that_is_only_logged_does_not():
    assert weighted_sum({"a": 1.0, "b": math.nan}, {"a": 1.0, "b": 0.0}) == 1.0


@pytest.mark.parametrize("weights", [{"a": 1.0}, {"a": 1.0, "b": 1.0, "c": 1.0}])
def test_names_must_agree(weights):
    with pytest.raises(ValueError, match=r"differ in: [bc]"):
        weighted_sum({"a": 1.0, "b": 1.0}, weights)
