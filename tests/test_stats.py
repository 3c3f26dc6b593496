from __future__ import annotations

import itertools
import math
import statistics

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from botgrpo_cli.stats import (
    Interval,
    SpeedUp,
    bootstrap_ci,
    holm,
    mean_pass_at_k,
    paired_difference,
    pass_at_k,
    peak_to_final_drop,
    sign_flip_p,
    smallest_p,
    speed_up,
    steps_to_threshold,
    trailing_means,
)

NAN = float("nan")
SETTINGS = settings(max_examples=100, deadline=None)
UNIT = st.floats(0, 1)


# --- pass@k ----------------------------------------------------------------------------------------------------------
@SETTINGS
@given(st.lists(st.booleans(), min_size=1, max_size=9), st.integers(1, 9))
def test_pass_at_k_is_the_share_of_subsets_with_a_right_one(right, k):
    n, c = len(right), sum(right)
    if k > n:
        assert pass_at_k(n, c, k) is None
        return
    subsets = list(itertools.combinations(right, k))
    assert pass_at_k(n, c, k) == pytest.approx(sum(map(any, subsets)) / len(subsets))


@SETTINGS
@given(st.lists(st.integers(0, 8), min_size=1, max_size=20))
def test_pass_at_k_never_falls_in_k_and_pass_at_1_is_accuracy(right):
    counts = [(8, c) for c in right]
    curve = [mean_pass_at_k(counts, k) for k in range(1, 9)]
    assert curve == sorted(curve)
    assert curve[0] == pytest.approx(sum(right) / (8 * len(right)))
    assert curve[-1] == pytest.approx(sum(c > 0 for c in right) / len(right))


@pytest.mark.parametrize(
    ("n", "c", "k", "expected"),
    [
        (8, 0, 4, 0.0),
        (8, 8, 1, 1.0),
        (8, 1, 4, 0.5),
        (8, 3, 2, 1 - 10 / 28),
        (8, 5, 4, 1.0),
        (0, 0, 1, None),
        (1, 1, 2, None),
    ],
)
def test_pass_at_k_by_hand(n, c, k, expected):
    assert pass_at_k(n, c, k) == (None if expected is None else pytest.approx(expected))


def test_pass_at_k_is_exact_for_many_samples():
    assert pass_at_k(10_000, 1, 100) == pytest.approx(0.01)


@pytest.mark.parametrize(("n", "c", "k"), [(4, 5, 1), (4, -1, 1), (4, 2, 0), (-1, 0, 1)])
def test_pass_at_k_refuses_nonsense(n, c, k):
    with pytest.raises(ValueError, match="expected 0 <= right <= samples"):
        pass_at_k(n, c, k)


def test_mean_pass_at_k_without_problems_or_with_too_few_samples_is_none():
    assert mean_pass_at_k([], 1) is None
    assert mean_pass_at_k([(8, 8), (3, 3)], 4) is None


# --- curves ----------------------------------------------------------------------------------------------------------
def test_trailing_means_skip_missing_points_and_need_full_windows():
    assert trailing_means([0, 5, 10, 15], [1, 1, 1, 1]) == []
    assert trailing_means([0, 5, 10, 15, 20, 25], [1, None, 1, NAN, 1, 1]) == []
    assert trailing_means([0, 5, 10, 15, 20, 25, 30], [0, 1, None, 2, 3, NAN, 4]) == [(30, 2.0)]
    with pytest.raises(ValueError, match="shorter"):
        trailing_means([0, 1], [0.0])


@pytest.mark.parametrize(
    ("values", "threshold", "expected"),
    [
        ([1] * 9, 1.0, 4),  # the first full window is at index 4; its five means end at index 8
        ([1] * 8, 1.0, None),  # only four means in a row
        ([0] * 5 + [1] * 9, 1.0, 9),
        ([0] * 5 + [1] * 9, 0.6, 7),
        ([1] * 8 + [0] + [1] * 20, 1.0, 13),  # one dip breaks the row: windows are clean again from index 13
        ([1] * 8 + [None] + [1] * 20, 1.0, 4),  # a missing point doesn't
        ([0.5] * 30, 0.50001, None),
        ([], 0.5, None),
    ],
)
def test_steps_to_threshold_by_hand(values, threshold, expected):
    assert steps_to_threshold(range(len(values)), values, threshold) == expected


@SETTINGS
@given(st.lists(st.one_of(UNIT, st.none()), max_size=40), UNIT, UNIT)
def test_steps_to_threshold_is_monotone_and_names_a_logged_step(values, a, b):
    steps = [5 * n for n in range(len(values))]
    low, high = (steps_to_threshold(steps, values, threshold) for threshold in sorted((a, b)))
    assert high is None or (low is not None and low <= high)
    if low is not None:
        assert low in steps
        assert values[steps.index(low)] is not None


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.5] * 4, None),
        ([0.5] * 5, 0.0),
        ([0.0] * 5 + [1.0] * 5, 0.0),
        ([1.0] * 5 + [0.0] * 5, 1.0),
        ([0.2, 0.4, 0.6, 0.8, 1.0, 0.8, 0.6, 0.4, 0.2, None, 0.0], 0.36),  # peak .76, final .40
        ([None] * 9, None),
    ],
)
def test_peak_to_final_drop_by_hand(values, expected):
    assert peak_to_final_drop(values) == (None if expected is None else pytest.approx(expected))


