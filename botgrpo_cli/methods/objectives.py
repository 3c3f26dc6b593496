"""Objectives: from log-probabilities and advantages to a loss a token, and the weights that make it one number.

Pure functions of tensors. B completions, T tokens; `mask [B, T]` is 1 on completion tokens. The mask is applied with
`torch.where` before any `exp`, so whatever stands at padded positions reaches neither the loss nor a gradient.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

Ratio = Literal["token", "sequence"]
Aggregation = Literal["sequence-mean", "token-mean", "constant"]

# e^20 is 5e8: far outside any clip range, and still finite when multiplied and summed.
_LOG_LIMIT = 20.0


def clipped_surrogate(
    logprobs: Tensor,
    old_logprobs: Tensor,
    advantages: Tensor,
    mask: Tensor,
    *,
    ratio: Ratio = "token",
    clip_low: float,
    clip_high: float,
) -> tuple[Tensor, dict[str, Tensor]]:
    """The clipped policy-gradient loss of each token: -min(s A, clip(s, 1 - clip_low, 1 + clip_high) A).

    `ratio="token"`: s_kt = exp(new_kt - old_kt) (PPO, GRPO). `ratio="sequence"`: s_k = exp of the mean log-ratio of
    the rollout (GSPO), written as `lp - stop(lp) + stop(log s)` in the exponent: every token has the value s_k and
    its own gradient, so advantages may differ from token to token. Log-ratios are clamped to +-20 (our choice);
    beyond that a token has a finite loss and no gradient.

    Returns the loss, 0 where the mask is 0, and sums that add up over micro-batches: `tokens`, `clipped_low` and
    `clipped_high` (tokens whose gradient is cut, on each side) and `ratio` (sum of the ratios).

    Shapes: all inputs [B, T], loss [B, T] float32, each statistic a scalar. `old_logprobs` and `advantages` get no
    gradient. ValueError for another `ratio`.

    A ratio of 2 is clipped to 1.2 where the advantage is positive, and counts in full where it is negative:

    >>> new, old = torch.tensor([[2.0, 2.0]]).log(), torch.zeros(1, 2)
    >>> loss, stats = clipped_surrogate(
    ...     new, old, torch.tensor([[1.0, -1.0]]), torch.ones(1, 2), clip_low=0.2, clip_high=0.2)
    >>> loss
    tensor([[-1.2000,  2.0000]])
    >>> stats["clipped_high"].item(), stats["clipped_low"].item(), stats["tokens"].item()
    (1.0, 0.0, 2.0)
    """
    mask = mask.bool()  # [B, T]
    new = logprobs.float()  # [B, T]
    advantage = torch.where(mask, advantages.detach().float(), 0.0)  # [B, T]
    log_ratio = torch.where(mask, new - old_logprobs.detach().float(), 0.0)  # [B, T]
    if ratio == "sequence":
        mean = log_ratio.detach().sum(1, keepdim=True) / mask.sum(1, keepdim=True).clamp(min=1)  # [B, 1]
        log_ratio = torch.where(mask, new - new.detach() + mean, 0.0)  # [B, T]
    elif ratio != "token":
        raise ValueError(f"ratio is {ratio!r}; expected 'token' or 'sequence'.")
    s = log_ratio.clamp(-_LOG_LIMIT, _LOG_LIMIT).exp()  # [B, T]
    clipped = s.clamp(1.0 - clip_low, 1.0 + clip_high)  # [B, T]
    loss = -torch.minimum(s * advantage, clipped * advantage)  # [B, T]
    with torch.no_grad():
        stats = {
            "tokens": mask.sum().float(),
            "clipped_low": ((s < 1.0 - clip_low) & (advantage < 0)).sum().float(),
            "clipped_high": ((s > 1.0 + clip_high) & (advantage > 0)).sum().float(),
            "ratio": torch.where(mask, s, 0.0).sum(),
        }
    return loss, stats


def token_weights(mask: Tensor, aggregation: Aggregation, *, completions: int, tokens: int, max_length: int) -> Tensor:
    """The weight of each token's loss, so that the batch loss is `(loss * weights).sum()`, summed over micro-batches.

    `completions` (non-empty ones) and `tokens` are those of the *whole* batch over all processes: the sum then
    depends neither on how the batch is cut nor on padding. `max_length` is the sampler's token limit.

    `"sequence-mean"`: 1 / (completions * L_k), the mean over completions of the mean over tokens (GRPO).
    `"token-mean"`: 1 / tokens (DAPO). `"constant"`: 1 / (completions * max_length) (Dr. GRPO).

    Shapes: mask [B, T], result [B, T] float32, 0 where the mask is 0. ValueError for another `aggregation`.

    >>> mask = torch.tensor([[1, 1], [1, 0]])
    >>> token_weights(mask, "sequence-mean", completions=2, tokens=3, max_length=4)
    tensor([[0.2500, 0.2500],
            [0.5000, 0.0000]])
    >>> token_weights(mask, "constant", completions=2, tokens=3, max_length=4)
    tensor([[0.1250, 0.1250],
            [0.1250, 0.0000]])
    """
    valid = mask.bool()  # [B, T]
    if aggregation == "sequence-mean":
        divisor = max(completions, 1) * valid.sum(1, keepdim=True).clamp(min=1).float()  # [B, 1]
        return valid / divisor  # [B, T]
    if aggregation == "token-mean":
        return valid.float() / max(tokens, 1)  # [B, T]
    if aggregation == "constant":
        return valid.float() / (max(completions, 1) * max(max_length, 1))  # [B, T]
    raise ValueError(f"aggregation is {aggregation!r}; expected 'sequence-mean', 'token-mean' or 'constant'.")


def kl_k3(logprobs: Tensor, reference_logprobs: Tensor, mask: Tensor) -> Tensor:
    """The k3 estimate of KL(policy || reference) at each token: e^d - d - 1 with d = reference - new, never negative.

    It is added to the loss with its coefficient; in the reward it would enter the bag. d is clamped to +-20.

    Shapes: all inputs [B, T], result [B, T] float32, 0 where the mask is 0.

    >>> kl_k3(torch.tensor([[0.5, 1.0]]).log(), torch.tensor([[1.0, 1.0]]).log(), torch.ones(1, 2))
    tensor([[0.3069, 0.0000]])
    """
    difference = reference_logprobs.detach().float() - logprobs.float()  # [B, T]
    d = torch.where(mask.bool(), difference, 0.0).clamp(-_LOG_LIMIT, _LOG_LIMIT)  # [B, T]
    return d.expm1() - d
