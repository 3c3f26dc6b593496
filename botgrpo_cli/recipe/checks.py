"""Checks that need more than one key. Each names the numbers or words that would fit."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache

from botgrpo_cli.errors import InputError, nearest
from botgrpo_cli.recipe import checks_aime
from botgrpo_cli.recipe.errors import Mark, Problem, RecipeError
from botgrpo_cli.recipe.schema import Recipe
from botgrpo_cli.recipe.typed import either
from botgrpo_cli.recipe.yaml_strict import quote

Finding = tuple[tuple[str, ...], str]  # the keys that don't go together, the one to change first; the sentence
# Prompts for training, held-out prompts; None where only the data itself can tell.
Counts = Callable[[Recipe], tuple[int, int] | None]


def cross_check(recipe: Recipe) -> list[Finding]:
    """Everything about `recipe` that its keys alone can tell, the method's name included."""
    own = checks_aime.CHECKS if recipe.task.name == "aime" else (_signal, _judge, _judged)
    checks = (_micro_batch, _warmup, _instruction, *own, _device, _targets, _method)
    return [finding for check in checks for finding in check(recipe)]


def count_check(recipe: Recipe, train: int, held_out: int) -> list[Finding]:
    """The prompts that a step and an evaluation take against the prompts there are."""
    aime = recipe.task.name == "aime"
    place = "task.problems.source" if aime else "task.prompts"
    kind = recipe.task.problems.source if aime else recipe.task.prompts
    found = []
    for key, asked, there, what in (
        ("sampling.prompts", recipe.sampling.prompts, train, "training"),
        ("evaluation.prompts", recipe.evaluation.prompts, held_out, "held-out"),
    ):
        if there == 0:
            found.append(((place, key), f"The prompt set '{kind}' has no {what} prompts."))
        elif asked > there:
            text = f"Found {asked}; the prompt set '{kind}' has {there} {what} prompts, expected at most {there}."
            found.append(((key, place), text))
    return found


def prompt_counts(recipe: Recipe) -> tuple[int, int] | None:
    """How many (training, held-out) prompts the recipe's task has; None where its data would have to be loaded."""
    if recipe.task.name == "aime":
        from botgrpo_cli.tasks.aime.sources import known_counts

        return known_counts(recipe.task.problems)
    return _react_counts(recipe.task.prompts)


@cache  # the generated set takes a second
def _react_counts(kind: str) -> tuple[int, int]:
    from botgrpo_cli.tasks.react.prompts import load_prompts

    return len(load_prompts(kind, "train")), len(load_prompts(kind, "held-out"))


def check_counts(recipe: Recipe, *, train: int, held_out: int, sources: Mapping[str, Mark] | None = None) -> None:
    """Raise RecipeError when the recipe asks for more prompts than there are.

    `load_recipe` does this for the task's own prompts; call it for prompts that come from elsewhere.
    """
    found = count_check(recipe, train, held_out)
    if found:
        raise RecipeError(as_problem(finding, sources or {}, recipe.name) for finding in found)


