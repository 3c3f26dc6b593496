from __future__ import annotations

import numpy as np
import pytest

from botgrpo_cli.speedup import Curves, speed_up_interval, steps_of
from botgrpo_cli.stats import steps_to_threshold

STEPS = tuple(range(0, 61, 5))


def curves(*rises: float, prompts: int = 40, seed: int = 0) -> Curves:
    """One seed a number: prompts that turn from 0 to 1 around that step."""
    generator = np.random.default_rng(seed)
    values = np.zeros((len(rises), len(STEPS), prompts))
    for row, rise in enumerate(rises):
        turns = generator.normal(rise, 4.0, prompts)
        values[row] = np.array(STEPS)[:, None] >= turns
    return Curves(STEPS, values)


def test_many_curves_at_once_are_as_one_by_one():
    means = np.random.default_rng(1).random((20, 3, 13)).round(2)
    for threshold in (0.3, 0.5, 0.62):
        found = steps_of(means, STEPS, threshold)
        for i, j in np.ndindex(20, 3):
            one = steps_to_threshold(STEPS, means[i, j].tolist(), threshold)
            assert found[i, j] == (np.inf if one is None else one)


def test_too_few_evaluations_reach_nothing():
    assert steps_of(np.ones((2, 8)), range(8), 0.5).tolist() == [np.inf, np.inf]


def test_the_interval_holds_the_ratio_and_narrows_with_prompts():
    few = speed_up_interval(curves(24, prompts=12), curves(8, prompts=12), 0.5)
    many = speed_up_interval(curves(24, prompts=400), curves(8, prompts=400), 0.5)
    for found in (few, many):
        assert found.low <= found.high
        assert not found.at_least
    assert many.high - many.low <= few.high - few.low
    assert many.low > 1.0  # twice as fast is told from equal


def test_equal_methods_hold_one():
    found = speed_up_interval(curves(10, 15, 20, seed=1), curves(10, 15, 20, seed=2), 0.5)
    assert found.low <= 1.0 <= found.high


def test_a_baseline_that_never_gets_there_gives_a_lower_bound():
    never = Curves(STEPS, np.zeros((1, len(STEPS), 40)))
    found = speed_up_interval(never, curves(15), 0.5)
    assert found.at_least
    assert found.high <= 60 / 20


def test_a_method_that_never_gets_there_gives_none():
    never = Curves(STEPS, np.zeros((1, len(STEPS), 40)))
    assert speed_up_interval(curves(15), never, 0.5) is None


def test_a_method_that_sometimes_does_not_has_no_lower_end():
    found = speed_up_interval(curves(15, 15, 15), curves(20, 20, 90), 0.5)
    assert found is None or found.low is None


def test_one_prompt_tells_nothing_and_other_prompts_are_refused():
    assert speed_up_interval(curves(20, prompts=1), curves(10, prompts=1), 0.5) is None
    with pytest.raises(ValueError, match="40 and 41 prompts"):
        speed_up_interval(curves(20), curves(10, prompts=41), 0.5)


def test_the_same_twice():
    assert speed_up_interval(curves(30, 20), curves(15, 10), 0.5) == speed_up_interval(
        curves(30, 20), curves(15, 10), 0.5
    )
