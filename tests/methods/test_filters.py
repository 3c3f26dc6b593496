from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from botgrpo_cli.methods.filters import groups_with_spread, overlong_punishment


@given(
    length=st.integers(0, 5000),
    limit=st.integers(1, 4096),
    share=st.floats(0.01, 1.0),
)
def test_punishment_is_dapos_formula(length, limit, share):
    cache = share * limit
    if length <= limit - cache:
        expected = 0.0
    elif length <= limit:
        expected = ((limit - cache) - length) / cache
    else:
        expected = -1.0
    found = overlong_punishment(torch.tensor([length]), limit=limit, share=share)
    assert found.item() == pytest.approx(expected, abs=1e-9)


def test_no_share_punishes_nothing():
    assert (overlong_punishment(torch.tensor([1, 100, 1000]), limit=100, share=0.0) == 0).all()


def test_spread_is_that_of_scores_and_not_of_tokens():
    nan = float("nan")
    rewards = torch.tensor([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [nan, 1.0], [2.0, 2.0], [1.0, 1.0], [5.0, 5.0]])
    group = torch.tensor([3, 3, 1, 1, 2, 2, 9])
    # in order of the ids: 1 has one scored rollout, 2 has spread, 3 has equal means, 9 is alone
    assert groups_with_spread(rewards, torch.ones(7, 2), group).tolist() == [False, True, False, False]
