"""What the keys of a recipe for this task can't mean together. Each says what would fit."""

from __future__ import annotations

from collections.abc import Iterator

from botgrpo_cli.judges.settings import ONLINE, problems
from botgrpo_cli.judges.simulate import SIMULATED
from botgrpo_cli.recipe.schema import Recipe
from botgrpo_cli.recipe.yaml_strict import quote
from botgrpo_cli.tasks.base import Clash

CHAINS = ("chains", "words")  # sources whose steps the exact judge can check


def clashes(recipe: Recipe) -> Iterator[Clash]:
    for check in (_instruction, _signal, _values, _judge, _errors):
        yield from check(recipe)


def _instruction(recipe: Recipe) -> Iterator[Clash]:
    if "{problem}" not in recipe.task.instruction:
        text = f"Found {quote(recipe.task.instruction)}; expected a text with {{problem}}, the place of the prompt."
        yield ("task.instruction", "task.name"), text


def _signal(recipe: Recipe) -> Iterator[Clash]:
    reward = recipe.reward
    local = recipe.method.local_weight > 0 and reward.steps.on
    if reward.outcome.weight == 0 and reward.format.weight == 0 and not local:
        keys = ("reward.outcome.weight", "reward.format.weight")
        yield keys, "Every reward weight is 0, so nothing can be learnt; expected at least one above 0."


def _values(recipe: Recipe) -> Iterator[Clash]:
    steps = recipe.reward.steps
    if not steps.incorrect <= steps.uncertain <= steps.correct:
        text = f"Found {steps.incorrect:g} for incorrect, {steps.uncertain:g} for uncertain, {steps.correct:g} for "
        yield (
            ("reward.steps.uncertain", "reward.steps.correct", "reward.steps.incorrect"),
            f"{text}correct; expected them in this order, none below the one before.",
        )


def _judge(recipe: Recipe) -> Iterator[Clash]:
    """What the step judge can't be or doesn't know. That the address or the model of a server is missing is no matter
    of the recipe: it is said where a judge is called for (`judges.settings.resolve`)."""
    judge, steps, source = recipe.judge, recipe.reward.steps, recipe.task.problems.source
    for key, text in problems(judge):
        if key not in ("url", "model") or getattr(judge, key) is not None:
            yield (f"judge.{key}", "judge.kind"), text
    if not steps.on or judge.kind in ONLINE:
        return
    if judge.kind == "heuristic":
        text = "Found 'heuristic', which knows no mathematics; expected openai, bedrock, exact for generated problems"
        yield ("judge.kind",), f"{text}, or reward.steps.strategy none."
    elif source not in CHAINS:
        text = f"Found 'exact', which can check the steps of {' and '.join(CHAINS)} only; expected openai or bedrock"
        yield ("judge.kind", "task.problems.source"), f"{text} for '{source}', or reward.steps.strategy none."


def _errors(recipe: Recipe) -> Iterator[Clash]:
    """Errors that a judge of steps can't have."""
    for name in SIMULATED:
        if name != "flip" and recipe.judge.kind == "exact" and getattr(recipe.judge, name):
            text = (
                f"Found {getattr(recipe.judge, name):g}, which changes no verdict on a step; expected 0, and judge.flip"
            )
            yield (f"judge.{name}",), f"{text} for simulated errors."
