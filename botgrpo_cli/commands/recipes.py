"""botgrpo recipes: list, show and copy the recipes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.syntax import Syntax
from rich.table import Table

from botgrpo_cli.commands.options import RecipeArgument, ScaleOption, SetOption
from botgrpo_cli.console import console, error_console
from botgrpo_cli.errors import InputError, nearest
from botgrpo_cli.recipe.shipped import launcher_names, shipped_dir, shipped_names
from botgrpo_cli.tasks.registry import home_of, plugins

app = typer.Typer(help="List, show and copy the shipped recipes.", no_args_is_help=True)


@app.command("list")
def list_recipes() -> None:
    """The shipped recipes, one a line."""
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name in shipped_names():
        table.add_row(name, title(shipped_dir() / f"{name}.yaml"))
    console().print(table)
    for name, point in plugins().items():
        console().print(f"Task {name} of {home_of(point)}: name it in a recipe, task: {{name: {name}}}.", markup=False)


@app.command()
def show(recipe: RecipeArgument, scale: ScaleOption = None, sets: SetOption = None) -> None:
    """Print the resolved recipe: every key, what it means, and which place set it."""
    from botgrpo_cli.recipe.load import dump_recipe, load_recipe

    loaded = load_recipe(recipe, scale=scale, sets=sets or ())
    text = dump_recipe(loaded.recipe, sources=loaded.sources)
    out = console()
    if out.is_terminal:
        out.print(Syntax(text, "yaml", theme="ansi_dark", background_color="default", word_wrap=True))
    else:
        typer.echo(text, nl=False)
    for note in loaded.notes:
        error_console().print(f"Note: {note}", markup=False)


@app.command()
def copy(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A shipped recipe, accelerate/ddp or accelerate/fsdp.")],
    destination: Annotated[Path, typer.Argument(metavar="DEST", help="The new file, or a folder to put it in.")],
) -> None:
    """Copy a shipped recipe, comments included, to change it, or a file for `accelerate launch`. Never overwrites."""
    names = [*shipped_names(), *launcher_names()]
    if name not in names:
        known = ", ".join(names)
        raise InputError(f"There is no shipped recipe '{name}'; expected one of {known}.{nearest(name, names)}")
    source = shipped_dir() / f"{name}.yaml"
    target = destination / source.name if destination.is_dir() else destination
    try:
        with target.open("xb") as file:
            file.write(source.read_bytes())
    except FileExistsError:
        raise InputError(f"{target} exists already and was left as it is; give another name.") from None
    except OSError as error:
        raise InputError(f"{target} can't be written: {error.strerror or error}.") from None
    launcher = f"accelerate launch --config_file {target} -m botgrpo_cli train RECIPE"
    typer.echo(f"Copied to {target}. Run it with: {launcher if '/' in name else f'botgrpo train {target}'}")


def title(path: Path) -> str:
    """The first comment line of a recipe file."""
    first = path.read_text(encoding="utf-8").partition("\n")[0]
    return first.lstrip("# ").strip() if first.startswith("#") else ""
