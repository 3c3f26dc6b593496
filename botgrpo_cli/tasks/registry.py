"""The tasks there are: one file and one entry each."""

from __future__ import annotations

from collections.abc import Callable

from botgrpo_cli.recipe.schema import Recipe
from botgrpo_cli.tasks.base import Task


def make_react(recipe: Recipe, say: Callable[[str], None]) -> Task:
    from botgrpo_cli.tasks.react.task import ReactTask
    from botgrpo_cli.tasks.react.toolchain import ensure_toolchain

    ensure_toolchain(say)
    return ReactTask(recipe, say)


TASKS: dict[str, Callable[[Recipe, Callable[[str], None]], Task]] = {"react": make_react}


def make_task(recipe: Recipe, say: Callable[[str], None] = lambda _: None) -> Task:
    """The task that `task.name` names, its tools started; `say` hears of long set-up work."""
    return TASKS[recipe.task.name](recipe, say)
