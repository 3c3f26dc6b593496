"""The sampler: one prefill a prompt, its cache expanded to the group, finished rows leave the batch.

The randomness of a rollout depends on (seed, step, prompt, rollout) alone, not on what else is in the batch, so a
run can be resumed at any step and members of a group differ.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from botgrpo_cli.policy.decode import Decoder, left_pad
from botgrpo_cli.policy.load import Policy

COMPACT_AT = 0.85  # copy the cache once fewer than this share of its rows is still running


@dataclass(frozen=True)
class Rollout:
    """One sampled completion. The ids are the truth: nothing here was decoded and encoded again."""

    prompt: int  # index into the prompts that were passed
    ids: list[int]  # [L], the end token included
    logprobs: list[float]  # [L] under the sampling distribution
    finished: bool  # an end token was sampled; False: truncated at max_new_tokens


def stream(seed: int, step: int | str, prompt: str, rollout: int, length: int) -> np.ndarray:
    """[length] uniform numbers in [0, 1) that belong to this rollout alone."""
    key = hashlib.sha256(f"{seed}|{step}|{prompt}|{rollout}".encode()).digest()
    generator = np.random.Generator(np.random.Philox(key=int.from_bytes(key[:16], "little")))
    return generator.random(length)


@torch.no_grad()
def sample_groups(
    policy: Policy,
    decoder: Decoder,
    prompts: Sequence[Sequence[int]],
    uniforms: np.ndarray,
    *,
    group_size: int,
    max_new_tokens: int,
    temperature: float,
    on_finished: Callable[[int, Rollout], None] | None = None,
) -> list[Rollout]:
    """Sample `group_size` rollouts a prompt from softmax(logits / temperature), top-k and top-p off.

    Shapes:
        prompts: P lists of ids; uniforms: [P * group_size, max_new_tokens] from `stream`.
        Returns P * group_size rollouts, the group of a prompt side by side.

    `on_finished(index, rollout)` is called as soon as a rollout is complete, so that scoring overlaps.
    """
    device = policy.device
    total = len(prompts) * group_size
    tokens = torch.zeros((total, max_new_tokens), dtype=torch.long, device=device)  # [R, T]
    logprobs = torch.zeros((total, max_new_tokens), device=device)  # [R, T]
    draws = torch.from_numpy(uniforms).to(device, torch.float64)  # [R, T]
    rollouts: list[Rollout | None] = [None] * total

    def close(index: int, length: int, finished: bool) -> None:
        ids, lp = tokens[index, :length].tolist(), logprobs[index, :length].tolist()
        rollouts[index] = Rollout(index // group_size, ids, lp, finished)
        if on_finished is not None:
            on_finished(index, rollouts[index])

    with decoder.sampling():
        ids, attention = left_pad(prompts, policy.pad_id, device)
        logits = decoder.prefill(ids, attention, max_new_tokens)  # [P, V]
        decoder.expand(group_size)
        logits = logits.repeat_interleave(group_size, 0)  # [R, V]
        ends = torch.zeros(logits.shape[-1], dtype=torch.bool, device=device)
        ends[[i for i in policy.eos_ids if i < len(ends)]] = True
        rows = torch.arange(total, device=device)  # [B] rollout of each row in the batch
        running = torch.ones(total, dtype=torch.bool, device=device)  # [B]
        for t in range(max_new_tokens):
            chosen, lp = draw(logits / temperature, draws[rows, t])  # [B], [B]
            tokens[rows, t] = chosen
            logprobs[rows, t] = lp
            stopped = running & ends[chosen]  # [B]
            if bool(stopped.any()):
                for index in rows[stopped].tolist():
                    close(index, t + 1, True)
                running &= ~stopped
                alive = int(running.sum())
                if alive == 0:
                    break
                if alive < COMPACT_AT * len(rows):
                    kept = running.nonzero().squeeze(-1)
                    decoder.keep(kept)
                    rows, chosen = rows[kept], chosen[kept]
                    running = torch.ones_like(rows, dtype=torch.bool)
            if t + 1 < max_new_tokens:
                logits = decoder.step(chosen)
    for index in range(total):
        if rollouts[index] is None:
            close(index, max_new_tokens, False)
    return rollouts


def draw(logits: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
    """Inverse-CDF sampling, one uniform a row.

    Shapes: logits [B, V], uniform [B] in [0, 1) -> ids [B], log-probabilities [B].
    The sum runs in float64: over 50,000 float32 terms the tail would be lost.
    """
    log_p = torch.log_softmax(logits, -1)  # [B, V]
    cdf = log_p.exp().cumsum(-1, dtype=torch.float64)  # [B, V]
    # right=True: the first id whose cumulated mass exceeds u, so an id of probability 0 is never drawn
    ids = torch.searchsorted(cdf, uniform[:, None] * cdf[:, -1:], right=True).clamp_(max=logits.shape[-1] - 1)
    return ids.squeeze(-1), log_p.gather(-1, ids).squeeze(-1)