@SETTINGS
@given(st.lists(UNIT, min_size=5, max_size=40))
def test_peak_to_final_drop_is_never_negative(values):
    windows = [statistics.fmean(values[i : i + 5]) for i in range(len(values) - 4)]
    drop = peak_to_final_drop(values)
    assert drop >= 0
    assert drop == pytest.approx(max(windows) - windows[-1])


@pytest.mark.parametrize(
    ("baseline", "method", "expected", "text"),
    [
        ([60], [30], SpeedUp(2.0, False), "2.0×"),
        ([50, 70, 60], [40, 20, 30], SpeedUp(2.0, False), "2.0×"),
        ([50, 70, None], [40, None, 30], SpeedUp(1.75, False), "1.8×"),  # medians 70 and 40
        ([50, None, None], [40, 20, 30], SpeedUp(100 / 30, True), "≥3.3×"),
        ([50, None], [40, 20], SpeedUp(100 / 30, True), "≥3.3×"),  # a middle pair with a censored one is censored
        ([50, 60, 70], [None, None, 30], None, None),
        ([None], [None], None, None),
        ([10], [0], None, None),
    ],
)
def test_speed_up_by_hand(baseline, method, expected, text):
    found = speed_up(baseline, method, 100)
    if expected is None:
        assert found is None
    else:
        assert found.ratio == pytest.approx(expected.ratio)
        assert found.at_least == expected.at_least
        assert str(found) == text


def test_speed_up_without_seeds_is_refused():
    with pytest.raises(ValueError, match="at least one seed"):
        speed_up([], [3], 100)


# --- intervals -------------------------------------------------------------------------------------------------------
def test_bootstrap_matches_the_normal_interval_of_many_problems():
    values = np.random.default_rng(1).normal(3.0, 2.0, 400)
    interval = bootstrap_ci(values.tolist())
    half = 1.96 * values.std() / math.sqrt(400)
    assert interval.mean == pytest.approx(values.mean())
    assert interval.low == pytest.approx(values.mean() - half, abs=0.15 * half)
    assert interval.high == pytest.approx(values.mean() + half, abs=0.15 * half)


def test_bootstrap_percentiles_of_two_problems_by_hand():
    # A draw has mean 0, 1/2, 1 with chances 1/4, 1/2, 1/4: both tails hold more than 2.5 %.
    assert bootstrap_ci([0.0, 1.0]) == Interval(0.5, 0.0, 1.0)
    assert bootstrap_ci([0.25, 0.25, 0.25]) == Interval(0.25, 0.25, 0.25)


def test_bootstrap_resamples_problems_and_not_their_samples():
    # Eight samples a problem that always agree: the interval must be that of the problems alone.
    problems = [0.0, 1.0, 1.0, 0.0, 1.0]
    repeated = [value for value in problems for _ in range(8)]
    names = [name for name in "abcde" for _ in range(8)]
    assert bootstrap_ci(repeated, names) == bootstrap_ci(problems, list("abcde"))
    assert bootstrap_ci(repeated).high - bootstrap_ci(repeated).low < 0.6 * (bootstrap_ci(repeated, names).high - 0.2)


def test_bootstrap_counts_problems_equally_whatever_their_samples():
    assert bootstrap_ci([1.0, 0.0, 0.0, 0.0], ["a", "b", "b", "b"]).mean == 0.5


def test_two_levels_see_the_spread_between_seeds():
    problems = ["a", "b", "c", "d"]
    values = [0.9] * 4 + [0.1] * 4  # the seeds differ, the problems don't
    flat = bootstrap_ci(values, problems * 2)
    nested = bootstrap_ci(values, problems * 2, [0] * 4 + [1] * 4)
    assert flat == Interval(0.5, 0.5, 0.5)
    assert (nested.low, nested.high) == (pytest.approx(0.1), pytest.approx(0.9))
    one = bootstrap_ci([0.0, 1.0, 1.0], ["a", "b", "c"], [7, 7, 7])
    assert one.mean == pytest.approx(2 / 3)


@SETTINGS
@given(st.lists(UNIT, min_size=2, max_size=12), st.integers(0, 5))
def test_bootstrap_is_repeatable_ordered_and_inside_the_data(values, seed):
    interval = bootstrap_ci(values, draws=200, seed=seed)
    assert interval == bootstrap_ci(values, draws=200, seed=seed)
    assert min(values) - 1e-9 <= interval.low <= interval.high <= max(values) + 1e-9


def test_bootstrap_draws_are_counted_exactly():
    values = list(np.random.default_rng(0).random(30))
    assert bootstrap_ci(values, draws=1_500) != bootstrap_ci(values, draws=1_000)


