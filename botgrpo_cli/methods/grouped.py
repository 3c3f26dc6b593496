"""What every advantage function starts from: a batch made safe, sums by group, and an inverse that knows zero."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

# A spread below this share of the rewards' size is rounding of long sums (float64: 2e-16 each), not a difference.
ROUNDING = 1e-10


@dataclass
class Grouped:
    """A batch made safe: float64, zero where nothing counts, unscored rollouts taken out."""

    rewards: Tensor  # [B, T] float64, 0 where not valid
    valid: Tensor  # [B, T] bool, completion tokens of scored rollouts
    lengths: Tensor  # [B] float64, 0 for rollouts that are left out
    index: Tensor  # [B] int64, group of each rollout as 0..G-1
    rollouts: Tensor  # [G] float64, rollouts that count

    @classmethod
    def of(cls, token_rewards: Tensor, mask: Tensor, group: Tensor) -> Grouped:
        if token_rewards.dim() != 2 or mask.shape != token_rewards.shape or group.shape != token_rewards.shape[:1]:
            raise ValueError(
                f"token_rewards is {tuple(token_rewards.shape)}, mask {tuple(mask.shape)}, group {tuple(group.shape)}; "
                "expected [B, T], [B, T] and [B]."
            )
        device = "cpu" if token_rewards.device.type == "mps" else token_rewards.device  # mps has no float64
        valid = mask.to(device).bool()  # [B, T]
        rewards = token_rewards.to(device, torch.float64, copy=True).masked_fill_(~valid, 0.0)  # [B, T]
        scored = rewards.sum(1).isfinite()  # [B]
        if not scored.all():
            valid = valid & scored[:, None]  # [B, T]
            rewards.masked_fill_(~scored[:, None], 0.0)
        lengths = valid.float().sum(1).double()  # [B], exact up to 2^24 tokens and much faster than a sum of bools
        ids, index = torch.unique(group.to(device), return_inverse=True)  # [G], [B]
        bag = cls(rewards, valid, lengths, index, torch.zeros(len(ids), dtype=torch.float64, device=device))
        bag.rollouts = bag.by_group(lengths > 0)
        return bag

    def by_group(self, values: Tensor) -> Tensor:
        """Sums over the rollouts of each group. Shapes: values [B], result [G]."""
        return torch.zeros_like(self.rollouts).index_add_(0, self.index, values.double())


def score_spread(bag: Grouped) -> tuple[Tensor, Tensor, Tensor]:
    """Centred scores, their deviation in the group, and the size of the group's rewards. Shapes: [B] each."""
    present = (bag.lengths > 0).double()  # [B]
    lengths, rollouts = bag.lengths.clamp(min=1), bag.rollouts.clamp(min=1)
    score = bag.rewards.sum(1) / lengths  # [B]
    size = (bag.by_group(torch.linalg.vector_norm(bag.rewards, ord=1, dim=1) / lengths) / rollouts)[bag.index]  # [B]
    centred = (score - (bag.by_group(score) / rollouts)[bag.index]) * present  # [B]
    deviation = (bag.by_group(centred.square()) / rollouts)[bag.index].sqrt()  # [B]
    return centred, deviation, size


def inverse(deviation: Tensor, size: Tensor, rollouts: Tensor, eps: float) -> Tensor:
    """1 / (deviation + eps), and exactly 0 without spread or with a lone rollout. Shapes: [B] each."""
    spread = (deviation > ROUNDING * size) & (rollouts > 1)  # [B]
    return torch.where(spread, 1.0 / (deviation + eps).clamp(min=1e-300), 0.0)
