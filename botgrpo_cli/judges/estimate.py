"""How many calls of the judge a run makes, before it makes any. Upper bounds: repeated answers come from the cache."""

from __future__ import annotations

from dataclasses import dataclass

from botgrpo_cli.judges.pairwise import ORDERS
from botgrpo_cli.recipe.schema import Recipe
from botgrpo_cli.tasks.registry import task_of


@dataclass(frozen=True)
class CallEstimate:
    """`each` says how many calls a completion takes, by the reward term that asks."""

    each: dict[str, int]
    completions: int  # of training: prompts x group x steps
    evaluated: int  # of the evaluations: evaluations x held-out prompts x samples
    per_pair: int  # of a win rate of two runs, a held-out prompt

    @property
    def per_completion(self) -> int:
        return sum(self.each.values())

    @property
    def training(self) -> int:
        return self.completions * self.per_completion

    @property
    def evaluation(self) -> int:
        return self.evaluated * self.per_completion

    @property
    def total(self) -> int:
        return self.training + self.evaluation


def estimate_calls(recipe: Recipe) -> CallEstimate:
    """The calls of one run of `recipe`.

    What makes them fewer is not known beforehand: a task may ask only of answers that work; and methods that refill
    groups sample up to that many times more.
    """
    task = task_of(recipe)
    sampling, steps, evaluation = recipe.sampling, recipe.training.steps, recipe.evaluation
    times = sum(step % evaluation.every == 0 or step == steps for step in range(steps + 1))
    return CallEstimate(
        each=task.asks(recipe),
        completions=sampling.prompts * sampling.group_size * steps,
        evaluated=times * evaluation.prompts * evaluation.samples if task.asks_held_out(recipe) else 0,
        per_pair=len(ORDERS),
    )
