"""`botgrpo plot RUN…`: figures from the tables of one or several runs. Trains and evaluates nothing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from botgrpo_cli.errors import InputError

_DEFAULT_METRIC, _DEFAULT_SPLIT = "compile_rate", "held-out"


def plot(
    paths: Annotated[
        list[Path], typer.Argument(metavar="RUN", help="Run folders, metrics.csv files, or study folders with runs.")
    ],
    formats: Annotated[
        str, typer.Option("--format", metavar="LIST", help="One or more of png, svg, pdf, with commas between.")
    ] = "png,svg",
    metric: Annotated[str, typer.Option(help="The metric to draw, as metrics.csv names it.")] = _DEFAULT_METRIC,
    split: Annotated[str, typer.Option(help="The split it was measured on: held-out or train.")] = _DEFAULT_SPLIT,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Folder for the figure. Default: the run's own, or the one that holds the runs."
        ),
    ] = None,
) -> None:
    """Draw a metric over training steps, for one run or several.

    One curve a method or arm; runs that differ in the seed alone are shown with their mean.
    """
    from botgrpo_cli.plots import PLOTS, check_formats, save_figure  # matplotlib takes a second that --help need not
    from botgrpo_cli.records.read import metrics_files, read_runs

    wanted = check_formats(name.strip().lower() for name in formats.split(",") if name.strip())
    files = [file for path in paths for file in metrics_files(path)]
    metrics = read_runs(files)
    figure = PLOTS["curves"](metrics, metric=metric, split=split)
    drawn = metrics[(metrics["metric"] == metric) & (metrics["split"] == split)]
    silent = sorted(set(metrics["run"]) - set(drawn["run"]))
    if silent:
        typer.echo(f"Left out, for want of '{metric}' on the split '{split}': {', '.join(silent)}.", err=True)
    folder = out if out is not None else _home(paths, files)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"The folder {folder} cannot be made: {error.strerror}. Name another with --out.") from error
    for path in save_figure(figure, folder / _stem(metric, split), wanted):
        typer.echo(f"Figure: {path}")


def _home(paths: list[Path], files: list[Path]) -> Path:
    """The run's folder, the study's folder, or the nearest folder that holds all the runs."""
    if len(paths) == 1:
        return paths[0] if paths[0].is_dir() else paths[0].parent
    shared = Path(os.path.commonpath([file.resolve().parent for file in files]))
    if shared == Path(shared.anchor):
        raise InputError("These runs share no folder. Name one for the figure with --out.")
    return Path(os.path.relpath(shared)) if shared.is_relative_to(Path.cwd()) else shared


def _stem(metric: str, split: str) -> str:
    """`figure` for what people look at first; other metrics get names of their own and never overwrite it."""
    if (metric, split) == (_DEFAULT_METRIC, _DEFAULT_SPLIT):
        return "figure"
    return f"figure-{split}-{metric}".replace(os.sep, "_")
