"""Finding the class of a task by what `task.name` says.

The tasks of the package are one entry each below. Others are an entry point of the group `botgrpo.tasks` in an
installed package, a Python file, an environment of verifiers (`verifiers:ENV`, installed, or `verifiers:./env.py`) or
a data set of reasoning-gym (`reasoning-gym:NAME`).
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from botgrpo_cli.errors import InputError, nearest
from botgrpo_cli.recipe.schema import Recipe
from botgrpo_cli.tasks.base import Say, Task

SHIPPED = {"react": "botgrpo_cli.tasks.react.task:ReactTask", "aime": "botgrpo_cli.tasks.aime.task:AimeTask"}
FETCHED = {
    "react": "esbuild, ESLint and Tailwind (140 MB)"
}  # what `botgrpo setup NAME` gets, for a help that loads nothing
DEFAULT = "react"
GROUP = "botgrpo.tasks"
LIBRARIES = ("verifiers", "reasoning-gym")  # tasks of their own are `LIBRARY:NAME`


def plugins() -> dict[str, EntryPoint]:
    """Tasks of installed packages by name; one of the package's own names is not given away."""
    return {found.name: found for found in entry_points(group=GROUP) if found.name not in SHIPPED}


def task_names() -> list[str]:
    """What can be named without a path: shipped tasks, then plugins."""
    return [*SHIPPED, *sorted(plugins())]


def find_task(name: str, folder: Path = Path()) -> tuple[type[Task], str]:
    """The class that `name` means, and the name by which it is found from any folder.

    A path is relative to `folder`, the recipe's. Raises InputError: there is no such task, or it can't be loaded.
    """
    if name in SHIPPED:
        return _shipped(name), name
    kind, colon, rest = name.partition(":")
    if kind in LIBRARIES and colon:
        from botgrpo_cli.tasks.own.find import library_task

        if rest.endswith(".py"):
            name = f"{kind}:{_file(rest, folder)}"
        return library_task(name), name
    if name.endswith(".py") or "/" in name:
        from botgrpo_cli.tasks.own.find import file_task

        path = _file(name, folder)
        return file_task(path), str(path)
    installed = plugins()
    if name in installed:
        return _plugin(installed[name]), name
    known = task_names()
    hint = f" Did you mean './{name}.py'?" if (folder / f"{name}.py").is_file() else nearest(name, known)
    raise InputError(
        f"Found {name!r}; expected {', '.join(known)}, a Python file (./mine.py), verifiers:ENV or reasoning-gym:NAME."
        f"{hint}"
    )


def _file(name: str, folder: Path) -> Path:
    path = (folder / Path(name).expanduser()).absolute()
    if not path.is_file():
        there = [file.name for file in path.parent.glob("*.py")] if path.parent.is_dir() else []
        raise InputError(f"Found {name!r}; there is no file {path}.{nearest(path.name, there)}")
    return path


@cache
def _shipped(name: str) -> type[Task]:
    module, _, attribute = SHIPPED[name].partition(":")
    return getattr(import_module(module), attribute)


def _plugin(point: EntryPoint) -> type[Task]:
    try:
        found = point.load()
    except Exception as error:
        raise InputError(
            f"The task {point.name!r} of the package {home_of(point)} can't be loaded: {error!r}."
        ) from error
    if not (isinstance(found, type) and issubclass(found, Task)):
        raise InputError(
            f"The task {point.name!r} of {home_of(point)} is {found!r}; expected a class that derives from "
            "botgrpo_cli.tasks.base.Task."
        )
    return found


def home_of(point: EntryPoint) -> str:
    """Where a plugin comes from, for messages."""
    return f"the package {point.dist.name}" if point.dist else point.value


def shipped_tasks() -> list[type[Task]]:
    return [_shipped(name) for name in SHIPPED]


def task_of(recipe: Recipe) -> type[Task]:
    """The class of a recipe's task."""
    return find_task(recipe.task.name)[0]


def make_task(recipe: Recipe, say: Say = lambda _: None) -> Task:
    """The task that `task.name` names, its tools started; `say` hears of long set-up work."""
    return task_of(recipe).start(recipe, say)
