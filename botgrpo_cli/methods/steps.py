"""Advantages from rewards of whole steps: process supervision (DeepSeekMath) and PURE.

Shapes and safety as in `advantages.py`. `steps [B, T]` numbers the step that each token belongs to, from left to
right (a line of code, a step of a proof); a number below the largest one so far, such as -1 for a special token,
counts as that largest one. A step's reward is the mean of its tokens' rewards.
"""

from __future__ import annotations

import torch
from torch import Tensor

from botgrpo_cli.methods.grouped import Grouped, inverse


@torch.no_grad()
def process_supervision(
    token_rewards: Tensor, mask: Tensor, group: Tensor, *, steps: Tensor, eps: float = 1e-6
) -> Tensor:
    """GRPO with process supervision (DeepSeekMath, arXiv 2402.03300, 4.1.3).

    All step rewards of a group in one pool, each counting once: n_kj = (r_kj - mean) / (std + eps), population std;
    A_kt = sum of n_kj over the steps j that end at or after t. Unlike the bag, a rollout with more steps weighs more,
    and so does an early token.

    Shapes: token_rewards, mask, steps [B, T], group [B], result [B, T]. ValueError when shapes don't fit.

    Steps of 3 and 1 in one rollout, of 2 in the other: mean 2, deviation sqrt(2/3) = 0.8165:

    >>> rewards = torch.tensor([[4.0, 2.0, 1.0], [2.0, 0.0, 0.0]])
    >>> mask = torch.tensor([[1, 1, 1], [1, 0, 0]])
    >>> steps = torch.tensor([[0, 0, 1], [0, 0, 0]])
    >>> process_supervision(rewards, mask, torch.tensor([5, 5]), steps=steps, eps=0.0)
    tensor([[ 0.0000,  0.0000, -1.2247],
            [ 0.0000,  0.0000,  0.0000]])
    """
    bag = Grouped.of(token_rewards, mask, group)
    number, _, pooled, present = _by_step(bag, bag.rewards, steps)  # [B, T], -, [B, S], [B, S]
    count = bag.by_group(present.sum(1)).clamp(min=1)  # [G]
    mean = (bag.by_group(pooled.sum(1)) / count)[bag.index]  # [B]
    centred = torch.where(present, pooled - mean[:, None], 0.0)  # [B, S]
    deviation = (bag.by_group(centred.square().sum(1)) / count)[bag.index].sqrt()  # [B]
    normalised = centred * inverse(deviation, mean.abs(), bag.rollouts[bag.index], eps)[:, None]  # [B, S]
    to_go = normalised.flip(1).cumsum(1).flip(1)  # [B, S], from each step to the last
    advantages = torch.where(bag.valid, to_go.gather(1, number), 0.0)  # [B, T]
    return advantages.to(token_rewards.device, torch.float32)


