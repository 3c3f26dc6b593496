"""A task as the functions that `BagOfTokensTrainer` calls: global rewards, local rewards, steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from botgrpo_cli.methods.registry import Method
from botgrpo_cli.policy.load import Policy
from botgrpo_cli.policy.sample import Rollout
from botgrpo_cli.recipe.schema import Recipe
from botgrpo_cli.tasks.base import Completion, Prompt, Scored, Task
from botgrpo_cli.training.processes import ALONE, Processes
from botgrpo_cli.training.refill import rewards_of
from botgrpo_cli.training.rollouts import Batch, check_counts


class Scorer:
    """Scores the completions of one process, once; the trainer asks for the global reward first, then for the rest.

    Raises (from every function):
        RunError: the task returned a wrong number of rewards or steps.
    """

    def __init__(
        self, task: Task, policy: Policy, method: Method, recipe: Recipe, processes: Processes = ALONE
    ) -> None:
        self.task, self.policy, self.method, self.recipe, self.processes = task, policy, method, recipe, processes
        self.prompts: Mapping[str, Prompt] = {prompt.id: prompt for prompt in task.prompts("train")}
        # What stands in TRL's column of prompts: the text, told apart where two chats end in the same one.
        self.shown: dict[str, Prompt] = {}
        for prompt in self.prompts.values():
            self.shown[prompt.text if prompt.text not in self.shown else f"{prompt.text} [{prompt.id}]"] = prompt
        self.step: int | None = None  # of the run, which the trainer says
        self.batch: Batch | None = None  # the last one that was scored

    def reward(self, completion_ids: Sequence[list[int]], prompt_id: Sequence[str], **_: Any) -> list[float]:
        """R_k, with the method's punishment of long rollouts; NaN where there is none. Scores the completions."""
        prompts = [self.prompts[name] for name in prompt_id]
        rollouts = [Rollout(0, list(ids), [], bool(ids) and ids[-1] in self.policy.eos_ids) for ids in completion_ids]
        pieces = [self.policy.token_bytes.pieces(rollout.ids) for rollout in rollouts]
        scored: list[Scored] = []
        with self.processes.agreed():
            futures = [
                self.task.submit(Completion(prompt, data, rollout.finished, tuple(rollout.ids)))
                for prompt, data, rollout in zip(prompts, pieces, rollouts, strict=True)
            ]
            self.task.gathered(self.step)
            scored += [future.result() for future in futures]
            for prompt, said, rollout in zip(prompts, scored, rollouts, strict=True):
                check_counts(self.task.name, prompt, said, len(rollout.ids))
        group = torch.zeros(len(rollouts), dtype=torch.int64)  # known once the processes' rows are together
        used = self.task.counters()
        self.batch = Batch(prompts, [[]] * len(rollouts), rollouts, scored, group, 0.0, 0.0, used)
        return rewards_of(self.batch, self.method, self.recipe).outcome.tolist()

    def local(self, **_: Any) -> list[list[float]]:
        """local_kt, one number a token, without its weight."""
        return [scored.local for scored in self.batch.scored]

    def steps(self, completion_ids: Sequence[list[int]], **_: Any) -> list[list[int]]:
        """The step of each token; one step where the task has none."""
        pairs = zip(self.batch.scored, completion_ids, strict=True)
        return [[0] * len(ids) if scored.steps is None else scored.steps for scored, ids in pairs]
