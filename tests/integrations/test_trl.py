"""TRL's trainer with token rewards: the internals that we rely on, advantages, losses, refusals, logs."""

from __future__ import annotations

import inspect

import pytest
import torch
from trl import GRPOTrainer

from botgrpo_cli.integrations.trl import BagOfTokensTrainer
from botgrpo_cli.methods.advantages import bag_of_tokens
from botgrpo_cli.methods.objectives import clipped_surrogate, token_weights
from botgrpo_cli.methods.registry import METHODS
from tests.integrations.trl_toy import KnownCompletions, local_rewards, make_trainer, outcome, score

GROUP = torch.arange(3).repeat_interleave(4)


def rectangle(rows):
    return torch.nn.utils.rnn.pad_sequence([torch.tensor(row, dtype=torch.float64) for row in rows], batch_first=True)


def expected_rewards(trainer, batch, weight=1.0):
    """(token rewards [B, T], mask [B, T]) by hand."""
    lengths = batch["completion_mask"].sum(1).tolist()
    ids = [row[:n].tolist() for row, n in zip(batch["completion_ids"], lengths, strict=True)]
    mask = batch["completion_mask"]
    return torch.tensor(outcome(None, None, ids))[:, None] + weight * rectangle(local_rewards(None, None, ids)), mask


# What we rely on


def test_the_internals_that_we_build_on_are_those_we_know():
    """When this fails after an update of TRL, `integrations/trl.py` is to be read against its new source."""

    def parameters(name):
        return list(inspect.signature(getattr(GRPOTrainer, name)).parameters)

    assert parameters("_generate_and_score_completions") == ["self", "inputs"]
    assert parameters("_calculate_rewards") == ["self", "inputs", "prompts", "completions", "completion_ids_list"]
    assert parameters("_compute_loss") == ["self", "model", "inputs"]
    assert parameters("_generate") == ["self", "prompts"]
    assert parameters("__init__")[1:4] == ["model", "reward_funcs", "args"]


def test_the_batch_has_the_keys_and_shapes_that_we_read(tmp_path):
    trainer = make_trainer(tmp_path)
    _, batch = score(trainer)
    assert {"completion_ids", "completion_mask", "advantages", "num_items_in_batch"} <= set(batch)
    assert batch["advantages"].shape == batch["completion_mask"].shape == batch["completion_ids"].shape
    assert batch["advantages"].dtype == torch.float32
    assert trainer.reward_weights.shape == (1,)
    assert trainer.environments is None


@pytest.mark.parametrize("method", METHODS)
def test_the_loss_of_trl_with_our_settings_is_our_objective(tmp_path, method):
    """Same weights, same batch, the policy moved off the old log-probabilities so that ratios and clips count."""
    trainer = make_trainer(tmp_path, method=method, settings={"num_iterations": 2, "steps_per_generation": 1})
    _, batch = score(trainer)
    trainer.current_gradient_accumulation_steps = 1
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for p in trainer.model.parameters():
            p.add_(0.01 * torch.randn(p.shape, generator=generator))
    parameters = list(trainer.model.parameters())
    theirs = trainer._compute_loss(trainer.model, batch)
    their_gradient = torch.autograd.grad(theirs, parameters)
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1)
    seen = torch.cat([batch["prompt_mask"], batch["completion_mask"]], 1)
    mask = batch["completion_mask"]
    new, _, _ = trainer._get_per_token_logps_and_entropies(trainer.model, ids, seen, mask.shape[1])
    entry = METHODS[method]
    loss, stats = clipped_surrogate(
        new,
        batch["old_per_token_logps"],
        batch["advantages"],
        mask,
        ratio=entry.ratio,
        clip_low=entry.clip_low,
        clip_high=entry.clip_high,
    )
    weights = token_weights(
        mask, entry.aggregation, completions=len(mask), tokens=int(mask.sum()), max_length=trainer.max_completion_length
    )
    ours = (loss * weights).sum()
    our_gradient = torch.autograd.grad(ours, parameters)
    assert stats["clipped_low"] + stats["clipped_high"] > 0
    torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=1e-6)
    for a, b in zip(our_gradient, their_gradient, strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)


# Advantages


def test_the_advantages_are_those_of_the_bag(tmp_path):
    trainer = make_trainer(tmp_path, token_reward_weights=[0.5])
    _, batch = score(trainer)
    rewards, mask = expected_rewards(trainer, batch, weight=0.5)
    assert len(set(mask.sum(1).tolist())) > 2
    torch.testing.assert_close(batch["advantages"], bag_of_tokens(rewards, mask, GROUP), atol=1e-6, rtol=1e-6)


