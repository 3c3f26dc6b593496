from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from botgrpo_cli.methods.objectives import clipped_surrogate, kl_k3, token_weights

NAN = float("nan")
RATIOS = ["token", "sequence"]
AGGREGATIONS = ["sequence-mean", "token-mean", "constant"]
CLIP = {"clip_low": 0.2, "clip_high": 0.28}
SETTINGS = settings(max_examples=60, deadline=None)


@st.composite
def batches(draw, spread=0.3):
    """lengths, and new, old, advantages [B, T] whose padding is poisoned with NaN and infinities."""
    lengths = draw(st.lists(st.integers(0, 7), min_size=1, max_size=8))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))
    shape = (len(lengths), max(*lengths, 1) + draw(st.integers(0, 3)))
    mask = (torch.arange(shape[1])[None, :] < torch.tensor(lengths)[:, None]).long()
    new = -torch.rand(shape, generator=generator) * 3
    old = new + spread * torch.randn(shape, generator=generator)
    advantages = torch.randn(shape, generator=generator)
    poison = mask == 0
    return (
        new.masked_fill(poison, -math.inf).requires_grad_(),
        old.masked_fill(poison, math.inf),
        advantages.masked_fill(poison, NAN),
        mask,
    )


def totals(mask: torch.Tensor, max_length: int = 16) -> dict[str, int]:
    return {"completions": int(mask.any(1).sum()), "tokens": int(mask.sum()), "max_length": max_length}


def by_hand(new, old, advantages, mask, ratio, k, t) -> float:
    rows = [(new[k, u] - old[k, u]).item() for u in range(mask.shape[1]) if mask[k, u]]
    log = (new[k, t] - old[k, t]).item() if ratio == "token" else sum(rows) / len(rows)
    s, a = math.exp(log), advantages[k, t].item()
    return -min(s * a, min(max(s, 1 - CLIP["clip_low"]), 1 + CLIP["clip_high"]) * a)


@pytest.mark.parametrize("ratio", RATIOS)
@SETTINGS
@given(batch=batches())
def test_loss_is_its_definition_and_padding_is_dead(ratio, batch):
    new, old, advantages, mask = batch
    loss, stats = clipped_surrogate(*batch, ratio=ratio, **CLIP)
    assert loss.dtype == torch.float32
    for k in range(mask.shape[0]):
        for t in range(mask.shape[1]):
            expected = by_hand(new, old, advantages, mask, ratio, k, t) if mask[k, t] else 0.0
            assert loss[k, t].item() == pytest.approx(expected, abs=1e-5)
    loss.sum().backward()
    assert new.grad.isfinite().all()
    assert (new.grad[mask == 0] == 0).all()
    assert stats["tokens"].item() == mask.sum().item()
    assert all(value.isfinite() and not value.requires_grad for value in stats.values())


@pytest.mark.parametrize("ratio", RATIOS)
@SETTINGS
@given(batch=batches(spread=0.0))
def test_first_inner_step_has_ratio_exactly_one_and_the_policy_gradient(ratio, batch):
    new, _, advantages, mask = batch
    loss, stats = clipped_surrogate(new, new.detach(), advantages, mask, ratio=ratio, **CLIP)
    valid = mask.bool()
    assert torch.equal(loss[valid], -advantages[valid])
    assert stats["ratio"].item() == stats["tokens"].item()
    assert stats["clipped_low"] == stats["clipped_high"] == 0
    loss.sum().backward()
    assert torch.equal(new.grad, torch.where(valid, -advantages, 0.0))
    kl = kl_k3(new, new.detach(), mask)
    assert (kl == 0).all()


@SETTINGS
@given(batch=batches(spread=1.0))
def test_sequence_ratio_gradient_against_an_independent_formula(batch):
    """d/d lp_kt of -s_k A_kt with every token's own path is -s_k A_kt, and 0 where the clip acts."""
    new, old, advantages, mask = batch
    clipped_surrogate(*batch, ratio="sequence", **CLIP)[0].sum().backward()
    for k in range(mask.shape[0]):
        length = int(mask[k].sum())
        if not length:
            continue
        s = math.exp((new[k, :length] - old[k, :length]).double().mean().item())
        for t in range(length):
            a = advantages[k, t].item()
            cut = (a > 0 and s > 1 + CLIP["clip_high"]) or (a < 0 and s < 1 - CLIP["clip_low"])
            assert new.grad[k, t].item() == pytest.approx(0.0 if cut else -s * a, rel=1e-4, abs=1e-5)


