"""Token rewards for rollouts that another engine sampled: ids in, one reward a token out. Nothing of verl is imported.

The rewards are those of a native run: the same task scores the same bytes, and `training.refill.rewards_of` makes
token rewards of what it says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from botgrpo_cli.errors import InputError, nearest
from botgrpo_cli.methods.registry import resolve
from botgrpo_cli.policy.sample import Rollout
from botgrpo_cli.recipe.schema import Recipe
from botgrpo_cli.rewards.spans import TokenBytes
from botgrpo_cli.tasks.base import Completion, Prompt, Task
from botgrpo_cli.training.refill import rewards_of
from botgrpo_cli.training.rollouts import Batch, check_counts, facts

TOKEN_REWARDS = "token_rewards"  # key of the dense rewards among verl's extra information
SCORE = "mean_token_reward"  # key of S_k, the mean of a rollout's token rewards: what a group needs to differ in


@dataclass(frozen=True)
class TokenRewards:
    """The dense rewards of one rollout, [T]. A class of its own: as a list, verl would try to stack it in an array."""

    values: tuple[float, ...]


class ResponseScorer:
    """Scores responses of one recipe's prompts. `limit` is the number of tokens at which the engine truncates.

    Starts the task's tools; `close` ends them.
    """

    def __init__(self, recipe: Recipe, tokenizer: Any, task: Task, *, limit: int) -> None:
        self.recipe, self.task, self.limit = recipe, task, limit
        self.method = resolve(recipe.method)
        self.token_bytes = TokenBytes(tokenizer)
        self.train = {prompt.id: prompt for prompt in task.prompts("train")}
        self.held_out = {prompt.id: prompt for prompt in task.prompts("held-out")}

    async def score(self, prompt_id: str, ids: Sequence[int]) -> dict[str, Any]:
        """`reward_score`, the global reward R_k, and `reward_extra_info`: every reward term and fact of the task.

        For a training prompt the extra information also holds the dense rewards r_kt = R_k + w_local * local_kt
        under TOKEN_REWARDS, and their mean; NaN where the rollout could not be scored. A held-out prompt is scored
        as an evaluation would: no punishment of long rollouts, no dense rewards.

        Shapes: ids [T], the end token included where there is one; nothing is decoded or encoded again.
        Raises:
            InputError: the recipe's task has no such prompt.
            RunError: the tools are broken.
        """
        ids = list(ids)
        prompt = self._prompt(prompt_id)
        # Engines stop at end tokens, which are special, and at the limit.
        finished = len(ids) < self.limit or (bool(ids) and self.token_bytes.special(ids[-1]))
        scoring = self.task.submit(Completion(prompt, self.token_bytes.pieces(ids), finished, tuple(ids)))
        self.task.gathered()  # verl's workers score rollout by rollout
        scored = await asyncio.wrap_future(scoring)
        check_counts(self.task.name, prompt, scored, len(ids))
        info: dict[str, Any] = facts(scored)
        info["global_reward"] = info.pop("reward")  # verl has a "reward" of its own
        if prompt_id not in self.train:
            return {"reward_score": scored.reward, "reward_extra_info": info}
        rollout = Rollout(0, ids, [], finished)
        batch = Batch([prompt], [[]], [rollout], [scored], torch.zeros(1, dtype=torch.int64), 0.0, 0.0)
        rewards = rewards_of(batch, self.method, self.recipe)
        tokens = rewards.tokens[0, : len(ids)]  # [T]
        info[SCORE] = float(tokens.mean()) if ids else float("nan")
        info[TOKEN_REWARDS] = TokenRewards(tuple(tokens.tolist()))
        return {"reward_score": float(rewards.outcome[0]), "reward_extra_info": info}

    def _prompt(self, prompt_id: str) -> Prompt:
        found = self.train.get(prompt_id) or self.held_out.get(prompt_id)
        if found is None:
            known = [*self.train, *self.held_out]
            raise InputError(
                f"extra_info.prompt_id is '{prompt_id}', and the task '{self.task.name}' of the recipe "
                f"'{self.recipe.name}' has no such prompt.{nearest(prompt_id, known)} Export recipe and data together."
            )
        return found

    def close(self) -> None:
        self.task.close()
