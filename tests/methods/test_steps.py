"""Process supervision and PURE against their definitions, written with loops."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings

from botgrpo_cli.methods.registry import METHODS
from botgrpo_cli.methods.steps import process_supervision, softmin_credit
from tests.methods.batches import NAN, Rollout, advantages, rollouts

EPS = 1e-6
SETTINGS = settings(max_examples=80, deadline=None)


def scored(batch: list[Rollout], group: int) -> list[int]:
    return [k for k, r in enumerate(batch) if r.group == group and r.local and all(map(math.isfinite, r.rewards))]


def process_by_hand(batch: list[Rollout]) -> list[list[float]]:
    result = [[0.0] * len(r.local) for r in batch]
    for group in {r.group for r in batch}:
        members = scored(batch, group)
        if len(members) < 2:
            continue
        pool = [value for k in members for value, _ in batch[k].step_values(batch[k].rewards)]
        mean = math.fsum(pool) / len(pool)
        std = math.sqrt(math.fsum((v - mean) ** 2 for v in pool) / len(pool))
        if std < 1e-9:
            continue
        for k in members:
            ends = [((v - mean) / (std + EPS), end) for v, end in batch[k].step_values(batch[k].rewards)]
            result[k] = [math.fsum(n for n, end in ends if end >= t) for t in range(len(batch[k].local))]
    return result


def pure_by_hand(batch: list[Rollout], temperature: float = 0.1) -> list[list[float]]:
    result = [[0.0] * len(r.local) for r in batch]
    compared = []
    for group in {r.group for r in batch}:
        members = scored(batch, group)
        if len(members) < 2:
            continue
        compared += members
        credit = {}
        for k in members:
            steps = batch[k].step_values(batch[k].local)
            low = min(p for p, _ in steps)
            weights = [math.exp(-(p - low) / temperature) for p, _ in steps]
            credit[k] = [(w / math.fsum(weights) * p, end) for w, (p, end) in zip(weights, steps, strict=True)]
        for k in members:
            others = [i for i in members if i != k]
            rate = math.fsum(math.fsum(c for c, _ in credit[i]) / len(batch[i].local) for i in others) / len(others)
            rewards = [-rate] * len(batch[k].local)
            for value, end in credit[k]:
                rewards[end] += value
            rewards[-1] += batch[k].outcome - math.fsum(batch[i].outcome for i in others) / len(others)
            result[k] = [math.fsum(rewards[t:]) for t in range(len(rewards))]
    every = [a for k in compared for a in result[k]]
    if not every:
        return result
    mean = math.fsum(every) / len(every)
    std = math.sqrt(math.fsum((a - mean) ** 2 for a in every) / len(every))
    for k in compared:
        result[k] = [(a - mean) / (std + EPS) if std > 1e-9 else 0.0 for a in result[k]]
    return result


@SETTINGS
@given(rollouts())
def test_process_supervision_is_its_definition(batch):
    for found, expected in zip(advantages(METHODS["process-grpo"], batch), process_by_hand(batch), strict=True):
        assert found == pytest.approx(expected, abs=2e-5, rel=2e-5)


@SETTINGS
@given(rollouts())
def test_softmin_credit_is_its_definition(batch):
    for found, expected in zip(advantages(METHODS["pure"], batch), pure_by_hand(batch), strict=True):
        assert found == pytest.approx(expected, abs=2e-5, rel=2e-5)


def test_one_step_a_rollout_makes_process_supervision_grpo():
    batch = [
        Rollout(1.0, (0.0, -0.5, 0.25), (0, 0, 0), 3),
        Rollout(0.5, (0.5,), (0,), 3),
        Rollout(0.0, (0, 0), (7, 7), 3),
    ]
    found, expected = advantages(METHODS["process-grpo"], batch), advantages(METHODS["grpo"], batch)
    for a, b in zip(found, expected, strict=True):
        assert a == pytest.approx(b, abs=1e-6)


def test_without_local_rewards_pure_ranks_rollouts_as_leave_one_out_does():
    batch = [Rollout(1.0, (0.0, 0.0), (0, 1), 0), Rollout(0.0, (0.0,), (0,), 0), Rollout(0.5, (0.0, 0.0), (0, 0), 0)]
    # before whitening: 1 - 0.25, 0 - 0.75, 0.5 - 0.5 on 2, 1 and 2 tokens
    raw = [0.75, 0.75, -0.75, 0.0, 0.0]
    mean = sum(raw) / 5
    std = math.sqrt(sum((r - mean) ** 2 for r in raw) / 5)
    found = [a for row in advantages(METHODS["pure"], batch) for a in row]
    assert found == pytest.approx([(r - mean) / std for r in raw], abs=1e-5)


def test_the_worst_step_takes_the_credit_and_what_comes_after_it_none():
    batch = [
        Rollout(0.0, (0.0, 0.0, -1.0, -1.0, 0.0, 0.0), (0, 0, 1, 1, 2, 2), 0),
        Rollout(0.0, (0.0,) * 6, (0, 0, 1, 1, 2, 2), 0),
    ]
    bad, good = advantages(METHODS["pure"], batch)
    assert bad[0] < bad[4]  # up to the end of the bad step the sum to go holds its reward, after it no more
    assert bad[4] == pytest.approx(bad[5])  # the other rollout's soft minimum is 0, so the baseline is 0
    assert all(b < g for b, g in zip(bad, good, strict=True) if b != bad[4])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_rounding_of_the_global_reward_is_no_local_reward(dtype):
    """Equal rollouts without local rewards: exactly 0, though 0.1 is no binary fraction."""
    outcome = torch.tensor([0.1, 0.1, 0.1], dtype=torch.float64)
    rewards = outcome[:, None].expand(3, 4).to(dtype)
    steps = torch.tensor([[0, 1, 1, 2]] * 3)
    group = torch.zeros(3, dtype=torch.int64)
    found = softmin_credit(rewards, torch.ones(3, 4), group, steps=steps, outcome=outcome, eps=0.0)
    assert (found == 0).all()


def test_special_tokens_belong_to_the_step_before_them():
    rewards = torch.tensor([[1.0, 3.0, 0.0], [2.0, 2.0, 2.0]])
    mask, group = torch.ones(2, 3), torch.zeros(2, dtype=torch.int64)
    marked = process_supervision(rewards, mask, group, steps=torch.tensor([[0, 1, -1], [0, 0, -1]]))
    plain = process_supervision(rewards, mask, group, steps=torch.tensor([[0, 1, 1], [0, 0, 0]]))
    assert torch.equal(marked, plain)


def test_a_mask_with_a_gap_cuts_no_step():
    """Tokens of a tool call are masked out between two halves of one step."""
    rewards = torch.tensor([[1.0, NAN, 3.0, 0.0], [2.0, 2.0, 2.0, NAN]])
    mask = torch.tensor([[1, 0, 1, 1], [1, 1, 1, 0]])
    steps = torch.tensor([[0, 0, 0, 1], [0, 0, 0, 0]])
    group = torch.zeros(2, dtype=torch.int64)
    found = process_supervision(rewards, mask, group, steps=steps, eps=0.0)
    # steps of 2, 0 and 2: mean 4/3, deviation 0.9428
    expected = torch.tensor([[-0.7071, 0.0, -0.7071, -1.4142], [0.7071, 0.7071, 0.7071, 0.0]])
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=0.0)


def test_wrong_shapes_are_named():
    rewards, mask, group = torch.zeros(2, 3), torch.ones(2, 3), torch.zeros(2, dtype=torch.int64)
    with pytest.raises(ValueError, match=r"steps is \(2, 2\); expected \[B, T\] = \(2, 3\)"):
        process_supervision(rewards, mask, group, steps=torch.zeros(2, 2))
    with pytest.raises(ValueError, match=r"outcome is \(3,\); expected \[B\] = \(2,\)"):
        softmin_credit(rewards, mask, group, steps=torch.zeros(2, 3), outcome=torch.zeros(3))
