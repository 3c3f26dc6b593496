"""The update of a step: minibatches, micro-batches, objective, clipping, optimizer. It depends on none of the cuts into
micro-batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
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
    """Token sums over everything that a step computes; divided once at the end, so that no mean of means appears."""

    loss: float = 0.0
    tokens: float = 0.0
    entropy: float = 0.0
    kl: float = 0.0
    clipped_low: float = 0.0
    clipped_high: float = 0.0
    gap: float = 0.0
    gap_tokens: float = 0.0

    def means(self, updates: int) -> dict[str, float]:
        n = max(1.0, self.tokens)
        return {
            "loss": self.loss / max(1, updates),
            "entropy": self.entropy / n,
            "kl": self.kl / n,
            "clip_share": (self.clipped_low + self.clipped_high) / n,
            "clip_share_low": self.clipped_low / n,
            "clip_share_high": self.clipped_high / n,
            "sampler_gap": self.gap / max(1.0, self.gap_tokens),
        }


def make_optimizer(policy: Policy, config: TrainingConfig) -> torch.optim.AdamW:
    return torch.optim.AdamW(
        policy.trainable().values(), lr=config.learning_rate, weight_decay=config.weight_decay, foreach=True
    )


@dataclass
class Update:
    """What the passes over one batch of rollouts share. `run` is the whole of it."""

    policy: Policy
    optimizer: torch.optim.Optimizer
    method: Method
    batch: Batch
    advantages: Tensor  # [B, T]
    config: TrainingConfig
    temperature: float
    max_new_tokens: int
    step: int
    reference: dict[str, Tensor] | None

    def __post_init__(self) -> None:
        self.sums = Sums()
        self.old = torch.zeros(self.advantages.shape)  # [B, T], of the policy that sampled
        self.known: set[int] = set()  # rows of `old` that are filled in

    def run(self, before_weights_move: Callable[[], object]) -> dict[str, float]:
        config, norms, skipped = self.config, [], 0
        for group in self.optimizer.param_groups:
            group["lr"] = config.learning_rate * min(1.0, self.step / max(1, config.warmup_steps))
        plan = list(self._minibatches())
        later = {row for rows in plan[1:] for row in rows} - set(plan[0])
        self._remember_old(sorted(later))
        for rows in plan:
            self.optimizer.zero_grad(set_to_none=True)
            lengths = [self.batch.lengths[r] for r in rows]
            total = {
                "completions": sum(n > 0 for n in lengths),
                "tokens": sum(lengths),
                "max_length": self.max_new_tokens,
            }
            for part in self._micro_batches(rows):
                self._backward(part, total)
            norm = float(torch.nn.utils.clip_grad_norm_(list(self.policy.trainable().values()), config.max_grad_norm))
            norms.append(norm)
            if not torch.isfinite(torch.tensor(norm)):
                skipped += 1
                continue
            before_weights_move()
            self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return {
            **self.sums.means(len(plan)),
            "grad_norm": sum(norms) / len(norms),
            "skipped_steps": float(skipped),
            "updates": float(len(plan)),
            "learning_rate": self.optimizer.param_groups[0]["lr"],
        }

    def _minibatches(self) -> Iterator[list[int]]:
        """Rows of each optimizer step; cut in parts, they are drawn anew in each epoch from (seed, step, epoch)."""
        count = len(self.batch.rollouts)
        for epoch in range(self.config.inner_epochs):
            if self.method.minibatches == 1:
                yield list(range(count))
                continue
            order = np.random.default_rng([self.config.seed, self.step, epoch]).permutation(count)
            yield from (part.tolist() for part in np.array_split(order, min(count, self.method.minibatches)))

    def _micro_batches(self, rows: list[int]) -> Iterator[list[int]]:
        """Alike lengths side by side: little padding."""
        order = sorted(rows, key=lambda r: (self.batch.lengths[r], r))
        for first in range(0, len(order), self.config.micro_batch):
            yield order[first : first + self.config.micro_batch]

    def _logprobs(self, rows: list[int]) -> tuple[Tensor, Tensor, Tensor]:
        """(log-probabilities, entropies, mask) of some rows under the current weights. Shapes: [b, t] each."""
        batch = self.batch
        sequences = pack([batch.prompt_ids[r] for r in rows], [batch.rollouts[r].ids for r in rows], self.policy)
        return *completion_logprobs(self.policy, sequences, self.temperature), sequences.mask

    @torch.no_grad()
    def _remember_old(self, rows: list[int]) -> None:
        """Old log-probabilities of rows whose turn comes after the weights have moved: now is the time to take them."""
        for part in self._micro_batches(rows):
            logprobs, _, mask = self._logprobs(part)  # [b, t]
            self._fill_old(part, logprobs, mask)

    def _fill_old(self, rows: list[int], logprobs: Tensor, mask: Tensor) -> None:
        width = mask.shape[1]
        self.old = self.old.to(logprobs)
        self.old[torch.tensor(rows, device=logprobs.device), :width] = logprobs.detach()
        self.known.update(rows)
        sampled = [torch.tensor(self.batch.rollouts[r].logprobs) for r in rows]
        sampled = torch.nn.utils.rnn.pad_sequence(sampled, batch_first=True).to(mask.device)  # [b, t]
        narrow = sampled.shape[1]  # 0 when every completion is empty: the mask is one wide then
        difference = (sampled - logprobs.detach()[:, :narrow]).abs()  # [b, t]
        self.sums.gap += float(difference[mask[:, :narrow]].sum())
        self.sums.gap_tokens += float(mask.sum())

    def _backward(self, rows: list[int], total: dict[str, int]) -> None:
        """Add one micro-batch's share of the gradient. `total` counts the whole minibatch."""
        logprobs, entropy, mask = self._logprobs(rows)  # [b, t]
        if not self.known.issuperset(rows):  # first turn, weights not yet moved: the ratio is exactly 1
            self._fill_old(rows, logprobs, mask)
        width, method = mask.shape[1], self.method
        loss, stats = clipped_surrogate(
            logprobs,
            self.old[torch.tensor(rows, device=mask.device), :width],
            self.advantages[rows, :width].to(logprobs),
            mask,
            ratio=method.ratio,
            clip_low=method.clip_low,
            clip_high=method.clip_high,
        )
        weights = token_weights(mask, method.aggregation, **total)  # [b, t]
        objective = (loss * weights).sum()
        if self.reference is not None:
            with torch.no_grad(), self.policy.swapped(self.reference):
                reference_logprobs, _, _ = self._logprobs(rows)  # [b, t]
            divergence = kl_k3(logprobs, reference_logprobs, mask)  # [b, t]
            objective = objective + self.config.kl * (divergence * weights).sum()
            self.sums.kl += float(divergence.detach().sum())
        objective.backward()
        self.sums.loss += float(objective.detach())
        self.sums.tokens += float(stats["tokens"])
        self.sums.entropy += float(entropy.sum())
        self.sums.clipped_low += float(stats["clipped_low"])
        self.sums.clipped_high += float(stats["clipped_high"])


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
    """Run `inner_epochs` passes of `method.minibatches` optimizer steps each over one batch of rollouts.

    Shapes: advantages [B, T]. Old log-probabilities are those of the policy that sampled: taken from the first forward
    pass of the first minibatch, detached (its ratio is exactly 1), and before the weights move for all others.
    `before_weights_move` is called before each optimizer step: from there on a step can't be left half done.
    Returns loss, entropy, KL, clip shares, gradient norm, optimizer steps, skipped ones, and the sampler gap: the mean
    absolute difference between the log-probabilities of the sampler and of the forward pass of the same weights.
    """
    whole = Update(policy, optimizer, method, batch, advantages, config, temperature, max_new_tokens, step, reference)
    return whole.run(before_weights_move)