@torch.no_grad()
def softmin_credit(
    token_rewards: Tensor,
    mask: Tensor,
    group: Tensor,
    *,
    steps: Tensor,
    outcome: Tensor,
    eps: float = 1e-6,
    softmin_temperature: float = 0.1,
) -> Tensor:
    """PURE: credit by the worst step instead of the sum of steps (arXiv 2504.15275, 3 and appendix).

    With p_kj the local reward of step j (what `token_rewards` holds beyond `outcome`, as weighted by the recipe):

    1. r*_kj = softmax(-p_k / softmin_temperature)_j p_kj, on the last token of step j. Its sum is a soft minimum.
    2. Minus, on every token, the mean over the *other* scored rollouts of (sum_j r*_j / length), the true length.
    3. Plus, on the last token, R_k minus the mean R of the other scored rollouts of the group.
    4. The return: the sum from each token to the end, discount 1.
    5. Whitening over all tokens of the batch: (A - mean) / (std + eps), population std (our choice).

    Because of 2, equal rollouts get 0 only where their local rewards are 0; because of 5, other groups matter. A
    rollout that is alone in its group gets 0 and is left out of 5.

    Shapes: token_rewards, mask, steps [B, T], group [B], outcome [B] (R_k), result [B, T]. ValueError when shapes
    don't fit.

    Outcomes 1 and 0, no local reward: before whitening +1 on two tokens and -1 on one; mean 1/3, deviation 0.9428:

    >>> rewards, mask = torch.tensor([[1.0, 1.0], [0.0, 0.0]]), torch.tensor([[1, 1], [1, 0]])
    >>> same = torch.zeros(2, 2, dtype=torch.int64)
    >>> softmin_credit(rewards, mask, torch.tensor([0, 0]), steps=same, outcome=torch.tensor([1.0, 0.0]), eps=0.0)
    tensor([[ 0.7071,  0.7071],
            [-1.4142,  0.0000]])
    """
    bag = Grouped.of(token_rewards, mask, group)
    if outcome.shape != group.shape:
        raise ValueError(f"outcome is {tuple(outcome.shape)}; expected [B] = {tuple(group.shape)}.")
    scored = bag.lengths > 0  # [B]
    total = torch.where(scored, outcome.to(bag.rewards), 0.0)  # [B]
    local = torch.where(bag.valid, bag.rewards - total[:, None], 0.0)  # [B, T]
    # (R + local) - R leaves the rounding of R behind where there is no local reward; whitening would blow it up.
    rounding = 4 * torch.finfo(token_rewards.dtype).eps * total.abs()  # [B]
    local[local.abs() <= rounding[:, None]] = 0.0
    number, last, p, present = _by_step(bag, local, steps)  # [B, T], [B, T], [B, S], [B, S]
    weight = torch.softmax((-p / softmin_temperature).masked_fill(~present, -torch.inf), 1)  # [B, S], NaN in empty rows
    credit = torch.where(present, weight * p, 0.0)  # [B, S]
    rewards = torch.where(last, credit.gather(1, number), 0.0)  # [B, T]

    others = (bag.rollouts[bag.index] - 1).clamp(min=1)  # [B]
    rate = credit.sum(1) / bag.lengths.clamp(min=1)  # [B], soft minimum a token
    rewards = rewards - ((bag.by_group(rate)[bag.index] - rate) / others)[:, None]  # [B, T]
    gain = total - (bag.by_group(total)[bag.index] - total) / others  # [B]
    end = bag.valid & (bag.valid.flip(1).cumsum(1).flip(1) == 1)  # [B, T], the last token
    compared = bag.valid & (bag.rollouts[bag.index] > 1)[:, None]  # [B, T]
    rewards = torch.where(compared, rewards + torch.where(end, gain[:, None], 0.0), 0.0)  # [B, T]
    advantages = rewards.flip(1).cumsum(1).flip(1)  # [B, T]
    return _whiten(advantages, compared, eps).to(token_rewards.device, torch.float32)


def _by_step(bag: Grouped, values: Tensor, steps: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Tokens of a batch as steps, numbered densely from 0 in each row.

    Returns the step of each token [B, T], whether a token ends its step [B, T], the mean value of each step [B, S],
    and whether there is such a step [B, S].
    """
    if steps.shape != values.shape:
        raise ValueError(f"steps is {tuple(steps.shape)}; expected [B, T] = {tuple(values.shape)}.")
    lowest = torch.iinfo(torch.int64).min
    marks = steps.to(values.device, torch.int64).masked_fill(~bag.valid, lowest).cummax(1).values  # [B, T]
    first = bag.valid & (bag.valid.cumsum(1) == 1)  # [B, T]
    begins = bag.valid & (first | (marks != marks.roll(1, 1)))  # [B, T]
    number = (begins.cumsum(1) - 1).clamp(min=0)  # [B, T]
    width = int(number.max()) + 1 if number.numel() else 1
    zeros = values.new_zeros(len(values), width)  # [B, S]
    count = zeros.scatter_add(1, number, bag.valid.to(values))  # [B, S]
    sums = zeros.scatter_add(1, number, torch.where(bag.valid, values, 0.0))  # [B, S]
    place = torch.arange(values.shape[1], device=values.device).expand_as(number)  # [B, T]
    ends = number.new_full(zeros.shape, -1)  # [B, S]
    ends = ends.scatter_reduce(1, number, place.where(bag.valid, ends.new_tensor(-1)), "amax")
    last = bag.valid & (ends.gather(1, number) == place)  # [B, T]
    return number, last, sums / count.clamp(min=1), count > 0


def _whiten(values: Tensor, mask: Tensor, eps: float) -> Tensor:
    """Mean 0 and deviation 1 over all tokens where the mask is true; all 0 without spread. Shapes: [B, T]."""
    count = mask.sum().clamp(min=1)
    mean = torch.where(mask, values, 0.0).sum() / count
    centred = torch.where(mask, values - mean, 0.0)  # [B, T]
    deviation = (centred.square().sum() / count).sqrt()
    return centred * inverse(deviation, mean.abs(), torch.full_like(deviation, 2.0), eps)
