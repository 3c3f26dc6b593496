"""Our advantages and losses beside TRL's own code, on the same tensors."""

from __future__ import annotations

import math

import pytest
import torch

from botgrpo_cli.methods.advantages import group_centred, group_relative
from botgrpo_cli.methods.objectives import clipped_surrogate, kl_k3, token_weights
from tests.conftest import make_policy

trl = pytest.importorskip("trl", reason="TRL is an extra: pip install 'botgrpo[trl]'")
datasets = pytest.importorskip("datasets")

GROUPS, SIZE, LIMIT = 3, 4, 8
EPS = 1e-4  # TRL adds this to the standard deviation


def make_trainer(folder, **options):
    """A real GRPOTrainer over a random policy; its batch is three prompts of four completions."""
    policy = make_policy()
    tokenizer = policy.tokenizer
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    scores = iter(torch.randn(1000, generator=torch.Generator().manual_seed(1)).tolist())
    given: list[float] = []

    def score(completions, **_):
        given.extend(next(scores) for _ in completions)
        return given[-len(completions) :]

    config = trl.GRPOConfig(
        output_dir=str(folder),
        per_device_train_batch_size=GROUPS * SIZE,
        num_generations=SIZE,
        max_completion_length=LIMIT,
        report_to="none",
        use_cpu=True,
        **options,
    )
    data = datasets.Dataset.from_dict({"prompt": [f"say {i}" for i in range(GROUPS)]})
    trainer = trl.GRPOTrainer(
        model=policy.causal_lm, processing_class=tokenizer, reward_funcs=score, args=config, train_dataset=data
    )
    trainer.current_gradient_accumulation_steps = 1
    return trainer, data, given


def score_once(trainer, data):
    trainer.model.train()
    rows = [data[i] for i in range(GROUPS) for _ in range(SIZE)]
    return trainer._generate_and_score_completions(rows)


@pytest.mark.parametrize(("scale", "function"), [("group", group_relative), ("none", group_centred)])
def test_group_advantages_are_those_of_trl(tmp_path, scale, function):
    """TRL divides by the sample deviation (K - 1), we by the population's (K, as the paper of GRPO): the factor between
    them is sqrt((K - 1) / K), the same for every group of K."""
    trainer, data, given = make_trainer(tmp_path, scale_rewards=scale)
    theirs = score_once(trainer, data)["advantages"]  # [B]
    rewards = torch.tensor(given, dtype=torch.float64)[:, None].expand(-1, 5)  # [B, T]
    factor = math.sqrt((SIZE - 1) / SIZE) if scale == "group" else 1.0
    group = torch.arange(GROUPS).repeat_interleave(SIZE)
    ours = function(rewards, torch.ones(GROUPS * SIZE, 5), group, eps=EPS * factor) * factor
    torch.testing.assert_close(ours, theirs[:, None].expand(-1, 5), atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize(
    ("loss_type", "aggregation", "level", "low", "high", "beta"),
    [
        ("grpo", "sequence-mean", "token", 0.2, 0.2, 0.0),  # GRPO
        ("grpo", "sequence-mean", "token", 0.2, 0.2, 0.1),  # GRPO with KL
        ("grpo", "sequence-mean", "sequence", 3e-4, 4e-4, 0.0),  # GSPO
        ("dapo", "token-mean", "token", 0.2, 0.28, 0.0),  # DAPO
        ("dr_grpo", "constant", "token", 0.2, 0.2, 0.0),  # Dr. GRPO
    ],
)
@pytest.mark.parametrize("by_token", [False, True])
def test_losses_are_those_of_trl(tmp_path, loss_type, aggregation, level, low, high, beta, by_token):
    trainer, _, _ = make_trainer(
        tmp_path,
        loss_type=loss_type,
        importance_sampling_level=level,
        epsilon=low,
        epsilon_high=high,
        use_bias_correction_kl=False,  # TRL can weight the KL by the ratio; the plain k3 is meant
        num_iterations=2,  # off-policy: old log-probabilities are taken from the batch
    )
    trainer.beta = beta  # in the config it would have TRL load a reference model, and the batch brings its values
    trainer.model.train()
    generator = torch.Generator().manual_seed(3)
    batch = GROUPS * SIZE
    lengths = torch.randint(1, LIMIT + 1, (batch,), generator=generator)
    mask = (torch.arange(LIMIT) < lengths[:, None]).long()  # [B, T]
    old = -torch.rand(batch, LIMIT, generator=generator) * 3
    reference = old + 0.3 * torch.randn(batch, LIMIT, generator=generator)
    advantages = torch.randn(batch, LIMIT if by_token else 1, generator=generator).expand(-1, LIMIT)
    start = old + 0.2 * torch.randn(batch, LIMIT, generator=generator)
    theirs, ours = start.clone().requires_grad_(), start.clone().requires_grad_()

    # the one thing that is not TRL's own: the log-probabilities, which both sides are to share
    trainer._get_per_token_logps_and_entropies = lambda *_, **__: (theirs, torch.zeros(batch, LIMIT), None)
    their_loss = trainer._compute_loss(
        trainer.model,
        {
            "prompt_ids": torch.ones(batch, 2, dtype=torch.long),
            "prompt_mask": torch.ones(batch, 2, dtype=torch.long),
            "completion_ids": torch.ones(batch, LIMIT, dtype=torch.long),
            "completion_mask": mask,
            "advantages": advantages if by_token else advantages[:, 0],
            "old_per_token_logps": old,
            "ref_per_token_logps": reference,
            "num_items_in_batch": mask.sum(),
        },
    )
    their_loss.backward()

    loss, _ = clipped_surrogate(ours, old, advantages, mask, ratio=level, clip_low=low, clip_high=high)
    weights = token_weights(
        mask, aggregation, completions=batch, tokens=int(mask.sum()), max_length=trainer.max_completion_length
    )
    our_loss = (loss * weights).sum() + beta * (kl_k3(ours, reference, mask) * weights).sum()
    our_loss.backward()
    assert our_loss.item() == pytest.approx(their_loss.item(), abs=1e-6)
    # One gradient differs by design: under a sequence ratio TRL gives each token the mean of the rollout's advantages
    # times s_k, we its own, so that token-level advantages stay usable. With one advantage a rollout they agree.
    if level == "token" or not by_token:
        torch.testing.assert_close(ours.grad, theirs.grad, atol=1e-6, rtol=1e-5)
