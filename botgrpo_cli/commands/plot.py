"""`botgrpo plot STUDY|RUN…`: figures from the tables of studies and runs. Trains and evaluates nothing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from botgrpo_cli.errors import InputError
from botgrpo_cli.records.write import make_folder

if TYPE_CHECKING:
    import pandas as pd

_SPLIT = "held-out"


def plot(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="STUDY|RUN",
            help="A study (its folder, or its name in results/), a comparison that `winrate` wrote, run folders, "
            "metrics.csv files, or folders with runs.",
        ),
    ],
    formats: Annotated[
        str, typer.Option("--format", metavar="LIST", help="One or more of png, svg, pdf, with commas between.")
    ] = "png,svg",
    metric: Annotated[
        str | None,
        typer.Option(help="The metric to draw, as metrics.csv names it.", show_default="what the task is about"),
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="The split it was measured on: held-out or train.", show_default=_SPLIT)
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Folder for the figure. Default: the run's own, or the one that holds the runs."
        ),
    ] = None,
) -> None:
    """Draw the figure of a study, or a metric over training steps for one run or several.

    A study is drawn from the tables in its folder, as its kind asks. For runs there is one curve a method or arm; runs
    that differ in the seed alone are shown with their mean. With --metric the runs of a study are drawn so too.
    """
    from botgrpo_cli.plots import PLOTS, read_formats, save_figure  # matplotlib takes a second that --help need not
    from botgrpo_cli.records.read import metrics_files, read_runs
    from botgrpo_cli.winrate.tables import TABLE

    wanted = read_formats(formats)
    if metric is None and split is None:
        if studies := _studies(paths):
            _draw_studies(studies, wanted, out)
            return
        if all((path / TABLE).is_file() for path in paths):
            _draw_win_rates(paths, wanted, out)
            return
    split = split or _SPLIT
    files = [file for path in paths for file in metrics_files(path)]
    metrics = read_runs(files)
    headline = _headline(metrics, files)
    metric = metric or headline
    figure = PLOTS["curves"](metrics, metric=metric, split=split)
    drawn = metrics[(metrics["metric"] == metric) & (metrics["split"] == split)]
    silent = sorted(set(metrics["run"]) - set(drawn["run"]))
    if silent:
        typer.echo(f"Left out, for want of '{metric}' on the split '{split}': {', '.join(silent)}.", err=True)
    folder = out if out is not None else _home(paths, files)
    make_folder(folder)
    for path in save_figure(figure, folder / _stem(metric, split, headline), wanted):
        typer.echo(f"Figure: {path}")


def _home(paths: list[Path], files: list[Path]) -> Path:
    """The run's folder, the study's folder, or the nearest folder that holds all the runs."""
    if len(paths) == 1:
        return paths[0] if paths[0].is_dir() else paths[0].parent
    shared = Path(os.path.commonpath([file.resolve().parent for file in files]))
    if shared == Path(shared.anchor):
        raise InputError("These runs share no folder. Name one for the figure with --out.")
    return Path(os.path.relpath(shared)) if shared.is_relative_to(Path.cwd()) else shared


def _stem(metric: str, split: str, headline: str) -> str:
    """`figure` for what people look at first; other metrics get names of their own and never overwrite it."""
    if (metric, split) == (headline, _SPLIT):
        return "figure"
    return f"figure-{split}-{metric}".replace(os.sep, "_")


def _headline(metrics: pd.DataFrame, files: list[Path]) -> str:
    """What the task of these runs is about: as the first one's manifest says, or as its task does."""
    from botgrpo_cli.records.manifest import MANIFEST, read_manifest
    from botgrpo_cli.tasks.registry import shipped_tasks

    for folder in (file.parent for file in files):
        if (folder / MANIFEST).is_file() and (said := read_manifest(folder).get("headline")):
            return str(said)
    headlines = {task.name: task.headline for task in shipped_tasks()}
    found = [headlines[name] for name in metrics["task"].unique() if name in headlines]
    return found[0] if found else "reward"


def _studies(paths: list[Path]) -> list[Path]:
    """The folders of studies that `paths` are; empty when they are runs. Raises InputError when they are both."""
    from botgrpo_cli.plots.study import find_study_folders

    found = [find_study_folders(str(path)) for path in paths]
    if any(found) and not all(found):
        other = next(path for path, there in zip(paths, found, strict=True) if not there)
        raise InputError(f"{other} is no study; draw studies and runs in calls of their own, or name a --metric.")
    for first, *others in filter(None, found):
        for other in others:
            typer.echo(f"{first} is drawn. {other} is of this study too: `botgrpo plot {other}`.", err=True)
    return [there[0] for there in found if there]


def _draw_studies(studies: list[Path], formats: list[str], out: Path | None) -> None:
    from botgrpo_cli.plots.study import save_study_figure

    if out is not None and len(studies) > 1:
        raise InputError("--out takes the figure of one study; name one, or leave it out.")
    if out is not None:
        make_folder(out)
    for study in studies:
        for path in save_study_figure(study, formats, out):
            typer.echo(f"Figure: {path}")


def _draw_win_rates(paths: list[Path], formats: list[str], out: Path | None) -> None:
    """One figure of what `botgrpo winrate` wrote into these folders."""
    import pandas as pd

    from botgrpo_cli.plots import PLOTS, save_figure
    from botgrpo_cli.winrate.tables import TABLE, read_table

    if out is None and len(paths) > 1:
        raise InputError("Several comparisons go into one figure; name its folder with --out.")
    folder = out or paths[0]
    make_folder(folder)
    table = pd.concat([read_table(path / TABLE) for path in paths], ignore_index=True)
    for path in save_figure(PLOTS["winrate"](table), folder / "figure", formats):
        typer.echo(f"Figure: {path}")
