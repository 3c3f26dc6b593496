"""Advantages: from the token rewards of a batch of rollouts to one number a token.

Pure functions of tensors. B completions, T tokens; `mask [B, T]` is 1 on completion tokens (EOS included, padding
excluded); `group [B]` is the id of the prompt that a rollout answers, in any order and with any values.

Token rewards are `r_kt = R_k + w_local * local_kt`: the global reward R_k of a rollout is *broadcast* to all its
tokens (paper, Method). Put on the last token alone it would enter every mean below as R_k / L_k.

What holds for every function here:

- Values where the mask is 0 never matter; they may be NaN.
- A rollout with a non-finite reward on one of its tokens could not be scored. It leaves the statistics of its group
  and gets advantage 0. An empty completion leaves them too.
- A group without spread, or with fewer than two rollouts left, gets exactly 0.
- Sums run in float64 and the variance is a second pass over centred rewards; results are float32, on the device of
  the rewards, and 0 where the mask is 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

Weights = Literal["inverse-length", "uniform"]
Credit = Literal["immediate", "to-go"]

# A spread below this share of the rewards' size is rounding of long sums (float64: 2e-16 each), not a difference.
_ROUNDING = 1e-10


@torch.no_grad()
def bag_of_tokens(
    token_rewards: Tensor,
    mask: Tensor,
    group: Tensor,
    *,
    eps: float = 1e-6,
    weights: Weights = "inverse-length",
    credit: Credit = "immediate",
) -> Tensor:
    """BoT-GRPO: normalise each token against the weighted bag of all tokens of its group (paper, Method).

    With w_kt = 1/L_k, so that each rollout counts equally whatever its length:
    mu = sum(w r) / sum(w), sigma^2 = sum(w (r - mu)^2) / sum(w), A_kt = (r_kt - mu) / (sigma + eps).

    Our choices, for ablations: `weights="uniform"` lets each token count equally; `credit="to-go"` replaces a token's
    reward by the mean of the rewards from that token to the end of its rollout (so a reward that is constant within
    a rollout is unchanged), `"immediate"` keeps the token's own reward. A lone rollout gets 0: it has nothing to be
    compared with.

    Shapes: token_rewards [B, T], mask [B, T], group [B], result [B, T]. ValueError when shapes or words are wrong.

    Two rollouts of one group, of 2 tokens and 1. Row means 4 and 2, so mu = 3; the bag's variance is
    ((25 + 9) / 2 + 1) / 2 = 9, so sigma = 3:

    >>> rewards = torch.tensor([[8.0, 0.0], [2.0, float("nan")]])
    >>> mask = torch.tensor([[1, 1], [1, 0]])
    >>> bag_of_tokens(rewards, mask, torch.tensor([7, 7]), eps=0.0)
    tensor([[ 1.6667, -1.0000],
            [-0.3333,  0.0000]])
    """
    bag = _Bag.of(token_rewards, mask, group)
    if credit == "to-go":
        bag.rewards = _mean_to_go(bag.rewards, bag.valid)  # [B, T]
    elif credit != "immediate":
        raise ValueError(f"credit is {credit!r}; expected 'immediate' or 'to-go'.")
    if weights == "inverse-length":
        weight = 1.0 / bag.lengths.clamp(min=1)  # [B], of each token of the rollout
    elif weights == "uniform":
        weight = torch.ones_like(bag.lengths)  # [B]
    else:
        raise ValueError(f"weights is {weights!r}; expected 'inverse-length' or 'uniform'.")

    total = bag.by_group(weight * bag.lengths).clamp(min=1e-300)  # [G], sum of the weights; 0 only in empty groups
    mean = (bag.by_group(weight * bag.rewards.sum(1)) / total)[bag.index]  # [B]
    centred = bag.rewards.sub_(mean[:, None]).masked_fill_(~bag.valid, 0.0)  # [B, T]
    squares = torch.linalg.vector_norm(centred, dim=1).square()  # [B]
    deviation = (bag.by_group(weight * squares) / total)[bag.index].sqrt()  # [B]
    scale = _inverse(deviation, mean.abs(), bag.rollouts[bag.index], eps)  # [B]
    return centred.mul_(scale[:, None]).to(token_rewards.device, torch.float32)  # [B, T]


@torch.no_grad()
def group_relative(token_rewards: Tensor, mask: Tensor, group: Tensor, *, eps: float = 1e-6) -> Tensor:
    """GRPO: one scalar a rollout, normalised within its group and broadcast (DeepSeekMath, 4.1; paper, Method).

    The scalar is S_k = mean_t r_kt = R_k + w_local * mean_t local_kt, the same information that the bag sees;
    A_k = (S_k - mean S) / (std S + eps) with the population standard deviation.

    Shapes: token_rewards [B, T], mask [B, T], group [B], result [B, T]. ValueError when shapes don't fit.

    Scores 4 and 2, mean 3, standard deviation 1:

    >>> rewards = torch.tensor([[8.0, 0.0], [2.0, float("nan")]])
    >>> mask = torch.tensor([[1, 1], [1, 0]])
    >>> group_relative(rewards, mask, torch.tensor([7, 7]), eps=0.0)
    tensor([[ 1.,  1.],
            [-1.,  0.]])
    """
    bag = _Bag.of(token_rewards, mask, group)
    centred, deviation, size = _score_spread(bag)  # [B] each
    advantage = (centred * _inverse(deviation, size, bag.rollouts[bag.index], eps)).float()  # [B]
    return torch.where(bag.valid, advantage[:, None], 0.0).to(token_rewards.device)  # [B, T]


@torch.no_grad()
def group_statistics(token_rewards: Tensor, mask: Tensor, group: Tensor) -> dict[str, float]:
    """What a batch has to learn from, for the logs.

    `zero_spread`: share of groups whose rollouts all have the same score S_k (GRPO learns nothing from them);
    `zero_spread_tokens`: share of groups whose *tokens* all have the same reward (the bag learns nothing either);
    groups with fewer than two scored rollouts count in both. `unscored`: rollouts with a non-finite reward;
    `empty`: rollouts without a token; `groups`: number of groups.

    Shapes: token_rewards [B, T], mask [B, T], group [B]. ValueError when shapes don't fit.

    >>> rewards = torch.tensor([[1.0, 1.0], [0.0, 2.0], [float("nan"), 0.0], [1.0, 1.0]])
    >>> group_statistics(rewards, torch.ones(4, 2), torch.tensor([0, 0, 0, 1]))
    {'zero_spread': 1.0, 'zero_spread_tokens': 0.5, 'unscored': 1.0, 'empty': 0.0, 'groups': 2.0}
    """
    bag = _Bag.of(token_rewards, mask, group)
    scale = _inverse(*_score_spread(bag)[1:], bag.rollouts[bag.index], 1.0)  # [B], 0 without spread
    groups = len(bag.rollouts)
    alive = bag.by_group((scale > 0).double()) > 0  # [G]
    tokens = bag_of_tokens(token_rewards, mask, group)  # [B, T]
    tokens_alive = bag.by_group((tokens != 0).any(1).to(bag.rewards.device, torch.float64)) > 0  # [G]
    scored = bag.by_group(bag.lengths > 0).sum().item()
    empty = (~mask.bool()).all(1).sum().item()
    return {
        "zero_spread": 1.0 - alive.sum().item() / groups if groups else 0.0,
        "zero_spread_tokens": 1.0 - tokens_alive.sum().item() / groups if groups else 0.0,
        "unscored": float(len(group) - empty - scored),
        "empty": float(empty),
        "groups": float(groups),
    }


@dataclass
class _Bag:
    """A batch made safe: float64, zero where nothing counts, unscored rollouts taken out."""

    rewards: Tensor  # [B, T] float64, 0 where not valid
    valid: Tensor  # [B, T] bool, completion tokens of scored rollouts
    lengths: Tensor  # [B] float64, 0 for rollouts that are left out
    index: Tensor  # [B] int64, group of each rollout as 0..G-1
    rollouts: Tensor  # [G] float64, rollouts that count

    @classmethod
    def of(cls, token_rewards: Tensor, mask: Tensor, group: Tensor) -> _Bag:
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


def _score_spread(bag: _Bag) -> tuple[Tensor, Tensor, Tensor]:
    """Centred scores, their deviation in the group, and the size of the group's rewards. Shapes: [B] each."""
    present = (bag.lengths > 0).double()  # [B]
    lengths, rollouts = bag.lengths.clamp(min=1), bag.rollouts.clamp(min=1)
    score = bag.rewards.sum(1) / lengths  # [B]
    size = (bag.by_group(torch.linalg.vector_norm(bag.rewards, ord=1, dim=1) / lengths) / rollouts)[bag.index]  # [B]
    centred = (score - (bag.by_group(score) / rollouts)[bag.index]) * present  # [B]
    deviation = (bag.by_group(centred.square()) / rollouts)[bag.index].sqrt()  # [B]
    return centred, deviation, size


def _inverse(deviation: Tensor, size: Tensor, rollouts: Tensor, eps: float) -> Tensor:
    """1 / (deviation + eps), and exactly 0 without spread or with a lone rollout. Shapes: [B] each."""
    spread = (deviation > _ROUNDING * size) & (rollouts > 1)  # [B]
    return torch.where(spread, 1.0 / (deviation + eps).clamp(min=1e-300), 0.0)


def _mean_to_go(rewards: Tensor, valid: Tensor) -> Tensor:
    """Mean of the rewards from each token on. Shapes: rewards [B, T] (0 where not valid), valid [B, T], result [B, T].

    >>> _mean_to_go(torch.tensor([[3.0, 0.0, 6.0]]), torch.tensor([[True, True, True]]))
    tensor([[3., 3., 6.]])
    """
    total = rewards.flip(1).cumsum(1).flip(1)  # [B, T]
    count = valid.flip(1).cumsum(1).flip(1)  # [B, T]
    return torch.where(valid, total / count.clamp(min=1), 0.0)
