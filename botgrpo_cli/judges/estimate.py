"""How many calls of the judge a run makes, before it makes any. Upper bounds: repeated answers come from the cache."""

from __future__ import annotations

from dataclasses import dataclass

from botgrpo_cli.judges.pairwise import ORDERS
from botgrpo_cli.recipe.schema import Recipe
from botgrpo_cli.rewards.steps import MOST_STEPS


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

    The screenshot judge is asked only for code that compiles and shows something, the step judge about as many windows
    as a solution has (64 steps at most), under error propagation up to the first error; and methods that refill groups
    sample up to that many times more. None of it is known beforehand.
    """
    each = {}
    judged = recipe.reward.steps
    aime = recipe.task.name == "aime"
    if aime and judged.on:
        each["reward.steps"] = -(-MOST_STEPS // judged.window)
    if recipe.reward.code_judge.on:
        each["reward.code_judge"] = 1
    if recipe.reward.vlm.judged:
        each["reward.vlm"] = 2 if recipe.reward.vlm.mode == "local-2turn" else 1
    sampling, steps, evaluation = recipe.sampling, recipe.training.steps, recipe.evaluation
    times = sum(step % evaluation.every == 0 or step == steps for step in range(steps + 1))
    return CallEstimate(
        each=each,
        completions=sampling.prompts * sampling.group_size * steps,
        evaluated=0 if aime and not judged.measure else times * evaluation.prompts * evaluation.samples,
        per_pair=len(ORDERS),
    )