@SETTINGS
@given(batch=batches(spread=0.05), data=st.data())
def test_sequence_ratio_with_one_advantage_a_rollout_is_gspo(batch, data):
    """With A the same on every token, the mean over tokens has the gradient of GSPO's s_k A_k, by plain autograd."""
    new, old, _, mask = batch
    scores = torch.randn(mask.shape[0], generator=torch.Generator().manual_seed(data.draw(st.integers(0, 99))))
    advantages = scores[:, None].expand(mask.shape)
    loss, _ = clipped_surrogate(new, old, advantages, mask, ratio="sequence", **CLIP)
    (loss * token_weights(mask, "sequence-mean", **totals(mask))).sum().backward()

    plain = new.detach().clone().requires_grad_()
    objective = plain.new_zeros(())
    for k in range(mask.shape[0]):
        length = int(mask[k].sum())
        if length:
            s = (plain[k, :length] - old[k, :length]).mean().exp()
            objective = objective - torch.minimum(s * scores[k], s.clamp(0.8, 1.28) * scores[k])
    if not mask.any():
        return
    (objective / totals(mask)["completions"]).backward()
    torch.testing.assert_close(new.grad, plain.grad, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
@SETTINGS
@given(batch=batches(), data=st.data())
def test_same_update_for_any_micro_batch_cut_order_and_padding(ratio, aggregation, batch, data):
    new, old, advantages, mask = batch
    whole = totals(mask)
    loss, stats = clipped_surrogate(*batch, ratio=ratio, **CLIP)
    total = (loss * token_weights(mask, aggregation, **whole)).sum()
    total.backward()

    again = new.detach().clone().requires_grad_()
    order = data.draw(st.permutations(range(mask.shape[0])))
    size = data.draw(st.integers(1, mask.shape[0]))
    summed, added = 0.0, dict.fromkeys(stats, 0.0)
    for start in range(0, len(order), size):
        rows = order[start : start + size]
        width = max(1, int(mask[rows].sum(1).max()))  # trimmed to the longest rollout of the cut
        cut = mask[rows, :width]
        part, part_stats = clipped_surrogate(
            again[rows, :width], old[rows, :width], advantages[rows, :width], cut, ratio=ratio, **CLIP
        )
        part_total = (part * token_weights(cut, aggregation, **whole)).sum()
        part_total.backward()
        summed += part_total.item()
        added = {key: added[key] + value.item() for key, value in part_stats.items()}
    assert summed == pytest.approx(total.item(), abs=1e-6)
    torch.testing.assert_close(again.grad, new.grad, atol=1e-7, rtol=1e-5)
    assert added == pytest.approx({key: value.item() for key, value in stats.items()}, rel=1e-5)


@SETTINGS
@given(batch=batches())
def test_weights_make_the_named_means(batch):
    mask = batch[3]
    losses = torch.where(mask.bool(), batch[0].detach(), 0.0)
    whole = totals(mask, max_length=11)
    rows = [losses[k][mask[k].bool()] for k in range(mask.shape[0]) if mask[k].any()]

    def found(aggregation):
        weights = token_weights(mask, aggregation, **whole)
        assert weights.dtype == torch.float32
        assert (weights[mask == 0] == 0).all()
        return (losses * weights).sum().item()

    if not rows:
        assert all(found(aggregation) == 0 for aggregation in AGGREGATIONS)
        return
    assert found("sequence-mean") == pytest.approx(sum(r.mean().item() for r in rows) / len(rows), rel=1e-4)
    assert found("token-mean") == pytest.approx(torch.cat(rows).mean().item(), rel=1e-4)
    assert found("constant") == pytest.approx(sum(r.sum().item() for r in rows) / (len(rows) * 11), rel=1e-4)


@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_all_masked_batch_is_zero_with_a_working_graph(ratio, aggregation):
    new = torch.full((2, 3), -math.inf, requires_grad=True)
    mask = torch.zeros(2, 3)
    loss, stats = clipped_surrogate(new, torch.full((2, 3), NAN), torch.full((2, 3), NAN), mask, ratio=ratio, **CLIP)
    total = (loss * token_weights(mask, aggregation, completions=0, tokens=0, max_length=0)).sum()
    total = total + kl_k3(new, torch.full((2, 3), NAN), mask).sum()
    total.backward()
    assert total.item() == 0
    assert (new.grad == 0).all()
    assert all(value.item() == 0 for value in stats.values())


@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("log_ratio", [100.0, -100.0])
@pytest.mark.parametrize("advantage", [1.0, -1.0])
def test_a_log_ratio_of_a_hundred_stays_finite(ratio, log_ratio, advantage):
    new = torch.tensor([[log_ratio, log_ratio]], requires_grad=True)
    advantages = torch.full((1, 2), advantage)
    loss, stats = clipped_surrogate(new, torch.zeros(1, 2), advantages, torch.ones(1, 2), ratio=ratio, **CLIP)
    kl = kl_k3(new, torch.zeros(1, 2), torch.ones(1, 2))
    (loss.sum() + kl.sum()).backward()
    for value in (loss, kl, new.grad, stats["ratio"]):
        assert value.isfinite().all()


def test_a_non_finite_log_probability_of_a_real_token_is_not_hidden():
    new = torch.tensor([[NAN, -1.0]], requires_grad=True)
    loss, _ = clipped_surrogate(new, torch.zeros(1, 2), torch.ones(1, 2), torch.ones(1, 2), **CLIP)
    assert loss[0, 0].isnan()
    assert loss[0, 1].isfinite()


@pytest.mark.parametrize(
    ("ratio", "advantage", "cut", "key"),
    [
        (1.5, 1.0, True, "clipped_high"),
        (1.5, -1.0, False, None),
        (0.5, -1.0, True, "clipped_low"),
        (0.5, 1.0, False, None),
        (1.25, 1.0, False, None),
        (0.85, -1.0, False, None),
    ],
)
def test_clip_cuts_the_gradient_on_the_side_that_matters(ratio, advantage, cut, key):
    new = torch.tensor([[math.log(ratio)]], requires_grad=True)
    loss, stats = clipped_surrogate(new, torch.zeros(1, 1), torch.tensor([[advantage]]), torch.ones(1, 1), **CLIP)
    loss.sum().backward()
    assert (new.grad.item() == 0) == cut
    assert {name for name in ("clipped_low", "clipped_high") if stats[name].item() == 1} == ({key} if key else set())


def test_old_log_probabilities_and_advantages_get_no_gradient():
    new, old, advantages = (torch.randn(2, 3, requires_grad=True) for _ in range(3))
    loss, _ = clipped_surrogate(new, old, advantages, torch.ones(2, 3), **CLIP)
    (loss.sum() + kl_k3(new, old, torch.ones(2, 3)).sum()).backward()
    assert new.grad is not None
    assert old.grad is None
    assert advantages.grad is None


@SETTINGS
@given(batch=batches(spread=1.0))
def test_kl_is_never_negative_and_has_its_formula(batch):
    new, reference, _, mask = batch
    kl = kl_k3(new, reference, mask)
    d = (reference - new.detach()).double()
    expected = torch.where(mask.bool(), d.exp() - d - 1, 0.0)
    torch.testing.assert_close(kl.double(), expected, atol=1e-5, rtol=1e-4)
    assert (kl >= -1e-6).all()
    kl.sum().backward()
    assert new.grad.isfinite().all()
    assert (new.grad[mask == 0] == 0).all()


def test_half_precision_inputs_are_computed_in_float32():
    new = torch.tensor([[-1.0, -2.0]], dtype=torch.bfloat16, requires_grad=True)
    loss, _ = clipped_surrogate(new, torch.tensor([[-1.1, -2.0]]), torch.ones(1, 2), torch.ones(1, 2), **CLIP)
    assert loss.dtype == torch.float32
    assert loss[0, 0].item() == pytest.approx(-math.exp(0.1), rel=1e-6)
    loss.sum().backward()
    assert new.grad.dtype == torch.bfloat16


def test_wrong_words_are_named():
    one = torch.ones(1, 1)
    with pytest.raises(ValueError, match="'rollout'; expected 'token' or 'sequence'"):
        clipped_surrogate(one, one, one, one, ratio="rollout", **CLIP)
    with pytest.raises(ValueError, match="'mean'; expected 'sequence-mean', 'token-mean' or 'constant'"):
        token_weights(one, "mean", completions=1, tokens=1, max_length=1)
