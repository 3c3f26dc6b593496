"""botgrpo: process-reward reinforcement learning for language models, with the bag of tokens.

In Python: `load_recipe`, `train` and `evaluate` do what the commands do; `term`, `signal` and `metric` mark the
functions of an own task's file; `Task`, `Prompt`, `Completion` and `Scored` are what a class of one's own is made of.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

# Looked up when they are asked for: the command line and the processes that call an own task's functions start quickly.
_HOMES = {
    "load_recipe": "botgrpo_cli.recipe.load",
    "train": "botgrpo_cli.library",
    "evaluate": "botgrpo_cli.library",
    "term": "botgrpo_cli.tasks.own.declare",
    "signal": "botgrpo_cli.tasks.own.declare",
    "metric": "botgrpo_cli.tasks.own.declare",
    "Task": "botgrpo_cli.tasks.base",
    "Prompt": "botgrpo_cli.tasks.base",
    "Completion": "botgrpo_cli.tasks.base",
    "Scored": "botgrpo_cli.tasks.base",
}
__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
