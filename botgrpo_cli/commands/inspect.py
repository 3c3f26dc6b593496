"""botgrpo inspect: rollouts of a step, each token on the colour of its advantage."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from botgrpo_cli.console import console
from botgrpo_cli.errors import InputError, nearest

if TYPE_CHECKING:
    from botgrpo_cli.report.tokens import Line

VALUES = {"advantage": "advantages", "local": "local"}


def inspect(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run's folder.")],
    step: Annotated[int | None, typer.Option(min=0, help="Which step.", show_default="the last one")] = None,
    rollout: Annotated[
        int | None, typer.Option(min=0, help="Which rollout of the step.", show_default="all that were kept")
    ] = None,
    by: Annotated[str, typer.Option(help="What colours a token: its advantage, or its local signal.")] = "advantage",
) -> None:
    """Show kept training rollouts, each token on the colour of its advantage, with what tools said of its line.

    Blue: the update makes the token more likely; orange: less likely. A line's number is the mean of its tokens.
    """
    if by not in VALUES:
        raise InputError(f"--by is '{by}'; expected advantage or local.{nearest(by, VALUES)}")
    from botgrpo_cli.records.read import read_samples

    rows = [row for row in read_samples(run) if row.get("split") == "train"]
    chosen = choose(rows, run, step, rollout)
    terminal = console()
    for row in chosen:
        show(terminal, row, VALUES[by])
    terminal.print(legend(by))


def choose(rows: list[dict[str, Any]], run: Path, step: int | None, rollout: int | None) -> list[dict[str, Any]]:
    """The rows of one step. Raises InputError, naming what there is, when there is none."""
    if not rows:
        raise InputError(f"{run} has kept no training rollout yet.")
    steps = sorted({row["step"] for row in rows})
    step = steps[-1] if step is None else step
    of_step = [row for row in rows if row["step"] == step]
    if not of_step:
        raise InputError(f"{run} has no training rollouts of step {step}; it has steps {steps[0]} to {steps[-1]}.")
    chosen = [row for row in of_step if rollout in (None, row.get("rollout"))]
    if not chosen:
        kept = ", ".join(str(row.get("rollout")) for row in of_step)
        raise InputError(f"Rollout {rollout} of step {step} was not kept; kept are {kept}.")
    return chosen


def show(terminal: Console, row: dict[str, Any], value: Any) -> None:
    from botgrpo_cli.report.tokens import lines_of, remarks_of, scale_of, terms_of

    lines, scale, remarks = lines_of(row, value), scale_of(row, value), remarks_of(row)
    head = f"step {row['step']}, rollout {row.get('rollout')}, {row.get('tokens')} tokens"
    end = "" if row.get("finished") else ", cut off"
    terminal.print(Text(f"{head}{end}: {terms_of(row)}", style="bold"), soft_wrap=True)
    terminal.print(Text(str(row.get("prompt", "")).strip(), style="italic"), soft_wrap=True)
    for line in lines:
        terminal.print(shaded(line, scale), soft_wrap=True)
        for remark in dict.fromkeys(remarks.get(line.number, ())):
            terminal.print(Text(f"            {remark}", style="dim"), soft_wrap=True)
    terminal.print()


def shaded(line: Line, scale: float) -> Text:
    from botgrpo_cli.report.tokens import tint

    mean = "      " if line.mean is None else f"{line.mean:+6.2f}"
    text = Text(f"{mean} {line.number + 1:>3}  ", style="")
    for token in line.tokens:
        red, green, blue = tint(token.value, scale)
        text.append(token.text, style=f"black on rgb({red},{green},{blue})")
    return text


def legend(by: str) -> Text:
    from botgrpo_cli.report.tokens import tint

    word = "advantage" if by == "advantage" else "local signal"
    text = Text(f"{word}: ")
    for value, name in ((-1.0, " below the bag "), (0.0, " 0 "), (1.0, " above ")):
        red, green, blue = tint(value, 1.0)
        text.append(name, style=f"black on rgb({red},{green},{blue})")
    return text.append("  The scale of each rollout ends at its 95 % quantile; the numbers are means of lines.")
