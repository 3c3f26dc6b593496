"""The tasks there are: one file and one entry each."""

from __future__ import annotations

from collections.abc import Callable

from botgrpo_cli.recipe.schema import Recipe
from botgrpo_cli.tasks.base import Task


def make_react(recipe: Recipe, say: Callable[[str], None]) -> Task:
    from botgrpo_cli.tasks.react.task import ReactTask
    from botgrpo_cli.tasks.react.toolchain import ensure_toolchain

    say("Starting the compiler and the linter.")
    ensure_toolchain(say)
    return ReactTask(recipe, say)


def make_aime(recipe: Recipe, say: Callable[[str], None]) -> Task:
    from botgrpo_cli.tasks.aime.task import AimeTask

    return AimeTask(recipe, say)


TASKS: dict[str, Callable[[Recipe, Callable[[str], None]], Task]] = {"react": make_react, "aime": make_aime}


def make_task(recipe: Recipe, say: Callable[[str], None] = lambda _: None) -> Task:
    """The task that `task.name` names, its tools started; `say` hears of long set-up work."""
    return TASKS[recipe.task.name](recipe, say)


def check_task(recipe: Recipe) -> None:
    """Raises InputError for what a task will lack, as far as that is known without starting anything: said before a
    policy is loaded for minutes."""
    if recipe.task.name == "aime":
        from botgrpo_cli.tasks.aime.judge import check_judge

        check_judge(recipe)
