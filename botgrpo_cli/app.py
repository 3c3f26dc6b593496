"""The `botgrpo` command: global options, the list of subcommands, and what an error looks like.

Exit codes: 0 done, 1 the run failed, 2 the input is wrong (nothing was started), 130 interrupted.
Modules imported here stay light; a subcommand imports torch, transformers, pandas and matplotlib when it runs.
"""

from __future__ import annotations

import os
import sys
import traceback
from typing import Annotated, NoReturn

import typer
from rich.text import Text

from botgrpo_cli import __version__
from botgrpo_cli.commands import export, recipes, task
from botgrpo_cli.commands.ablate import ablate
from botgrpo_cli.commands.doctor import doctor
from botgrpo_cli.commands.evaluate import evaluate
from botgrpo_cli.commands.inspect import inspect
from botgrpo_cli.commands.methods import methods
from botgrpo_cli.commands.plot import plot
from botgrpo_cli.commands.report import report
from botgrpo_cli.commands.setup import setup
from botgrpo_cli.commands.train import train
from botgrpo_cli.commands.winrate import winrate
from botgrpo_cli.console import error_console, is_verbose, set_up
from botgrpo_cli.errors import InputError, RunError
from botgrpo_cli.tasks.aime.command import app as aime_app

app = typer.Typer(
    name="botgrpo",
    help="Train language models on token-level rewards with the bag of tokens, and compare with group-relative "
    "baselines. Start with `botgrpo doctor`, then `botgrpo train react_qwen --scale tiny`.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # an unforeseen error keeps Python's own traceback
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"botgrpo {__version__}")
        raise typer.Exit


@app.callback()
def options(
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Say more: library messages, tracebacks of errors.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say less: results only, no progress.")] = False,
    no_color: Annotated[
        bool, typer.Option("--no-color", help="Plain text; the variable NO_COLOR does the same.")
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    if verbose and quiet:
        raise InputError("--verbose and --quiet exclude each other; give one of them.")
    set_up(verbose=verbose, quiet=quiet, color=not no_color)


app.command()(train)
app.command()(evaluate)
app.command()(ablate)
app.command()(winrate)
app.command()(plot)
app.command()(report)
app.command()(inspect)
app.add_typer(recipes.app, name="recipes")
app.add_typer(export.app, name="export")
app.add_typer(task.app, name="task")
app.add_typer(aime_app, name="aime")
app.command()(methods)
app.command()(setup)
app.command()(doctor)


def main(arguments: list[str] | None = None) -> NoReturn:
    """Runs the command line and exits. Wrong input and failed runs become one message on standard error."""
    # torch is not imported yet. By default its threads (GNU OpenMP's, on Linux) spin for long while they wait for each
    # other: beside another process that wants the same cores, two runs at once say, a training step took ten times as
    # long. Spinning this little costs nothing on idle cores; not spinning at all halves the speed of a tiny policy.
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    try:
        app(arguments, prog_name="botgrpo")
    except InputError as error:
        _fail(str(error), 2)
    except RunError as error:
        _fail(str(error), 1)
    except KeyboardInterrupt:
        sys.exit(130)
    sys.exit(0)


def _fail(message: str, code: int) -> NoReturn:
    if is_verbose():
        traceback.print_exc()
    # Text, not markup: a message may hold brackets.
    error_console().print(Text.assemble(("Error: ", "bold red"), message))
    sys.exit(code)
