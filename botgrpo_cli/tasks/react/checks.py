"""What the keys of a recipe for this task can't mean together. Each says what would fit."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from botgrpo_cli.judges.settings import problems
from botgrpo_cli.recipe.schema import Recipe
from botgrpo_cli.recipe.yaml_strict import quote
from botgrpo_cli.tasks.base import Clash
from botgrpo_cli.tasks.react.prompts import Kind, load_prompts


@cache  # the generated set takes a second
def prompt_counts(kind: Kind) -> tuple[int, int]:
    return len(load_prompts(kind, "train")), len(load_prompts(kind, "held-out"))


def clashes(recipe: Recipe) -> Iterator[Clash]:
    for check in (_instruction, _signal, _judge, _judged):
        yield from check(recipe)


def _instruction(recipe: Recipe) -> Iterator[Clash]:
    if "{brief}" not in recipe.task.instruction:
        text = f"Found {quote(recipe.task.instruction)}; expected a text with {{brief}}, the place of the prompt."
        yield ("task.instruction", "task.name"), text


def _signal(recipe: Recipe) -> Iterator[Clash]:
    reward, local = recipe.reward, recipe.reward.local
    terms = ("compile", "lint", "format", "clean_lines", "content")
    if any(getattr(reward, term).weight > 0 for term in terms):
        return
    if reward.code_judge.weight > 0 or (reward.vlm.mode != "none" and reward.vlm.weight > 0):
        return
    judged = (reward.code_judge.lines and reward.code_judge.line_weight > 0) or reward.vlm.local
    penalties = max(local.compile_error, local.lint_error, local.lint_warning, local.no_code) > 0
    if recipe.method.local_weight > 0 and (penalties or judged):
        return
    keys = tuple(f"reward.{term}.weight" for term in terms)
    yield keys, "Every reward weight is 0, so nothing can be learnt; expected at least one above 0."


def _judge(recipe: Recipe) -> Iterator[Clash]:
    for key, text in problems(recipe.judge):
        yield (f"judge.{key}", "judge.kind"), text


def _judged(recipe: Recipe) -> Iterator[Clash]:
    """A screenshot judge that would change and log nothing, and a judge that knows nothing of components."""
    vlm = recipe.reward.vlm
    if vlm.mode != "none" and not vlm.judged:
        text = f"Found {quote(vlm.mode)} with nothing that comes of it; expected a weight above 0"
        text += ", a local_weight above 0" if vlm.mode.startswith("local") else ""
        yield ("reward.vlm.mode", "reward.vlm.weight"), f"{text}, measure: true, or mode none."
    if recipe.judge.kind == "exact" and (recipe.reward.code_judge.on or vlm.judged):
        text = "Found 'exact', which knows the truth of mathematics only; expected heuristic, openai or bedrock"
        yield ("judge.kind",), f"{text} with reward.code_judge or reward.vlm."
