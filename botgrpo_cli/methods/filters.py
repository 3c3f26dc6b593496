"""What DAPO does to a batch before its advantages: groups without spread are replaced, long answers punished."""

from __future__ import annotations

import torch
from torch import Tensor

from botgrpo_cli.methods.grouped import Grouped, inverse, score_spread


@torch.no_grad()
def groups_with_spread(token_rewards: Tensor, mask: Tensor, group: Tensor) -> Tensor:
    """Whether the rollouts of each group differ in their score S_k = mean_t r_kt (dynamic sampling, DAPO 3.2).

    A group with fewer than two scored rollouts has no spread.

    Shapes: token_rewards [B, T], mask [B, T], group [B], result [G] bool in the order of the sorted group ids.

    >>> rewards = torch.tensor([[1.0, 1.0], [0.0, 2.0], [3.0, 0.0], [1.0, 1.0]])
    >>> groups_with_spread(rewards, torch.ones(4, 2), torch.tensor([4, 4, 2, 2]))
    tensor([ True, False])
    """
    bag = Grouped.of(token_rewards, mask, group)
    _, deviation, size = score_spread(bag)  # [B] each
    alive = inverse(deviation, size, bag.rollouts[bag.index], 1.0) > 0  # [B]
    return bag.by_group(alive.double()) > 0


def overlong_punishment(lengths: Tensor, *, limit: int, share: float) -> Tensor:
    """DAPO's soft overlong punishment (3.4): 0 up to `limit - cache` tokens, linear to -1 at `limit`.

    The cache is `share` of `limit` (DAPO: 4,096 of 20,480 tokens, 0.2). `share` 0 punishes nothing.

    Shapes: lengths [B], result [B] float64.

    >>> overlong_punishment(torch.tensor([70, 80, 90, 100]), limit=100, share=0.2)
    tensor([ 0.0000,  0.0000, -0.5000, -1.0000], dtype=torch.float64)
    """
    cache = share * limit
    if cache <= 0:
        return torch.zeros(lengths.shape, dtype=torch.float64)
    return -((lengths.double() - (limit - cache)) / cache).clamp(0.0, 1.0) + 0.0  # + 0.0: no minus zero
