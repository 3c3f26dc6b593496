"""Checks of recipes for the task aime that need more than one key. Each says what would fit."""

from __future__ import annotations

from collections.abc import Iterator

from botgrpo_cli.recipe.schema import Recipe

Finding = tuple[tuple[str, ...], str]  # as in `checks.py`
CHAINS = ("chains", "words")  # sources whose steps the exact judge can check


def _signal(recipe: Recipe) -> Iterator[Finding]:
    reward = recipe.reward
    local = recipe.method.local_weight > 0 and reward.steps.on
    if reward.outcome.weight == 0 and reward.format.weight == 0 and not local:
        keys = ("reward.outcome.weight", "reward.format.weight")
        yield keys, "Every reward weight is 0, so nothing can be learnt; expected at least one above 0."


def _values(recipe: Recipe) -> Iterator[Finding]:
    steps = recipe.reward.steps
    if not steps.incorrect <= steps.uncertain <= steps.correct:
        text = f"Found {steps.incorrect:g} for incorrect, {steps.uncertain:g} for uncertain, {steps.correct:g} for "
        yield (
            ("reward.steps.uncertain", "reward.steps.correct", "reward.steps.incorrect"),
            f"{text}correct; expected them in this order, none below the one before.",
        )


def _judge(recipe: Recipe) -> Iterator[Finding]:
    """What the step judge can't be or doesn't know. That the address or the model of a server is missing is no matter
    of the recipe: it is said where a judge is called for (`judges.settings.resolve`)."""
    from botgrpo_cli.judges.settings import ONLINE, problems

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


def _errors(recipe: Recipe) -> Iterator[Finding]:
    """Errors that a judge of steps can't have."""
    from botgrpo_cli.judges.simulate import SIMULATED

    for name in SIMULATED:
        if name != "flip" and recipe.judge.kind == "exact" and getattr(recipe.judge, name):
            text = (
                f"Found {getattr(recipe.judge, name):g}, which changes no verdict on a step; expected 0, and judge.flip"
            )
            yield (f"judge.{name}",), f"{text} for simulated errors."


def _react(recipe: Recipe) -> Iterator[Finding]:
    """Judges of React apps in a recipe for AIME."""
    reward = recipe.reward
    for key, on in (
        ("reward.code_judge.weight", reward.code_judge.on),
        ("reward.vlm.mode", reward.vlm.mode != "none"),
        ("reward.vlm.measure", reward.vlm.measure),
    ):
        if on:
            yield (key, "task.name"), "This judges React apps, and the task is aime; expected it to be off."


CHECKS = (_signal, _values, _judge, _errors, _react)
