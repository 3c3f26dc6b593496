"""From prompts to scored rollouts and the token rewards that every method sees."""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from botgrpo_cli.errors import RunError
from botgrpo_cli.methods.registry import Method
from botgrpo_cli.policy.decode import Decoder
from botgrpo_cli.policy.load import Policy
from botgrpo_cli.policy.sample import Rollout, sample_groups, stream
from botgrpo_cli.tasks.base import UNSCORED, Completion, Prompt, Scored, Task
from botgrpo_cli.training.processes import Processes

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
    counters: dict[str, float | None] = field(default_factory=dict)  # what scoring used, see `Task.counters`

    @property
    def lengths(self) -> list[int]:
        return [len(r.ids) for r in self.rollouts]

    def groups(self, keep: Sequence[bool]) -> Batch:
        """The groups for which `keep` says so, numbered from 0; timings stay those of the whole. `keep` has one entry
        a group, in order of the group ids."""
        rows = [k for k, g in enumerate(self.group.tolist()) if keep[g]]
        _, group = torch.unique(self.group[rows], return_inverse=True)
        return replace(
            self,
            prompts=[self.prompts[k] for k in rows],
            prompt_ids=[self.prompt_ids[k] for k in rows],
            rollouts=[self.rollouts[k] for k in rows],
            scored=[self.scored[k] for k in rows],
            group=group,
        )

    def join(self, other: Batch) -> Batch:
        """Both batches as one; the groups of `other` come after these."""
        after = int(self.group.max()) + 1 if len(self.group) else 0
        return Batch(
            self.prompts + other.prompts,
            self.prompt_ids + other.prompt_ids,
            self.rollouts + other.rollouts,
            self.scored + other.scored,
            torch.cat([self.group, other.group + after]),
            self.seconds_sample + other.seconds_sample,
            self.seconds_score + other.seconds_score,
            added(self.counters, other.counters),
        )


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
    encoded = [policy.encode(p) for p in prompts]
    total = len(prompts) * group_size
    futures: list[Future[Scored] | None] = [None] * total
    rollouts: list[Rollout] = []
    for first in range(0, len(prompts), max(1, MAX_ROWS // group_size)):
        part = range(first, min(len(prompts), first + max(1, MAX_ROWS // group_size)))

        def score(index: int, rollout: Rollout, first: int = first) -> None:
            prompt = prompts[first + rollout.prompt]
            pieces = policy.token_bytes.pieces(rollout.ids)
            futures[first * group_size + index] = task.submit(
                Completion(prompt, pieces, rollout.finished, tuple(rollout.ids))
            )

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
    task.gathered(step if isinstance(step, int) else None)
    sampled = time.perf_counter()
    scored = [future.result() for future in futures]
    for row, (said, rollout) in enumerate(zip(scored, rollouts, strict=True)):
        check_counts(task.name, prompts[row // group_size], said, len(rollout.ids))
    return Batch(
        prompts=[p for p in prompts for _ in range(group_size)],
        prompt_ids=[ids for ids in encoded for _ in range(group_size)],
        rollouts=rollouts,
        scored=scored,
        group=torch.arange(len(prompts)).repeat_interleave(group_size),
        seconds_sample=sampled - started,
        seconds_score=time.perf_counter() - sampled,
        counters=task.counters(),
    )


def added(mine: dict[str, float | None], other: dict[str, float | None]) -> dict[str, float | None]:
    """Counters of two parts of a batch: their sum, None (unknown) where one is; quantiles can't be added, so the larger
    one stands for both."""
    total: dict[str, float | None] = {}
    for key in mine.keys() | other.keys():
        known = [part[key] for part in (mine, other) if part.get(key) is not None]
        if re.search(r"_p\d+\Z", key):
            total[key] = max(known, default=None)
        else:
            total[key] = None if any(part.get(key, 0.0) is None for part in (mine, other)) else sum(known)
    return total


def collect_over(
    processes: Processes, prompts: Sequence[Prompt], collect: Callable[[Sequence[Prompt]], Batch]
) -> Batch:
    """The rollouts of all prompts, in their order and on every process; each collects its block of whole groups.

    A rollout's randomness is its own, so they are those that one process alone would have collected.
    """
    if processes.alone:
        return collect(prompts)
    part = None
    with processes.agreed():
        if mine := processes.block(prompts):
            part = collect(mine)
    parts = [p for p in processes.gather(part) if p is not None]
    return replace(
        functools.reduce(Batch.join, parts),
        seconds_sample=max(p.seconds_sample for p in parts),
        seconds_score=max(p.seconds_score for p in parts),
    )


@dataclass(frozen=True)
class Rewards:
    """What every method sees of a batch."""

    tokens: Tensor  # [B, T] r_kt = R_k + local_weight * local_kt
    mask: Tensor  # [B, T]
    group: Tensor  # [B]
    outcome: Tensor  # [B] R_k
    steps: Tensor  # [B, T] step of each token, see methods/steps.py

    def advantages(self, method: Method) -> Tensor:
        """Shape: [B, T]."""
        return method.compute(self.tokens, self.mask, self.group, steps=self.steps, outcome=self.outcome)


def token_rewards(batch: Batch, local_weight: float, *, punishment: Tensor | None = None) -> Rewards:
    """Token rewards r_kt = R_k + local_weight * local_kt, with `punishment` [B] added to the global rewards R_k.

    The global reward of a rollout is broadcast to all its tokens (paper, Method): put on the last token alone it
    would enter the bag's mean divided by the length. NaN where the rollout could not be scored.
    """
    lengths = torch.tensor(batch.lengths)
    mask = torch.arange(max(1, int(lengths.max()))) < lengths[:, None]  # [B, T]
    outcome = torch.tensor([scored.reward for scored in batch.scored], dtype=torch.float64)  # [B]
    if punishment is not None:
        outcome = outcome + punishment
    tokens = torch.zeros(mask.shape, dtype=torch.float64)
    steps = torch.zeros(mask.shape, dtype=torch.int64)
    for k, (scored, length) in enumerate(zip(batch.scored, batch.lengths, strict=True)):
        tokens[k, :length] = outcome[k] + local_weight * torch.tensor(scored.local, dtype=torch.float64)
        if scored.steps is not None:
            steps[k, :length] = torch.tensor(scored.steps, dtype=torch.int64)
    return Rewards(tokens, mask, batch.group, outcome, steps)


def check_counts(task: str, prompt: Prompt, scored: Scored, tokens: int) -> None:
    """Every token has its local reward, and its step where there are steps.

    Raises:
        RunError: names the task, the prompt and the numbers.
    """
    for what, values in (("local rewards", scored.local), ("steps", scored.steps)):
        if values is not None and len(values) != tokens:
            raise RunError(
                f"The task '{task}' returned {len(values)} {what} for a rollout of {tokens} tokens (prompt "
                f"'{prompt.id}'); expected one a token."
            )


def unscored(batch: Batch) -> list[str]:
    """Why rollouts of the batch could not be scored, each reason once; empty when all were."""
    return list(dict.fromkeys(reason for scored in batch.scored for reason in scored.detail.get(UNSCORED, ())))


def facts(scored: Scored) -> dict[str, float]:
    """What is logged of one rollout: the task's facts, every reward term alone, the reward."""
    return {
        **scored.metrics,
        **{f"term_{name}": value for name, value in scored.terms.items()},
        "reward": scored.reward,
    }


def summarise(batch: Batch) -> dict[str, float]:
    """Means over the rollouts: every fact of the task, every reward term alone, the reward, the local signal; then
    what scoring used, as it is."""
    rows: dict[str, list[float]] = {}
    for scored in batch.scored:
        values = facts(scored)
        if scored.local:
            values["local_mean"] = sum(scored.local) / len(scored.local)
        for key, value in values.items():
            rows.setdefault(key, []).append(value)
    means = {
        key: float(np.nanmean(values)) if not np.all(np.isnan(values)) else float("nan") for key, values in rows.items()
    }
    return means | {key: float("nan") if value is None else float(value) for key, value in batch.counters.items()}
