"""botgrpo task: begin a task of your own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from botgrpo_cli.console import console

app = typer.Typer(help="Begin a task of your own: prompts and reward functions.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """Makes `new` a subcommand although it is the only one."""


@app.command()
def new(
    path: Annotated[Path, typer.Argument(metavar="FILE.py", help="The Python file to write, for example sums.py.")],
) -> None:
    """Write a commented file of reward functions that runs as it stands, with its recipe and its prompts beside it."""
    from botgrpo_cli.tasks.own.template import write_task

    functions, recipe, prompts = write_task(path)
    out = console()
    out.print(f"Wrote {functions} (reward functions), {recipe} (recipe) and {prompts} (prompts).", soft_wrap=True)
    out.print("Call each function once, and see what a run would do:")
    out.print(f"  botgrpo train {recipe} --scale tiny --dry-run", soft_wrap=True, markup=False)
    out.print("Train, in minutes on two cores:")
    out.print(f"  botgrpo train {recipe} --scale tiny", soft_wrap=True, markup=False)
