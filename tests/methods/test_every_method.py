"""What holds for every method of the registry, and for the bag's ablations."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from botgrpo_cli.methods.objectives import clipped_surrogate, token_weights
from botgrpo_cli.methods.registry import METHODS
from tests.methods.batches import NAN, Rollout, advantages, rollouts

BAG = METHODS["bot-grpo"]
ARMS = {
    **METHODS,
    **{
        f"bot-grpo {weights} {credit}": replace(BAG, options={"weights": weights, "credit": credit})
        for weights in ("inverse-length", "uniform")
        for credit in ("immediate", "to-go")
    },
}
WHITENED = {"pure"}  # normalised over the whole batch: other groups matter, by their shared mean and deviation
EVERY = pytest.mark.parametrize("name", ARMS)
BY_GROUP = pytest.mark.parametrize("name", [name for name in ARMS if name not in WHITENED])
SETTINGS = settings(max_examples=40, deadline=None)


def close(found, expected):
    assert [len(row) for row in found] == [len(row) for row in expected]
    for a, b in zip(found, expected, strict=True):
        assert a == pytest.approx(b, abs=1e-5, rel=1e-5)


@EVERY
@SETTINGS
@given(batch=rollouts(), width=st.integers(0, 30), left=st.integers(0, 4), random=st.randoms())
def test_padding_and_row_order_change_nothing(name, batch, width, left, random):
    order = list(range(len(batch)))
    random.shuffle(order)
    found = advantages(ARMS[name], [batch[k] for k in order], width=width, left=left)
    close([found[order.index(k)] for k in range(len(batch))], advantages(ARMS[name], batch))


@BY_GROUP
@SETTINGS
@given(batch=rollouts(), other=rollouts(groups=(7, 8)))
def test_other_groups_change_nothing(name, batch, other):
    close(advantages(ARMS[name], batch + other)[: len(batch)], advantages(ARMS[name], batch))


@SETTINGS
@given(batch=rollouts(groups=(0,), min_length=1, min_size=2), other=rollouts(groups=(7,), min_length=1, min_size=2))
def test_other_groups_only_shift_and_scale_a_whitened_method(batch, other):
    alone = torch.tensor([a for row in advantages(METHODS["pure"], batch) for a in row])
    joined = torch.tensor([a for row in advantages(METHODS["pure"], batch + other)[: len(batch)] for a in row])
    if not alone.any():
        return
    design = torch.stack([alone, torch.ones_like(alone)], 1).double()
    fitted = design @ torch.linalg.lstsq(design, joined.double()).solution
    torch.testing.assert_close(fitted, joined.double(), atol=1e-4, rtol=1e-4)


@EVERY
@SETTINGS
@given(
    shapes=st.lists(st.tuples(st.integers(0, 40), st.integers(1, 9)), min_size=1, max_size=6),
    outcome=st.floats(-1e3, 1e3, width=32),
)
def test_no_spread_is_exactly_zero(name, shapes, outcome):
    equal = [
        Rollout(outcome, (0.0,) * length, tuple(min(t, steps) for t in range(length)), 3) for length, steps in shapes
    ]
    assert not any(any(row) for row in advantages(ARMS[name], equal, eps=0.0))


@EVERY
@SETTINGS
@given(batch=rollouts(groups=(0,)))
def test_a_lone_rollout_is_exactly_zero(name, batch):
    lone = [replace(rollout, group=k) for k, rollout in enumerate(batch)]
    assert not any(any(row) for row in advantages(ARMS[name], lone, eps=0.0))


@EVERY
@SETTINGS
@given(batch=rollouts(min_length=1), bad=st.sampled_from([NAN, float("inf"), float("-inf")]), data=st.data())
def test_an_unscored_rollout_leaves_its_group(name, batch, bad, data):
    k = data.draw(st.integers(0, len(batch) - 1))
    t = data.draw(st.integers(0, len(batch[k].local) - 1))
    whole = data.draw(st.booleans())  # the rollout's global reward, or one token's local reward
    hurt = list(batch)
    hurt[k] = (
        replace(batch[k], outcome=bad)
        if whole
        else replace(batch[k], local=tuple(bad if i == t else v for i, v in enumerate(batch[k].local)))
    )
    found = advantages(ARMS[name], hurt)
    assert found[k] == [0.0] * len(batch[k].local)
    rest = [r for i, r in enumerate(batch) if i != k]
    if rest:
        close([row for i, row in enumerate(found) if i != k], advantages(ARMS[name], rest))


@EVERY
@SETTINGS
@given(batch=rollouts(groups=(0,), min_length=1, min_size=2))
def test_an_empty_completion_changes_nothing_for_the_others(name, batch):
    empty = Rollout(5.0, (), (), 0)
    close(advantages(ARMS[name], [*batch, empty])[:-1], advantages(ARMS[name], batch))


@EVERY
def test_one_token_completions_are_finite_and_ranked(name):
    batch = [Rollout(1.0, (0.0,), (0,), 0), Rollout(0.0, (-0.5,), (0,), 0), Rollout(0.5, (0.0,), (0,), 0)]
    best, worst, middle = (row[0] for row in advantages(ARMS[name], batch))
    assert worst < middle < best


@EVERY
@pytest.mark.parametrize("size", [(3, 4), (0, 4), (3, 0)])
def test_an_all_masked_batch_is_zero_and_so_is_its_loss(name, size):
    method = ARMS[name]
    rewards, mask = torch.full(size, NAN), torch.zeros(size)
    group = torch.zeros(size[0], dtype=torch.int64)
    extra = {"steps": torch.zeros(size, dtype=torch.int64), "outcome": torch.full(size[:1], NAN)}
    found = method.compute(rewards, mask, group, **extra)
    assert found.shape == size
    assert (found == 0).all()
    new = torch.zeros(size, requires_grad=True)
    loss, _ = clipped_surrogate(
        new,
        torch.full(size, NAN),
        found,
        mask,
        ratio=method.ratio,
        clip_low=method.clip_low,
        clip_high=method.clip_high,
    )
    total = (loss * token_weights(mask, method.aggregation, completions=0, tokens=0, max_length=4)).sum()
    total.backward()
    assert total.item() == 0
    assert (new.grad == 0).all()


@EVERY
@pytest.mark.parametrize("log_ratio", [100.0, -100.0])
def test_a_log_ratio_of_a_hundred_stays_finite(name, log_ratio):
    method = ARMS[name]
    batch = [Rollout(1.0, (0.0, -0.5), (0, 1), 0), Rollout(0.0, (0.0, 0.0), (0, 0), 0)]
    new = torch.full((2, 2), log_ratio, requires_grad=True)
    mask = torch.ones(2, 2)
    loss, _ = clipped_surrogate(
        new,
        torch.zeros(2, 2),
        torch.tensor(advantages(method, batch)),
        mask,
        ratio=method.ratio,
        clip_low=method.clip_low,
        clip_high=method.clip_high,
    )
    (loss * token_weights(mask, method.aggregation, completions=2, tokens=4, max_length=2)).sum().backward()
    assert loss.isfinite().all()
    assert new.grad.isfinite().all()
