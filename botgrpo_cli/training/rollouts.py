"""From prompts to scored rollouts and the token rewards that every method sees."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from botgrpo_cli.policy.decode import Decoder
from botgrpo_cli.policy.load import Policy
from botgrpo_cli.policy.sample import Rollout, sample_groups, stream
from botgrpo_cli.tasks.base import Completion, Prompt, Scored, Task

MAX_ROWS = 256  # rows decoded at once: bounds the KV cache when many held-out prompts are evaluated


@dataclass
class Batch:
    """Rollouts of one step with what the task says of them; the group of a prompt stands side by side."""

    prompts: list[Prompt]  # [B] prompt of each rollout
    prompt_ids: list[list[int]]  # [B]
    rollouts: list[Rollout]  # [B]
    scored: list[Scored]  # [B]
    group: Tensor  # [B] group ids
    seconds_sample: float
    seconds_score: float  # time spent waiting after the last rollout: the rest overlapped with sampling

    @property
    def lengths(self) -> list[int]:
        return [len(r.ids) for r in self.rollouts]


def collect(
    policy: Policy,
    decoder: Decoder,
    task: Task,
    prompts: Sequence[Prompt],
    *,
    group_size: int,
    max_new_tokens: int,
    temperature: float,
    seed: int,
    step: int | str,
) -> Batch:
    """Sample `group_size` rollouts a prompt and have the task score each as soon as it is complete."""
    started = time.perf_counter()
    encoded = [policy.encode(p.text) for p in prompts]
    total = len(prompts) * group_size
    futures: list[Future[Scored] | None] = [None] * total
    rollouts: list[Rollout] = []
    for first in range(0, len(prompts), max(1, MAX_ROWS // group_size)):
        part = range(first, min(len(prompts), first + max(1, MAX_ROWS // group_size)))

        def score(index: int, rollout: Rollout, first: int = first) -> None:
            prompt = prompts[first + rollout.prompt]
            pieces = policy.token_bytes.pieces(rollout.ids)
            futures[first * group_size + index] = task.submit(Completion(prompt, pieces, rollout.finished))

        uniforms = np.stack(
            [stream(seed, step, prompts[i].id, k, max_new_tokens) for i in part for k in range(group_size)]
        )  # [rows, T]
        rollouts += sample_groups(
            policy,
            decoder,
            [encoded[i] for i in part],
            uniforms,
            group_size=group_size,
            max_new_tokens=max_new_tokens,
            temperature=temperature,
            on_finished=score,
        )
    sampled = time.perf_counter()
    scored = [future.result() for future in futures]
    return Batch(
        prompts=[p for p in prompts for _ in range(group_size)],
        prompt_ids=[ids for ids in encoded for _ in range(group_size)],
        rollouts=rollouts,
        scored=scored,
        group=torch.arange(len(prompts)).repeat_interleave(group_size),
        seconds_sample=sampled - started,
        seconds_score=time.perf_counter() - sampled,
    )


def token_rewards(batch: Batch, local_weight: float) -> tuple[Tensor, Tensor]:
    """(rewards [B, T], mask [B, T]): r_kt = R_k + local_weight * local_kt.

    The global reward of a rollout is broadcast to all its tokens (paper, Method): put on the last token alone it
    would enter the bag's mean divided by the length. NaN where the rollout could not be scored.
    """
    lengths = torch.tensor(batch.lengths)
    mask = torch.arange(max(1, int(lengths.max()))) < lengths[:, None]  # [B, T]
    rewards = torch.zeros(mask.shape, dtype=torch.float64)
    for row, scored, length in zip(rewards, batch.scored, batch.lengths, strict=True):
        row[:length] = scored.reward + local_weight * torch.tensor(scored.local, dtype=torch.float64)
    return rewards, mask


def facts(scored: Scored) -> dict[str, float]:
    """What is logged of one rollout: the task's facts, every reward term alone, the reward."""
    return {
        **scored.metrics,
        **{f"term_{name}": value for name, value in scored.terms.items()},
        "reward": scored.reward,
    }


def summarise(batch: Batch) -> dict[str, float]:
    """Means over the rollouts: every fact of the task, every reward term alone, the reward, the local signal."""
    rows: dict[str, list[float]] = {}
    for scored in batch.scored:
        values = facts(scored)
        if scored.local:
            values["local_mean"] = sum(scored.local) / len(scored.local)
        for key, value in values.items():
            rows.setdefault(key, []).append(value)
    return {
        key: float(np.nanmean(values)) if not np.all(np.isnan(values)) else float("nan") for key, values in rows.items()
    }
