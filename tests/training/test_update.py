"""One update: independent of every cut, exact at the first inner step, safe when a gradient is not finite."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from botgrpo_cli.errors import RunError
from botgrpo_cli.methods.registry import METHODS
from botgrpo_cli.policy.decode import choose_decoder
from botgrpo_cli.training.rollouts import collect, token_rewards
from botgrpo_cli.training.update import Update, make_optimizer, update
from tests.conftest import make_policy
from tests.training.toy import LetterTask, make_recipe


def one_batch(policy):
    prompts = LetterTask().prompts("train")[:3]
    options = {"group_size": 4, "max_new_tokens": 12, "temperature": 0.9, "seed": 0, "step": 1}
    return collect(policy, choose_decoder(policy), LetterTask(), prompts, **options)


def step(policy, batch, method="bot-grpo", *, reference=None, **training):
    config = make_recipe(**{f"training__{k}": v for k, v in training.items()}).training
    entry = METHODS[method]
    rewards = token_rewards(batch, 0.5)
    optimizer = make_optimizer(policy, config)
    options = {"config": config, "temperature": 0.9, "max_new_tokens": 12, "step": 1, "reference": reference}
    return update(policy, optimizer, entry, batch, rewards.advantages(entry), **options)


def inside(policy, batch, *, method=METHODS["grpo"], config=None):
    """An Update that has not run yet."""
    config = config or make_recipe().training
    advantages = token_rewards(batch, 0.5).advantages(method)
    return Update(policy, make_optimizer(policy, config), method, batch, advantages, config, 0.9, 12, 1, None)


@pytest.mark.parametrize("method", sorted(METHODS))
@pytest.mark.parametrize("micro_batch", [1, 2, 6])
def test_same_update_for_any_micro_batch_size(method, micro_batch):
    whole, cut = make_policy(), make_policy()
    batch = one_batch(whole)
    # plain gradient descent would do; AdamW turns rounding of a zero gradient into a full step, so compare gradients
    a = step(whole, batch, method, micro_batch=12)
    b = step(cut, batch, method, micro_batch=micro_batch)
    for key in ("loss", "entropy", "kl", "clip_share", "grad_norm", "sampler_gap"):
        assert a[key] == pytest.approx(b[key], rel=1e-4, abs=1e-6), key
    moved = [
        (p - q).abs().max().item() for p, q in zip(whole.trainable().values(), cut.trainable().values(), strict=True)
    ]
    assert max(moved) < 1e-3


def test_first_inner_step_has_ratio_one_and_no_kl(policy):
    batch = one_batch(policy)
    result = step(policy, batch, reference=policy.snapshot(), kl=0.1)
    assert result["clip_share"] == 0.0
    assert result["kl"] == 0.0
    assert result["sampler_gap"] < 1e-5
    # with ratio 1 the loss is minus the weighted sum of advantages, which the bag centres at 0
    assert result["loss"] == pytest.approx(0.0, abs=1e-5)


@pytest.mark.parametrize("lora", [False, True])
def test_kl_is_measured_to_where_training_started(lora):
    policy = make_policy(lora=lora)
    start = policy.snapshot()
    batch = one_batch(policy)
    step(policy, batch)
    after = {n: p.detach().clone() for n, p in policy.trainable().items()}
    moved = step(policy, batch, reference=start, kl=0.1)
    assert moved["kl"] > 0.0
    with policy.swapped(start):
        assert all(torch.equal(p, start[n]) for n, p in policy.trainable().items())
    assert all((p - after[n]).abs().max() < 0.1 for n, p in policy.trainable().items())


def test_later_inner_epochs_leave_ratio_one_and_clip(policy):
    batch = one_batch(policy)
    result = step(policy, batch, inner_epochs=4, learning_rate=0.05)
    assert result["clip_share"] > 0.0


def test_a_gradient_that_is_not_finite_moves_nothing_and_is_counted(policy):
    batch = one_batch(policy)
    with torch.no_grad():
        policy.causal_lm.base_model.norm.weight[0] = float("inf")
    before = policy.snapshot()
    assert step(policy, batch)["skipped_steps"] == 1.0
    assert all(torch.equal(p, before[n]) for n, p in policy.trainable().items())


def test_a_rollout_that_could_not_be_scored_changes_nothing_but_its_own_absence(policy):
    batch = one_batch(policy)
    batch.scored[1].reward = float("nan")
    result = step(policy, batch)
    assert all(value == value for value in result.values())
    assert all(p.isfinite().all() for p in policy.trainable().values())


def test_the_update_raises_what_was_rewarded(policy):
    batch = one_batch(policy)
    before = batch.scored
    for _ in range(15):
        step(policy, one_batch(policy), learning_rate=1e-2)
    after = one_batch(policy).scored
    assert sum(s.reward for s in after) > sum(s.reward for s in before)


def test_minibatches_use_the_log_probabilities_of_the_policy_that_sampled():
    policy = make_policy()
    batch = one_batch(policy)
    before = inside(policy, batch)
    expected = {row: before._logprobs([row])[0][0].detach() for row in range(len(batch.rollouts))}
    method = replace(METHODS["grpo"], minibatches=3)
    config = make_recipe(training__learning_rate=0.02, training__inner_epochs=2).training
    whole = inside(policy, batch, method=method, config=config)
    result = whole.run(lambda: None)
    assert result["updates"] == 6
    assert result["clip_share"] > 0.0
    assert result["sampler_gap"] < 1e-5  # measured before the weights moved, for every row
    for row, logprobs in expected.items():
        torch.testing.assert_close(whole.old[row, : len(logprobs)], logprobs, atol=1e-5, rtol=1e-5)


def test_minibatches_cut_the_rollouts_anew_in_each_epoch():
    policy = make_policy()
    batch = one_batch(policy)
    config = make_recipe(training__inner_epochs=2).training
    plan = list(inside(policy, batch, method=replace(METHODS["grpo"], minibatches=4), config=config)._minibatches())
    assert [len(rows) for rows in plan] == [3] * 8
    for epoch in (plan[:4], plan[4:]):
        assert sorted(r for rows in epoch for r in rows) == list(range(12))
    assert plan[:4] != plan[4:]


@pytest.mark.parametrize("method", ["gspo", "grpo"])
def test_gspo_clips_after_its_first_minibatch_and_grpo_never_on_policy(method, policy):
    result = step(policy, one_batch(policy), method, learning_rate=0.01)
    assert (result["clip_share"] > 0.0) == (method == "gspo")
    assert result["updates"] == METHODS[method].minibatches


@pytest.mark.parametrize(("key", "count"), [("local", 1), ("steps", 99)])
def test_a_task_with_the_wrong_number_of_rewards_is_named(policy, key, count):
    class Short(LetterTask):
        name = "short-sighted"

        def submit(self, completion):
            future = super().submit(completion)
            setattr(future.result(), key, [0] * count)
            return future

    options = {"group_size": 2, "max_new_tokens": 12, "temperature": 0.9, "seed": 0, "step": 1}
    words = {"local": "1 local rewards", "steps": "99 steps"}[key]
    with pytest.raises(RunError, match=rf"task 'short-sighted' returned {words} for a rollout of \d+ tokens \(prompt"):
        collect(policy, choose_decoder(policy), Short(), Short().prompts("train")[:2], **options)
