"""botgrpo evaluate: rates with intervals for a run, a checkpoint or any model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from botgrpo_cli.commands.options import ScaleOption, SeedOption
from botgrpo_cli.console import console, progress_console
from botgrpo_cli.errors import InputError, nearest

SPLITS = ("held-out", "train")


def evaluate(
    subject: Annotated[
        str,
        typer.Argument(
            metavar="RUN_OR_MODEL",
            help="A run's folder, a checkpoint in it, a hub id, a model folder, tiny:NAME or small:NAME.",
        ),
    ],
    recipe: Annotated[
        str | None,
        typer.Option(help="Recipe that says how to prompt and score.", show_default="the run's, else react_qwen"),
    ] = None,
    scale: ScaleOption = None,
    split: Annotated[str, typer.Option(help="held-out or train.")] = "held-out",
    prompts: Annotated[int | None, typer.Option(min=1, help="How many prompts.", show_default="the recipe's")] = None,
    samples: Annotated[
        int | None, typer.Option(min=1, help="Completions a prompt.", show_default="the recipe's, else enough for --k")
    ] = None,
    k: Annotated[str | None, typer.Option("--k", metavar="1,2,4", help="Also print pass@k for these k.")] = None,
    seed: SeedOption = None,
    out: Annotated[
        Path | None, typer.Option(help="CSV file.", show_default="evaluation.csv in the run's folder, else here")
    ] = None,
) -> None:
    """Sample completions for held-out prompts and print rates with 95 % intervals over prompts."""
    if split not in SPLITS:
        raise InputError(f"--split is '{split}'; expected held-out or train.{nearest(split, SPLITS)}")
    ks = parse_ks(k)
    from botgrpo_cli.tasks.registry import make_task
    from botgrpo_cli.training import evaluate as library
    from botgrpo_cli.training.processes import join

    found = library.with_samples(library.find_subject(subject, recipe, scale), seed)
    count = samples or max([found.recipe.evaluation.samples, *ks])
    if ks and max(ks) > count:
        raise InputError(f"--k {max(ks)} needs at least as many samples a prompt, and --samples is {count}.")
    terminal, processes = console(), join()
    with progress_console().status("Loading.") as status:
        with processes.agreed():
            policy = library.load_subject(found, processes)
            task = make_task(found.recipe, status.update)
        try:
            status.update("Sampling and scoring.")
            batch = library.run_evaluation(
                found, policy, task, split=split, prompts=prompts, samples=count, processes=processes
            )
            said = task.provenance()
        finally:
            task.close()
    processes.leave()
    if not processes.main:
        return
    rows = library.estimate(batch, task.headline, ks)
    path = out or (found.folder or Path()) / "evaluation.csv"
    library.write_table(path, found, split, batch, rows)
    terminal.print(render(found, split, batch, rows))
    if said["heuristic"]:
        terminal.print(f"By a heuristic and not by a model: {', '.join(said['heuristic'])}.")
    if said["simulated"]:
        terminal.print(f"Simulated errors: {', '.join(said['simulated'])}.")
    terminal.print(f"The table is in {path}.")


def parse_ks(text: str | None) -> list[int]:
    if text is None:
        return []
    try:
        ks = sorted({int(part) for part in text.split(",")})
    except ValueError:
        ks = [0]
    if ks[0] < 1:
        raise InputError(f"--k is '{text}'; expected whole numbers from 1, for example 1,2,4.")
    return ks


def render(subject, split: str, batch, rows) -> Table:
    prompts = len({p.id for p in batch.prompts})
    where = f"step {subject.checkpoint.step}" if subject.checkpoint else "as it is"
    table = Table(
        title=f"{subject.name} ({where}): {prompts} {split} prompts x {len(batch.prompts) // prompts} samples",
        title_justify="left",
    )
    table.add_column("metric")
    table.add_column("value", justify="right")
    table.add_column("95 % interval", justify="right")
    for row in rows:
        if row.value is None:
            table.add_row(row.metric, "–", "–")
            continue
        shown = "{:.1%}" if row.metric.endswith(("_rate", "truncated")) or "@" in row.metric else "{:.2f}"
        interval = "–" if row.low is None else f"{shown.format(row.low)} – {shown.format(row.high)}"
        table.add_row(row.metric, shown.format(row.value), interval)
    return table
