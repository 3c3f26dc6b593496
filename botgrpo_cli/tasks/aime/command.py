"""botgrpo aime: look at problem data before a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from botgrpo_cli.console import console, error_console
from botgrpo_cli.errors import InputError

if TYPE_CHECKING:
    from botgrpo_cli.tasks.aime.data import Loaded

app = typer.Typer(help="Look at AIME problem data before a run.", no_args_is_help=True)
SHOWN = 20  # rows listed under each heading


@app.callback()
def group() -> None:
    """Makes `inspect` a subcommand although it is the only one."""


@app.command()
def inspect(
    source: Annotated[
        str, typer.Argument(metavar="PATH", help="A csv, json, jsonl or parquet file, or the id of a hub data set.")
    ],
    problem_column: Annotated[str | None, typer.Option(help="Column of the problems.", show_default="guessed")] = None,
    answer_column: Annotated[str | None, typer.Option(help="Column of the answers.", show_default="guessed")] = None,
    skip_odd: Annotated[
        bool, typer.Option("--skip-odd", help="Leave out rows that can't be used, instead of refusing the data.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the held-out split.")] = 0,
    held_out: Annotated[float, typer.Option(min=0.0, max=1.0, help="Share of problems that is held out.")] = 0.1,
) -> None:
    """Say what a run would make of problem data: golds, figures, duplicates, odd rows, split sizes."""
    from botgrpo_cli.tasks.aime.data import load_problems, split_problems

    loaded = load_problems(source, problem_column=problem_column, answer_column=answer_column, skip_odd=True)
    sizes = [len(part) for part in split_problems(loaded.problems, seed=seed, share=held_out)]
    out = console()
    out.print(_summary(loaded, sizes, seed, held_out, skip_odd))
    _list(out, "Golds with several values", _several(loaded))
    _list(out, "Gold 0", [problem.row for problem in loaded.problems if 0 in problem.golds])
    _list(out, "Dropped: the figure is only an image's name", loaded.figures)
    _list(out, "Dropped: the text of an earlier row", loaded.duplicates)
    _list(out, "Odd rows", [f"{odd.row}: {odd.reason}" for odd in loaded.odd])
    if loaded.odd and not skip_odd:
        raise InputError(
            f"{loaded.source}: {len(loaded.odd)} of {loaded.counts['rows']} rows can't be used, as listed above. "
            "Correct them, name other columns, or give --skip-odd."
        )
    if not all(sizes):
        error_console().print("Note: one of the two splits is empty; change --held-out.", markup=False)


def _summary(loaded: Loaded, sizes: list[int], seed: int, share: float, skip_odd: bool) -> Table:
    counts = loaded.counts
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="fold", style="dim")
    odd = "skipped" if skip_odd else "refused; --skip-odd leaves them out"
    for label, value, note in (
        ("rows", counts["rows"], loaded.source),
        ("odd rows", counts["odd"], odd if counts["odd"] else ""),
        ("figures dropped", counts["figures_dropped"], "only the name of an image"),
        ("duplicates dropped", counts["duplicates"], "the text of an earlier row"),
        ("problems", counts["problems"], f"from '{loaded.problem_column}', answers from '{loaded.answer_column}'"),
        ("  with several golds", counts["several_golds"], "each is right"),
        ("  with gold 0", counts["zeros"], ""),
        ("  with an [asy] figure", counts["figures_kept"], "kept: the figure is text"),
        *((f"  {level}", sum(p.level == level for p in loaded.problems), "") for level in ("easy", "medium", "hard")),
        ("train", sizes[0], f"by the hash of seed {seed} and the text"),
        ("held-out", sizes[1], f"share {share:g}"),
    ):
        table.add_row(Text(label), f"{value:,}", Text(note))
    return table


def _several(loaded: Loaded) -> list[str]:
    several = [problem for problem in loaded.problems if len(problem.golds) > 1]
    return [f"{problem.row}: {' or '.join(map(str, sorted(problem.golds)))}" for problem in several]


def _list(out: Console, title: str, rows: Sequence[str]) -> None:
    """A heading with its rows below, nothing when there are none. The text may hold brackets, so it is no markup."""
    if not rows:
        return
    out.print()
    out.print(Text(title, style="bold"))
    for row in rows[:SHOWN]:
        out.print(Text(f"  {row}"), soft_wrap=True)
    if len(rows) > SHOWN:
        out.print(f"  and {len(rows) - SHOWN} more")
