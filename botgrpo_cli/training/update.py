"""The update of a step: minibatches, micro-batches, objective, clipping, optimizer.

It depends neither on the cuts into micro-batches nor on the number of processes: every process holds the whole batch,
takes its share of each minibatch's micro-batches, and the gradients are summed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import astuple, dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from botgrpo_cli.methods.objectives import clipped_surrogate, kl_k3, token_weights
from botgrpo_cli.methods.registry import Method
from botgrpo_cli.policy.load import Policy
from botgrpo_cli.policy.logprobs import completion_logprobs, pack
from botgrpo_cli.policy.sharding import whole
from botgrpo_cli.policy.shared import attending
from botgrpo_cli.recipe.schema import TrainingConfig
from botgrpo_cli.training.processes import ALONE, Processes
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

    def over(self, processes: Processes) -> Sums:
        return Sums(*processes.sum(torch.tensor(astuple(self), dtype=torch.float64)).tolist())

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

    processes: Processes = ALONE
    between_passes: Callable[[], object] = lambda: None

    def __post_init__(self) -> None:
        self.sums = Sums()
        self.parameters = list(self.policy.trainable().values())
        # [B, T] each, 0 where not known; of the policy that sampled, and of the reference
        self.old = self.reference_logprobs = torch.zeros(self.advantages.shape, device=self.policy.device)

    def run(self, before_weights_move: Callable[[], object]) -> dict[str, float]:
        config, norms, skipped = self.config, [], 0
        for group in self.optimizer.param_groups:
            group["lr"] = config.learning_rate * min(1.0, self.step / max(1, config.warmup_steps))
        plan = list(self._minibatches())
        if self.reference is not None:
            with self.policy.swapped(self.reference):
                self.reference_logprobs = self._record(range(len(self.batch.rollouts)))
        # Rows whose turn comes after the weights have moved: now is the time to take their old log-probabilities.
        self.old = self._record({row for rows in plan[1:] for row in rows} - set(plan[0]), gap=True)
        for number, rows in enumerate(plan):
            self.optimizer.zero_grad(set_to_none=True)
            lengths = [self.batch.lengths[r] for r in rows]
            total = {
                "completions": sum(n > 0 for n in lengths),
                "tokens": sum(lengths),
                "max_length": self.max_new_tokens,
            }
            for part in self._micro_batches(rows):
                self._backward(part, total, first=number == 0)
            if number == 0 and len(plan) > 1:
                self.old[rows] = self.processes.sum(self.old[rows])  # each row was filled in by one process
            self.processes.sum_gradients(self.parameters)
            norm = clip_gradients(self.parameters, config.max_grad_norm)
            norms.append(norm)
            if not np.isfinite(norm):
                skipped += 1
                continue
            before_weights_move()
            self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return {
            **self.sums.over(self.processes).means(len(plan)),
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

    def _micro_batches(self, rows: Iterable[int]) -> Iterator[list[int]]:
        """This process's micro-batches of some rows: of nearly equal size, groups together so that they share their
        prompt, dealt out to and fro. Every process gets the same number of them; the last may be empty."""
        order = sorted(rows, key=lambda r: (int(self.batch.group[r]), self.batch.lengths[r], r))
        count, rank = self.processes.count, self.processes.rank
        passes = -(-len(order) // (self.config.micro_batch * count))
        parts = np.array_split(order, passes * count) if passes else []
        for number in range(passes):
            self.between_passes()
            # to and fro: longer completions come later in a group, and no process should get all of them
            place = rank if number % 2 == 0 else count - 1 - rank
            yield parts[number * count + place].tolist()

    def _logprobs(self, rows: list[int]) -> tuple[Tensor, Tensor, Tensor]:
        """(log-probabilities, entropies, mask) of some rows under the current weights. Shapes: [b, t] each."""
        batch = self.batch
        sequences = pack([batch.prompt_ids[r] for r in rows], [batch.rollouts[r].ids for r in rows], self.policy)
        return *self.policy.inside(completion_logprobs, self.policy, sequences, self.temperature), sequences.mask

    @torch.no_grad()
    def _record(self, rows: Iterable[int], *, gap: bool = False) -> Tensor:
        """Log-probabilities [B, T] of some rows under the current weights, 0 elsewhere, known to every process."""
        table = torch.zeros_like(self.old)
        for part in self._micro_batches(rows):
            if part:
                logprobs, _, mask = self._logprobs(part)  # [b, t]
                table[part, : mask.shape[1]] = logprobs
                if gap:
                    self._add_gap(part, logprobs, mask)
            elif self.policy.sharded:
                self._idle_pass()
        return self.processes.sum(table)

    def _idle_pass(self) -> Tensor:
        """0, by way of the shortest row: where parameters are sharded, each pass takes all processes to gather them."""
        return 0.0 * self._logprobs([int(np.argmin(self.batch.lengths))])[0].sum()

    def _add_gap(self, rows: list[int], logprobs: Tensor, mask: Tensor) -> None:
        """How far the sampler's log-probabilities are from those of the forward pass."""
        sampled = [torch.tensor(self.batch.rollouts[r].logprobs) for r in rows]
        sampled = torch.nn.utils.rnn.pad_sequence(sampled, batch_first=True).to(mask.device)  # [b, t]
        narrow = sampled.shape[1]  # 0 when every completion is empty: the mask is one wide then
        difference = (sampled - logprobs.detach()[:, :narrow]).abs()  # [b, t]
        self.sums.gap += float(difference[mask[:, :narrow]].sum())
        self.sums.gap_tokens += float(mask.sum())

    def _backward(self, rows: list[int], total: dict[str, int], *, first: bool) -> None:
        """Add one micro-batch's share of the gradient. `total` counts the whole minibatch; `first`: no weight has
        moved yet, so these log-probabilities are the old ones and the ratio is exactly 1."""
        if not rows:
            if self.policy.sharded:
                with attending(self.policy.causal_lm):
                    self._idle_pass().backward()
            return
        logprobs, entropy, mask = self._logprobs(rows)  # [b, t]
        width, method = mask.shape[1], self.method
        if first:
            self.old[rows, :width] = logprobs.detach().float()
            self._add_gap(rows, logprobs, mask)
        loss, stats = clipped_surrogate(
            logprobs,
            self.old[rows, :width],
            self.advantages[rows, :width].to(logprobs),
            mask,
            ratio=method.ratio,
            clip_low=method.clip_low,
            clip_high=method.clip_high,
        )
        weights = token_weights(mask, method.aggregation, **total)  # [b, t]
        objective = (loss * weights).sum()
        if self.reference is not None:
            divergence = kl_k3(logprobs, self.reference_logprobs[rows, :width], mask)  # [b, t]
            objective = objective + self.config.kl * (divergence * weights).sum()
            self.sums.kl += float(divergence.detach().sum())
        with attending(self.policy.causal_lm):  # layers that are recomputed need it again
            objective.backward()
        self.sums.loss += float(objective.detach())
        self.sums.tokens += float(stats["tokens"])
        self.sums.entropy += float(entropy.sum())
        self.sums.clipped_low += float(stats["clipped_low"])
        self.sums.clipped_high += float(stats["clipped_high"])


