"""`botgrpo setup`: fetches what runs need beside the Python packages, into the cache; `judge` checks a server."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.status import Status

from botgrpo_cli.cache import Notify
from botgrpo_cli.commands.options import ScaleOption, SetOption
from botgrpo_cli.console import progress_console
from botgrpo_cli.errors import InputError, nearest
from botgrpo_cli.tasks.needs import Part
from botgrpo_cli.tasks.registry import FETCHED


def _small(notify: Notify) -> Path:
    from botgrpo_cli.policy.small import ensure_small

    return ensure_small(progress=notify)


def parts() -> dict[str, Part]:
    """What can be fetched, by the word for it."""
    from botgrpo_cli.tasks.registry import shipped_tasks

    found = [part for task in shipped_tasks() for part in task.parts()]
    return {part.word: part for part in [*found, Part("small", "The pretrained model of the small scale", _small)]}


_FETCHED = "".join(f"{name}: {what}; " for name, what in FETCHED.items())


def setup(
    part: Annotated[
        str,
        typer.Argument(
            metavar="|".join([*FETCHED, "small", "judge", "all"]),
            help=f"{_FETCHED}small: SmolLM2-135M-Instruct (270 MB); all: all of these. "
            "judge: check the server that judges, and say how to get one.",
        ),
    ],
    recipe: Annotated[
        str | None, typer.Option(help="With judge: the recipe whose judge and number of calls are meant.")
    ] = None,
    scale: ScaleOption = None,
    sets: SetOption = None,
) -> None:
    """Fetch what a run needs into the cache; what is there already is left alone. Or check the judge."""
    fetched = parts()
    words = [*fetched, "judge", "all"]
    if part not in words:
        raise InputError(f"`botgrpo setup` does not know '{part}'; expected {', '.join(words)}.{nearest(part, words)}")
    if part != "judge" and (recipe or scale or sets):
        raise InputError("--recipe, --scale and --set belong to `botgrpo setup judge`.")
    if recipe is None and (scale or sets):
        raise InputError("--scale and --set change a recipe; name it with --recipe.")
    if part == "judge":
        from botgrpo_cli.commands.setup_judge import setup_judge
        from botgrpo_cli.recipe.load import load_recipe

        return setup_judge(load_recipe(recipe, scale=scale, sets=sets or ()).recipe if recipe else None)
    out = progress_console()
    for chosen in fetched.values() if part == "all" else [fetched[part]]:
        started = time.monotonic()
        with out.status(f"{chosen.title} …") as status:

            def notify(message: str, status: Status = status) -> None:
                if out.is_terminal:
                    status.update(escape(message))
                else:  # a log file has no line to rewrite, so each message gets its own
                    out.print(message, soft_wrap=True, markup=False)

            folder = chosen.fetch(notify)
        took = time.monotonic() - started
        out.print(f"{chosen.title}: ready in {folder} ({took:.0f} s).", soft_wrap=True, markup=False)
