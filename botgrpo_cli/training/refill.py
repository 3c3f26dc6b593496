"""The rollouts of a training step, with groups that can teach nothing replaced where the method wants it (DAPO)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch

from botgrpo_cli.errors import RunError
from botgrpo_cli.methods.filters import groups_with_spread, overlong_punishment
from botgrpo_cli.methods.registry import Method
from botgrpo_cli.recipe.schema import Recipe
from botgrpo_cli.tasks.base import Prompt
from botgrpo_cli.training.batches import prompts_of_step
from botgrpo_cli.training.rollouts import Batch, Rewards, token_rewards

Collect = Callable[[list[Prompt]], Batch]


def rewards_of(batch: Batch, method: Method, recipe: Recipe) -> Rewards:
    """Token rewards as the method sees them: with its punishment of long rollouts, if it has one."""
    punishment = None
    if method.overlong > 0:
        limit = recipe.sampling.max_new_tokens
        punishment = overlong_punishment(torch.tensor(batch.lengths), limit=limit, share=method.overlong)  # [B]
    return token_rewards(batch, recipe.method.local_weight, punishment=punishment)


def collect_step(
    prompts: Sequence[Prompt], method: Method, recipe: Recipe, *, step: int, collect: Collect
) -> tuple[Batch, dict[str, float]]:
    """The step's rollouts; groups without spread give way to those of other prompts, up to `method.refills` times.

    Deterministic in (seed, step). Returns the batch and, for a method that refills, how often it did and how many
    groups it dropped.
    Raises:
        RunError: too few groups with spread after the last refill, or no prompts are left.
    """
    count, seed = recipe.sampling.prompts, recipe.training.seed
    chosen = prompts_of_step(prompts, count=count, seed=seed, step=step)
    batch = collect(chosen)
    if not method.refills:
        return batch, {}
    order = np.random.default_rng([seed, step, 1]).permutation(len(prompts))
    waiting = [prompts[i] for i in order if prompts[i] not in chosen]
    dropped = refills = 0
    while True:
        rewards = rewards_of(batch, method, recipe)
        alive = groups_with_spread(rewards.tokens, rewards.mask, rewards.group).tolist()  # [G]
        lacking = alive.count(False)
        if not lacking:
            return batch, {"refills": float(refills), "dropped_groups": float(dropped)}
        if refills == method.refills or not waiting:
            why = f"{refills} refills" if waiting else f"{refills} refills with every training prompt tried"
            raise RunError(
                f"In step {step}, after {why}, only {alive.count(True)} of {count} groups have rollouts that score "
                f"differently, and method '{method.name}' trains on such groups alone. Set method.refills=0 to keep "
                "the others, raise sampling.group_size, or choose prompts that are neither solved nor hopeless."
            )
        dropped, refills = dropped + lacking, refills + 1
        fresh, waiting = waiting[:lacking], waiting[lacking:]
        batch = batch.groups(alive).join(collect(fresh))