def test_bootstrap_refuses_missing_values_empty_input_and_holes():
    for values in ([], [1.0, NAN], [1.0, math.inf], [1.0, None]):
        with pytest.raises(ValueError, match="none missing"):
            bootstrap_ci(values)
    with pytest.raises(ValueError, match="Seed 1 has no value for problem 'b'"):
        bootstrap_ci([1.0, 0.0, 1.0], ["a", "b", "a"], [0, 0, 1])


# --- comparisons -----------------------------------------------------------------------------------------------------
def test_paired_difference_by_hand():
    first = {"a": [1, 1, 1], "b": [0, 1, 1], "c": [1, 0, 1], "d": [1, 1, 1]}
    second = {"a": [0, 0, 0], "b": [0, 0, 1], "c": [1, 0, 1], "d": [0, 1, 1]}
    found = paired_difference(first, second)
    assert found.difference == pytest.approx((1 + 1 / 3 + 0 + 1 / 3) / 4)
    assert found.p == 0.25  # of 16 sign patterns, those that keep all of a, b and d: 2 x 2 (c is zero)
    assert found.low < found.difference < found.high
    mirrored = paired_difference(second, first)
    assert mirrored.difference == pytest.approx(-found.difference)
    assert mirrored.p == found.p


def test_paired_difference_takes_prompts_by_name_and_unequal_seed_counts():
    found = paired_difference({"a": [1.0], "b": [0.0]}, {"b": [0.0, 0.0], "a": [0.5, 0.5]})
    assert found.difference == pytest.approx(0.25)


def test_pairing_is_sharper_than_the_spread_of_prompts():
    values = np.random.default_rng(3).random(40)
    first = {str(n): [value + 0.05] for n, value in enumerate(values)}
    second = {str(n): [value] for n, value in enumerate(values)}
    found = paired_difference(first, second)
    assert found.low == pytest.approx(0.05)
    assert found.p == pytest.approx(1 / 10_001)


def test_paired_difference_refuses_other_prompts_and_nothing():
    with pytest.raises(ValueError, match="2 differ, such as 'b'"):
        paired_difference({"a": [1.0], "b": [1.0]}, {"a": [1.0], "c": [1.0]})
    with pytest.raises(ValueError, match="at least one value"):
        paired_difference({}, {})
    with pytest.raises(ValueError, match="at least one value"):
        paired_difference({"a": []}, {"a": [1.0]})


@SETTINGS
@given(st.lists(st.integers(-4, 4), min_size=1, max_size=8))
def test_sign_flip_is_the_share_of_sign_patterns(differences):
    sums = [
        abs(sum(s * d for s, d in zip(signs, differences, strict=True)))
        for signs in itertools.product((1, -1), repeat=len(differences))
    ]
    expected = sum(value >= abs(sum(differences)) for value in sums) / len(sums)
    assert sign_flip_p([d / 10 for d in differences]) == pytest.approx(expected)
    assert sign_flip_p([d / 10 for d in differences]) >= smallest_p(len(differences))


def test_sampled_sign_flips_agree_with_the_exact_test():
    differences = [0.3, -0.1, 0.2, 0.4, -0.2, 0.1, 0.3, 0.0, 0.2, -0.1]
    exact = sign_flip_p(differences)
    assert sign_flip_p(differences, draws=1_000, seed=4) == pytest.approx(exact, abs=0.05)  # 2^10 > 1,000: sampled
    assert sign_flip_p([0.0] * 40) == 1.0


def test_three_seeds_cannot_go_below_a_quarter():
    assert sign_flip_p([0.2, 0.3, 0.25]) == smallest_p(3) == 0.25


@pytest.mark.parametrize(
    ("p_values", "expected"),
    [
        ([], []),
        ([0.04], [0.04]),
        ([0.01, 0.02, 0.03, 0.04], [0.04, 0.06, 0.06, 0.06]),
        ([0.5, 0.001, 0.6], [1.0, 0.003, 1.0]),
        ([0.02, 0.02], [0.04, 0.04]),
    ],
)
def test_holm_by_hand(p_values, expected):
    assert holm(p_values) == pytest.approx(expected)


@SETTINGS
@given(st.lists(UNIT, min_size=1, max_size=12), st.randoms())
def test_holm_keeps_order_and_lies_between_raw_and_bonferroni(p_values, random):
    adjusted = holm(p_values)
    assert all(p <= a <= min(1.0, len(p_values) * p) + 1e-12 for p, a in zip(p_values, adjusted, strict=True))
    ranked = [a for _, a in sorted(zip(p_values, adjusted, strict=True))]
    assert ranked == sorted(ranked)
    order = random.sample(range(len(p_values)), len(p_values))
    assert holm([p_values[i] for i in order]) == [adjusted[i] for i in order]


@pytest.mark.parametrize("bad", [-0.1, 1.1, NAN])
def test_holm_refuses_what_is_no_p_value(bad):
    with pytest.raises(ValueError, match="from 0 to 1"):
        holm([0.5, bad])
