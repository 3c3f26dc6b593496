"""One policy update: micro-batches, objective, clipping, optimizer. The result depends on none of the cuts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from botgrpo_cli.methods.objectives import clipped_surrogate, kl_k3, token_weights
from botgrpo_cli.methods.registry import Method
from botgrpo_cli.policy.load import Policy
from botgrpo_cli.policy.logprobs import completion_logprobs, pack
from botgrpo_cli.recipe.schema import TrainingConfig
from botgrpo_cli.training.rollouts import Batch


@dataclass
class Sums:
    """Token sums over micro-batches; divided once at the end, so that no mean of means appears."""

    loss: float = 0.0
    tokens: float = 0.0
    entropy: float = 0.0
    kl: float = 0.0
    clipped: float = 0.0
    gap: float = 0.0

    def means(self) -> dict[str, float]:
        n = max(1.0, self.tokens)
        return {
            "loss": self.loss,
            "entropy": self.entropy / n,
            "kl": self.kl / n,
            "clip_share": self.clipped / n,
            "sampler_gap": self.gap / n,
        }


def make_optimizer(policy: Policy, config: TrainingConfig) -> torch.optim.AdamW:
    return torch.optim.AdamW(
        policy.trainable().values(), lr=config.learning_rate, weight_decay=config.weight_decay, foreach=True
    )


def update(
    policy: Policy,
    optimizer: torch.optim.Optimizer,
    method: Method,
    batch: Batch,
    advantages: Tensor,
    *,
    config: TrainingConfig,
    temperature: float,
    max_new_tokens: int,
    step: int,
    reference: dict[str, Tensor] | None = None,
    before_weights_move: Callable[[], object] = lambda: None,
) -> dict[str, float]:
    """Run `inner_epochs` optimizer steps on one batch of rollouts.

    Shapes: advantages [B, T]. In the first inner epoch the old log-probabilities are the current ones, detached:
    the rollouts are on-policy, and the ratio is exactly 1. Later epochs use those of the first.
    `before_weights_move` is called before each optimizer step: from there on a step can't be left half done.
    Returns loss, entropy, KL, clip share, gradient norm, skipped steps, and the sampler gap: the mean absolute
    difference between the log-probabilities of the sampler and of this forward pass.
    """
    lengths = batch.lengths
    order = sorted(range(len(lengths)), key=lengths.__getitem__)  # alike lengths side by side: little padding
    size = config.micro_batch
    cuts = [order[i : i + size] for i in range(0, len(order), size)]
    total = {"completions": sum(n > 0 for n in lengths), "tokens": sum(lengths), "max_length": max_new_tokens}
    old: list[Tensor] = []
    sums, norms, skipped = Sums(), [], 0
    for group in optimizer.param_groups:
        group["lr"] = config.learning_rate * min(1.0, step / max(1, config.warmup_steps))
    for epoch in range(config.inner_epochs):
        optimizer.zero_grad(set_to_none=True)
        sums = Sums()
        for i, rows in enumerate(cuts):
            sequences = pack([batch.prompt_ids[r] for r in rows], [batch.rollouts[r].ids for r in rows], policy)
            mask = sequences.mask  # [b, t]
            width = mask.shape[1]
            logprobs, entropy = completion_logprobs(policy, sequences, temperature)  # [b, t]
            if epoch == 0:
                old.append(logprobs.detach())
            loss, stats = clipped_surrogate(
                logprobs,
                old[i],
                advantages[rows, :width].to(logprobs),
                mask,
                ratio=method.ratio,
                clip_low=method.clip_low,
                clip_high=method.clip_high,
            )
            weights = token_weights(mask, method.aggregation, **total)
            objective = (loss * weights).sum()
            if reference is not None:
                with torch.no_grad(), policy.swapped(reference):
                    reference_logprobs, _ = completion_logprobs(policy, sequences, temperature)
                divergence = kl_k3(logprobs, reference_logprobs, mask)  # [b, t]
                objective = objective + config.kl * (divergence * weights).sum()
                sums.kl += float(divergence.detach().sum())
            objective.backward()
            sampled = [torch.tensor(batch.rollouts[r].logprobs) for r in rows]
            sampled = torch.nn.utils.rnn.pad_sequence(sampled, batch_first=True).to(mask.device)  # [b, t]
            sums.loss += float(objective.detach())
            sums.tokens += float(mask.sum())
            sums.entropy += float(entropy.sum())
            sums.clipped += float(stats["clipped_low"] + stats["clipped_high"])
            if epoch == 0 and sampled.shape[1]:
                sums.gap += float((sampled - old[i][:, : sampled.shape[1]]).abs()[mask[:, : sampled.shape[1]]].sum())
        norm = float(torch.nn.utils.clip_grad_norm_(list(policy.trainable().values()), config.max_grad_norm))
        norms.append(norm)
        if not torch.isfinite(torch.tensor(norm)):
            skipped += 1
            continue
        before_weights_move()
        optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return {
        **sums.means(),
        "grad_norm": sum(norms) / len(norms),
        "skipped_steps": float(skipped),
        "learning_rate": optimizer.param_groups[0]["lr"],
    }