def check_processes(recipe: Recipe, count: int, *, sources: Mapping[str, Mark] | None = None) -> None:
    """Raise RecipeError when `count` processes can't share the prompts of a step out by whole groups, evenly."""
    prompts = recipe.sampling.prompts
    if prompts % count == 0:
        return
    fitting = _around(prompts, [count * (prompts // count), count * (prompts // count + 1)])
    text = (
        f"Found {prompts}, which {count} processes can't share evenly; expected {_or(fitting)}, or "
        f"{_or(sorted(set(_divisors(prompts))))} processes."
    )
    raise RecipeError([as_problem((("sampling.prompts",), text), sources or {}, recipe.name)])


def as_problem(finding: Finding, sources: Mapping[str, Mark], fallback: str) -> Problem:
    """`finding` at the place of the first of its keys that was written anywhere, else at `fallback`."""
    keys, text = finding
    mark = next((sources[key] for key in keys if key in sources), Mark(fallback))
    return Problem(mark, keys[0], text)


def _micro_batch(recipe: Recipe) -> Iterator[Finding]:
    """The rollouts of a step fill the optimizer steps evenly, and each of those its micro-batches."""
    prompts, group, micro = recipe.sampling.prompts, recipe.sampling.group_size, recipe.training.micro_batch
    total, parts = prompts * group, minibatches(recipe)
    if total % parts:
        sizes = _around(parts, _divisors(total))
        yield (
            ("method.minibatches", "sampling.prompts", "sampling.group_size"),
            f"Found {parts}, which does not divide the rollouts of a step, {prompts} prompts x {group} = {total}; "
            f"expected {_or(sizes)}.",
        )
        return
    each = total // parts
    if each % micro == 0:
        return
    sizes = _around(micro, _divisors(each))
    step = parts * micro // math.gcd(parts * micro, group)  # divisible when prompts is a multiple of this
    fitting = _around(prompts, [step * (prompts // step), step * (prompts // step + 1)])
    of = f" in {parts} minibatches, {each} each" if parts > 1 else ""
    yield (
        ("training.micro_batch", "sampling.prompts", "sampling.group_size"),
        f"Found {micro}, which does not divide the rollouts of a step, {prompts} prompts x {group} = {total}{of}; "
        f"expected {_or(sizes)}, or keep {micro} and set sampling.prompts to {_or(fitting)}.",
    )


def minibatches(recipe: Recipe) -> int:
    """Optimizer steps a pass: the recipe's, else the method's; 1 for a method that does not exist."""
    from botgrpo_cli.methods.registry import METHODS  # torch: only when a recipe is loaded

    named = METHODS.get(recipe.method.name)
    return recipe.method.minibatches or (named.minibatches if named else 1)


def _divisors(total: int) -> list[int]:
    return [size for size in range(1, min(total, 4096) + 1) if total % size == 0] + [total]


def _warmup(recipe: Recipe) -> Iterator[Finding]:
    warmup, steps = recipe.training.warmup_steps, recipe.training.steps
    if warmup > steps:
        text = f"Found {warmup}, but the run has {steps} steps; expected at most {steps}."
        yield ("training.warmup_steps", "training.steps"), text


def _instruction(recipe: Recipe) -> Iterator[Finding]:
    place = {"react": "{brief}", "aime": "{problem}"}[recipe.task.name]
    if place not in recipe.task.instruction:
        text = f"Found {quote(recipe.task.instruction)}; expected a text with {place}, the place of the prompt."
        yield ("task.instruction", "task.name"), text


def _signal(recipe: Recipe) -> Iterator[Finding]:
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


def _device(recipe: Recipe) -> Iterator[Finding]:
    device = recipe.policy.device
    if not re.fullmatch(r"auto|cpu|mps|cuda(:[0-9]+)?", device):
        hint = nearest(device.lower(), ("auto", "cpu", "cuda", "cuda:0", "mps"))
        yield ("policy.device",), f"Found {quote(device)}; expected auto, cpu, cuda, cuda:N or mps.{hint}"


def _targets(recipe: Recipe) -> Iterator[Finding]:
    if recipe.policy.lora is not None and recipe.policy.lora.targets == []:
        text = "Found an empty list; expected names of modules, or all-linear."
        yield ("policy.lora.targets",), text


def _method(recipe: Recipe) -> Iterator[Finding]:
    from botgrpo_cli.methods.registry import ADVANTAGES, METHODS, resolve  # torch: only when a recipe is loaded

    known = True
    for key, word, valid in (
        ("method.name", recipe.method.name, METHODS),
        ("method.advantage", recipe.method.advantage, ADVANTAGES),
    ):
        if word is not None and word not in valid:
            known = False
            yield (key,), f"Found {quote(word)}; expected {either(sorted(valid))}.{nearest(word, valid)}"
    if known:
        try:
            resolve(recipe.method)
        except InputError as error:  # an option that the advantage has no use for
            key, _, text = str(error).partition(": ")
            yield (key, "method.advantage", "method.name"), text


def _judge(recipe: Recipe) -> Iterator[Finding]:
    from botgrpo_cli.judges.settings import problems

    for key, text in problems(recipe.judge):
        yield (f"judge.{key}", "judge.kind"), text


def _judged(recipe: Recipe) -> Iterator[Finding]:
    """A screenshot judge that would change and log nothing, and a judge that knows nothing of React."""
    vlm = recipe.reward.vlm
    if vlm.mode != "none" and not vlm.judged:
        text = f"Found {quote(vlm.mode)} with nothing that comes of it; expected a weight above 0"
        text += ", a local_weight above 0" if vlm.mode.startswith("local") else ""
        yield ("reward.vlm.mode", "reward.vlm.weight"), f"{text}, measure: true, or mode none."
    if recipe.judge.kind == "exact" and (recipe.reward.code_judge.on or vlm.judged):
        text = "Found 'exact', which knows the truth of mathematics only; expected heuristic, openai or bedrock"
        yield ("judge.kind",), f"{text} with reward.code_judge or reward.vlm."


def _around(number: int, fitting: list[int]) -> list[int]:
    """The nearest of `fitting` at or below `number` and the nearest above it, without zeros."""
    below = [size for size in fitting if 0 < size <= number]
    above = [size for size in fitting if size > number]
    return [*([max(below)] if below else []), *([min(above)] if above else [])]


def _or(numbers: list[int]) -> str:
    return either([str(number) for number in numbers])
