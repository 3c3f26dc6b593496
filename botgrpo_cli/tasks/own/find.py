"""The class of a task from what `task.name` says: a Python file, or an environment or data set of a library."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path

from botgrpo_cli.errors import InputError
from botgrpo_cli.tasks.base import Task
from botgrpo_cli.tasks.own.keys import reward_section
from botgrpo_cli.tasks.own.messages import Description
from botgrpo_cli.tasks.own.pool import describe
from botgrpo_cli.tasks.own.task import OwnTask

_made: dict[str, tuple[Description, type[Task]]] = {}


def file_task(path: Path) -> type[Task]:
    """The task of a Python file: its class that derives from `Task`, else one around its functions.

    Raises InputError when the file can't be loaded, or holds neither.
    """
    spec = str(path)
    about = describe(spec)
    return _class_of(spec, about, lambda: _own_class(path, about) if about.tasks else _around(spec, path.stem, about))


def library_task(spec: str) -> type[Task]:
    """The task of `verifiers:ENV` or `reasoning-gym:NAME`. Raises InputError when there is none, or no library."""
    about = describe(spec)
    name = Path(spec.partition(":")[2]).name.removesuffix(".py")
    return _class_of(spec, about, lambda: _around(spec, name, about))


def _class_of(spec: str, about: Description, make: Callable[[], type[Task]]) -> type[Task]:
    known = _made.get(spec)
    if known is None or known[0] is not about:
        known = _made[spec] = (about, make())
    return known[1]


def _around(spec: str, name: str, about: Description) -> type[OwnTask]:
    made = {"name": name, "spec": spec, "about": about, "rewards": reward_section(about.functions)}
    return type("OwnTask", (OwnTask,), made)


def _own_class(path: Path, about: Description) -> type[Task]:
    if len(about.tasks) > 1:
        raise InputError(f"{path.name} defines several tasks: {', '.join(about.tasks)}; expected one.")
    name = f"botgrpo_task_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    module_spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(module_spec)
    sys.modules[name] = module
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))  # for the modules beside it
    module_spec.loader.exec_module(module)
    found = getattr(module, about.tasks[0])
    if "name" not in vars(found):
        found.name = path.stem
    return found
