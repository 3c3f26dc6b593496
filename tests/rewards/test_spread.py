"""Softening of line penalties."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from botgrpo_cli.rewards.spread import NEGLIGIBLE, spread

KINDS = ["exponential", "linear", "none"]


def test_half_life_is_in_lines():
    softened = spread([1.0, 0, 0, 0, 0, 0, 0], kind="exponential", half_life=3)
    assert softened[3] == pytest.approx(0.5)
    assert softened[6] == pytest.approx(0.25)


def test_linear_is_half_at_the_half_life_and_zero_at_twice():
    assert spread([0, 0, 0, 0, 1.0], kind="linear", half_life=2) == [0.0, 0.25, 0.5, 0.75, 1.0]


def test_far_lines_stay_at_exactly_zero():
    softened = spread([1.0] + [0.0] * 20, kind="exponential", half_life=1)
    assert softened[6] >= NEGLIGIBLE
    assert softened[7:] == [0.0] * 14


def test_a_fractional_half_life_spreads_less():
    assert spread([1.0, 0.0], kind="linear", half_life=0.5) == [1.0, 0.0]
    assert spread([1.0, 0.0], kind="exponential", half_life=0.5) == [1.0, 0.25]


def test_the_largest_share_counts_and_not_the_sum():
    assert spread([0.6, 0.0, 0.6], kind="exponential", half_life=1) == [0.6, 0.3, 0.6]


@pytest.mark.parametrize("kind", KINDS)
def test_no_lines(kind):
    assert spread([], kind=kind, half_life=1) == []


@pytest.mark.parametrize("penalty", [-0.1, 1.1, float("nan")])
def test_a_penalty_out_of_bounds_is_an_error(penalty):
    with pytest.raises(ValueError, match="line 1"):
        spread([0.0, penalty], kind="none", half_life=1)


def test_an_unknown_kind_is_an_error():
    with pytest.raises(ValueError, match="gaussian"):
        spread([0.5], kind="gaussian", half_life=1)


@given(
    st.lists(st.just(0.0) | st.floats(0, 1), max_size=40),
    st.sampled_from(KINDS),
    st.floats(0.05, 100),
    st.integers(0, 40),
)
def test_bounds_floor_symmetry_and_monotony(penalties, kind, half_life, raised):
    softened = spread(penalties, kind=kind, half_life=half_life)
    assert len(softened) == len(penalties)
    assert all(own <= soft <= 1.0 for own, soft in zip(penalties, softened, strict=True))
    assert spread(penalties[::-1], kind=kind, half_life=half_life) == softened[::-1]
    if raised < len(penalties):
        more = spread([*penalties[:raised], 1.0, *penalties[raised + 1 :]], kind=kind, half_life=half_life)
        assert all(new >= old for new, old in zip(more, softened, strict=True))
