"""Checks that need more than one key. Each names the numbers or words that would fit."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping

from botgrpo_cli.errors import InputError, nearest
from botgrpo_cli.recipe.errors import Mark, Problem, RecipeError
from botgrpo_cli.recipe.schema import Recipe
from botgrpo_cli.recipe.typed import either
from botgrpo_cli.recipe.yaml_strict import quote
from botgrpo_cli.tasks.base import Clash
from botgrpo_cli.tasks.registry import task_of

# Prompts for training, held-out prompts; None where only the data itself can tell.
Counts = Callable[[Recipe], tuple[int, int] | None]


def cross_check(recipe: Recipe) -> list[Clash]:
    """Everything about `recipe` that its keys alone can tell, the method's name included."""
    checks = (_micro_batch, _warmup, task_of(recipe).clashes, _device, _targets, _method)
    return [finding for check in checks for finding in check(recipe)]


def count_check(recipe: Recipe, train: int, held_out: int) -> list[Clash]:
    """The prompts that a step and an evaluation take against the prompts there are."""
    place, kind = task_of(recipe).prompt_set(recipe)
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
    return task_of(recipe).counts(recipe)


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


def as_problem(finding: Clash, sources: Mapping[str, Mark], fallback: str) -> Problem:
    """`finding` at the place of the first of its keys that was written anywhere, else at `fallback`."""
    keys, text = finding
    mark = next((sources[key] for key in keys if key in sources), Mark(fallback))
    return Problem(mark, keys[0], text)


def _micro_batch(recipe: Recipe) -> Iterator[Clash]:
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


def _warmup(recipe: Recipe) -> Iterator[Clash]:
    warmup, steps = recipe.training.warmup_steps, recipe.training.steps
    if warmup > steps:
        text = f"Found {warmup}, but the run has {steps} steps; expected at most {steps}."
        yield ("training.warmup_steps", "training.steps"), text


def _device(recipe: Recipe) -> Iterator[Clash]:
    device = recipe.policy.device
    if not re.fullmatch(r"auto|cpu|mps|cuda(:[0-9]+)?", device):
        hint = nearest(device.lower(), ("auto", "cpu", "cuda", "cuda:0", "mps"))
        yield ("policy.device",), f"Found {quote(device)}; expected auto, cpu, cuda, cuda:N or mps.{hint}"


def _targets(recipe: Recipe) -> Iterator[Clash]:
    if recipe.policy.lora is not None and recipe.policy.lora.targets == []:
        text = "Found an empty list; expected names of modules, or all-linear."
        yield ("policy.lora.targets",), text


def _method(recipe: Recipe) -> Iterator[Clash]:
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


def _around(number: int, fitting: list[int]) -> list[int]:
    """The nearest of `fitting` at or below `number` and the nearest above it, without zeros."""
    below = [size for size in fitting if 0 < size <= number]
    above = [size for size in fitting if size > number]
    return [*([max(below)] if below else []), *([min(above)] if above else [])]


def _or(numbers: list[int]) -> str:
    return either([str(number) for number in numbers])