def clip_gradients(parameters: list[torch.nn.Parameter], limit: float) -> float:
    """Scale the gradient of all parameters together down to the length `limit`; returns its length before."""
    norm = whole(get_total_norm([p.grad for p in parameters if p.grad is not None]))
    clip_grads_with_norm_(parameters, limit, norm)
    return float(norm)


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
    processes: Processes = ALONE,
    between_passes: Callable[[], object] = lambda: None,
) -> dict[str, float]:
    """Run `inner_epochs` passes of `method.minibatches` optimizer steps each over one batch of rollouts.

    Shapes: advantages [B, T]. Old log-probabilities are those of the policy that sampled: taken from the first forward
    pass of the first minibatch, detached (its ratio is exactly 1), and before the weights move for all others.
    `before_weights_move` is called before each optimizer step: from there on a step can't be left half done.
    `between_passes` is called before each micro-batch, by every process alike; what it raises ends the update.
    Returns loss, entropy, KL, clip shares, gradient norm, optimizer steps, skipped ones, and the sampler gap: the mean
    absolute difference between the log-probabilities of the sampler and of the forward pass of the same weights.
    """
    passes = Update(
        policy,
        optimizer,
        method,
        batch,
        advantages,
        config,
        temperature,
        max_new_tokens,
        step,
        reference,
        processes,
        between_passes,
    )
    return passes.run(before_weights_move)