def test_two_token_functions_and_two_reward_functions_add_up(tmp_path):
    def double(completion_ids, weight, **_):
        assert weight == [1.0] * len(completion_ids)  # columns of the data set arrive
        return [torch.tensor([2.0] * len(ids)) for ids in completion_ids]  # tensors will do

    trainer = make_trainer(
        tmp_path,
        reward_funcs=[outcome, outcome],
        settings={"reward_weights": [0.25, 0.5]},
        token_reward_funcs=[local_rewards, double],
        token_reward_weights=[1.0, 3.0],
    )
    _, batch = score(trainer)
    lengths = batch["completion_mask"].sum(1).tolist()
    ids = [row[:n].tolist() for row, n in zip(batch["completion_ids"], lengths, strict=True)]
    rewards = 0.75 * torch.tensor(outcome(None, None, ids))[:, None] + rectangle(local_rewards(None, None, ids)) + 6.0
    expected = bag_of_tokens(rewards, batch["completion_mask"], GROUP)
    torch.testing.assert_close(batch["advantages"], expected, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_trains_a_step(tmp_path, method):
    settings = {
        "per_device_train_batch_size": 12 // METHODS[method].minibatches,
        "max_steps": -1,
        "num_train_epochs": 1,
    }
    trainer = make_trainer(tmp_path, method=method, settings=settings)
    before = {name: p.detach().clone() for name, p in trainer.model.named_parameters()}
    trainer.train()
    assert any(not torch.equal(before[name], p) for name, p in trainer.model.named_parameters())
    assert all(p.isfinite().all() for p in trainer.model.parameters())
    log = next(entry for entry in trainer.state.log_history if "loss" in entry)
    assert log["bag/zero_spread"] == 0.0
    assert log["grad_norm"] > 0


def test_sampled_completions_are_trained_on_and_evaluated(tmp_path):
    """Nothing is known in advance: TRL's own generation, in training and in evaluation with groups of another size."""
    settings = {"eval_strategy": "steps", "eval_steps": 1, "num_generations_eval": 2, "per_device_eval_batch_size": 4}
    data = make_trainer(tmp_path).train_dataset
    trainer = make_trainer(tmp_path, BagOfTokensTrainer, settings=settings, eval_dataset=data.select(range(2)))
    trainer.train()
    log = {key: value for entry in trainer.state.log_history for key, value in entry.items()}
    assert log["eval_bag/zero_spread"] in (0.0, 0.5, 1.0)
    assert "eval_token_rewards/local_rewards/mean" in log
    assert log["bag/unscored"] == 0.0


def test_groups_of_evaluation_have_their_own_size(tmp_path):
    settings = {"num_generations_eval": 2}
    trainer = make_trainer(tmp_path, settings=settings)
    _, batch = score(trainer, train=False)
    rewards, mask = expected_rewards(trainer, batch)
    expected = bag_of_tokens(rewards, mask, torch.arange(6).repeat_interleave(2))
    torch.testing.assert_close(batch["advantages"], expected, atol=1e-6, rtol=1e-6)
    assert trainer._metrics["eval"]["bag/score"]
    assert not trainer._metrics["train"]["bag/score"]


@pytest.mark.parametrize("nothing", [float("nan"), None])
def test_a_completion_that_could_not_be_scored_leaves_its_group(tmp_path, nothing):
    def sometimes(prompts, completions, completion_ids, **_):
        values = local_rewards(prompts, completions, completion_ids)
        values[1][0] = nothing
        return values

    trainer = make_trainer(tmp_path, token_reward_funcs=sometimes)
    _, batch = score(trainer)
    rewards, mask = expected_rewards(trainer, batch)
    rewards[1] = float("nan")
    torch.testing.assert_close(batch["advantages"], bag_of_tokens(rewards, mask, GROUP), atol=1e-6, rtol=1e-6)
    assert (batch["advantages"][1] == 0).all()
    assert batch["advantages"].isfinite().all()
    assert trainer._metrics["train"]["bag/unscored"] == [1.0]
    local = rewards - outcomes(batch)
    counts = mask.bool() & local.isfinite()
    counts[1] = mask[1].bool()  # the other tokens of completion 1 were scored
    local[1] = (expected_rewards(trainer, batch)[0] - outcomes(batch))[1]
    counts[1, 0] = False
    assert trainer._metrics["train"]["token_rewards/sometimes/mean"] == [pytest.approx(local[counts].mean().item())]


def outcomes(batch):
    lengths = batch["completion_mask"].sum(1).tolist()
    ids = [row[:n].tolist() for row, n in zip(batch["completion_ids"], lengths, strict=True)]
    return torch.tensor(outcome(None, None, ids))[:, None]


def test_a_reward_function_without_an_answer_takes_the_completion_out(tmp_path):
    def silent(completion_ids, **_):
        return [None, *outcome(None, None, completion_ids)[1:]]

    trainer = make_trainer(tmp_path, reward_funcs=silent)
    _, batch = score(trainer)
    rewards, mask = expected_rewards(trainer, batch)
    rewards[0] = float("nan")
    torch.testing.assert_close(batch["advantages"], bag_of_tokens(rewards, mask, GROUP), atol=1e-6, rtol=1e-6)


def test_tokens_of_tools_are_left_out(tmp_path):
    class WithTools(KnownCompletions):
        def tool_mask(self, ids):
            return [[int(t != 1) for t in range(len(row))] for row in ids]

    trainer = make_trainer(tmp_path, WithTools)
    _, batch = score(trainer)
    rewards, mask = expected_rewards(trainer, batch)
    mask = mask * batch["tool_mask"]
    assert (mask[:, 1] == 0).all()
    torch.testing.assert_close(batch["advantages"], bag_of_tokens(rewards, mask, GROUP), atol=1e-6, rtol=1e-6)
    assert (batch["advantages"][:, 1] == 0).all()


def test_truncated_completions_that_are_masked_leave_their_group(tmp_path):
    class Ending(KnownCompletions):
        def rollout(self, prompt, number):
            return super().rollout(prompt, number) + [0] * (number != 2)  # 0 ends a completion

    trainer = make_trainer(tmp_path, Ending, settings={"mask_truncated_completions": True})
    _, batch = score(trainer)
    rewards, mask = expected_rewards(trainer, batch)
    rewards = rewards[:, : mask.shape[1]]
    assert mask.sum(1).eq(0).tolist() == [k % 4 == 2 for k in range(12)]
    kept = ~mask.sum(1).eq(0)
    alone = bag_of_tokens(rewards[kept], mask[kept], GROUP[kept])
    torch.testing.assert_close(batch["advantages"][kept], alone, atol=1e-6, rtol=1e-6)
    assert (batch["advantages"][~kept] == 0).all()
    assert trainer._metrics["train"]["bag/empty"] == [3.0]


# Functions that return something else


def test_a_wrong_number_of_rewards_names_function_completion_and_numbers(tmp_path):
    def short(completion_ids, **_):
        return [[0.0] * (len(ids) - (k == 3)) for k, ids in enumerate(completion_ids)]

    trainer = make_trainer(tmp_path, token_reward_funcs=short)
    length = len(trainer.rollout("say 0", 3))
    with pytest.raises(
        ValueError, match=f"'short' returned {length - 1} numbers for completion 3, which has {length} "
    ):
        score(trainer)


def test_a_wrong_number_of_lists_is_said(tmp_path):
    trainer = make_trainer(tmp_path, steps_func=lambda completion_ids, **_: [[0]])
    with pytest.raises(ValueError, match="returned 1 lists for 12 completions"):
        score(trainer)


# Logs


def test_without_reward_functions_the_logs_speak_of_token_rewards(tmp_path):
    trainer = make_trainer(
        tmp_path, reward_funcs=None, settings={"log_completions": True, "num_completions_to_print": 0}
    )
    _, batch = score(trainer)
    metrics = trainer._metrics["train"]
    lengths = batch["completion_mask"].sum(1)
    score_of = (expected_rewards(trainer, batch)[0] - outcomes(batch)) * batch["completion_mask"]
    means = score_of.sum(1) / lengths
    assert metrics["reward"] == [pytest.approx(means.mean().item())]
    assert metrics["reward_std"] == [pytest.approx(means.std().item())]
    assert not any("no_outcome_reward" in key for key in metrics)
    assert list(trainer._logs["rewards"]) == ["token rewards"]
    shown = (batch["advantages"].sum(1) / lengths).tolist()
    assert list(trainer._logs["advantages"]) == pytest.approx(shown)
