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

from typing import Literal

import torch
from torch import Tensor

from botgrpo_cli.methods.filters import groups_with_spread
from botgrpo_cli.methods.grouped import Grouped, inverse, score_spread

Weights = Literal["inverse-length", "uniform"]
Credit = Literal["immediate", "to-go"]


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
    bag = Grouped.of(token_rewards, mask, group)
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
    scale = inverse(deviation, mean.abs(), bag.rollouts[bag.index], eps)  # [B]
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
    bag = Grouped.of(token_rewards, mask, group)
    centred, deviation, size = score_spread(bag)  # [B] each
    advantage = (centred * inverse(deviation, size, bag.rollouts[bag.index], eps)).float()  # [B]
    return torch.where(bag.valid, advantage[:, None], 0.0).to(token_rewards.device)  # [B, T]


@torch.no_grad()
def group_centred(token_rewards: Tensor, mask: Tensor, group: Tensor, *, eps: float = 1e-6) -> Tensor:
    """Dr. GRPO: the scalar of `group_relative` minus its group's mean, not divided (arXiv 2503.20783, 3.2).

    `eps` is not used: nothing is divided. Shapes and errors as in `group_relative`.

    Scores 4 and 2, mean 3:

    >>> rewards = torch.tensor([[8.0, 0.0], [2.0, float("nan")]])
    >>> mask = torch.tensor([[1, 1], [1, 0]])
    >>> group_centred(rewards, mask, torch.tensor([7, 7]))
    tensor([[ 1.,  1.],
            [-1.,  0.]])
    """
    bag = Grouped.of(token_rewards, mask, group)
    centred, deviation, size = score_spread(bag)  # [B] each
    spread = inverse(deviation, size, bag.rollouts[bag.index], 0.0) > 0  # [B], so that rounding is exactly 0
    advantage = torch.where(spread, centred, 0.0).float()  # [B]
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
    bag = Grouped.of(token_rewards, mask, group)
    groups = len(bag.rollouts)
    alive = groups_with_spread(token_rewards, mask, group)  # [G]
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


def _mean_to_go(rewards: Tensor, valid: Tensor) -> Tensor:
    """Mean of the rewards from each token on. Shapes: rewards [B, T] (0 where not valid), valid [B, T], result [B, T].

    >>> _mean_to_go(torch.tensor([[3.0, 0.0, 6.0]]), torch.tensor([[True, True, True]]))
    tensor([[3., 3., 6.]])
    """
    total = rewards.flip(1).cumsum(1).flip(1)  # [B, T]
    count = valid.flip(1).cumsum(1).flip(1)  # [B, T]
    return torch.where(valid, total / count.clamp(min=1), 0.0)
