"""botgrpo evaluate: Pass@k and rates with intervals, for a run, a checkpoint, any model, or a file of completions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from botgrpo_cli.commands.options import ScaleOption, SeedOption
from botgrpo_cli.console import console, progress_console
from botgrpo_cli.errors import InputError, nearest

if TYPE_CHECKING:
    from botgrpo_cli.training.estimates import Answer, Estimate
    from botgrpo_cli.training.evaluate import Subject

SPLITS = ("held-out", "train")
SHARES = ("solved", "parsed_rate", "step_score", "first_error", "truncated")  # shown in per cent, as names in _rate are


def evaluate(
    subject: Annotated[
        str,
        typer.Argument(
            metavar="RUN_OR_MODEL",
            help="A run's folder, a checkpoint in it, a hub id, a model folder, tiny:NAME, small:NAME, or a file of "
            "completions (csv, json, jsonl, parquet).",
        ),
    ],
    recipe: Annotated[
        str | None,
        typer.Option(
            help="Recipe that says how to prompt and score.",
            show_default="the run's, else the shipped one of the model, else react_qwen",
        ),
    ] = None,
    scale: ScaleOption = None,
    split: Annotated[str, typer.Option(help="held-out or train.")] = "held-out",
    prompts: Annotated[int | None, typer.Option(min=1, help="How many prompts.", show_default="the recipe's")] = None,
    samples: Annotated[
        int | None, typer.Option(min=1, help="Completions a prompt.", show_default="the recipe's, else enough for --k")
    ] = None,
    k: Annotated[
        str | None,
        typer.Option(
            "--k", metavar="1,2,4", help="Print Pass@k for these k.", show_default="those of the task as far as they go"
        ),
    ] = None,
    seed: SeedOption = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="CSV file; one row a problem goes into a jsonl file beside it.",
            show_default="evaluation.csv in the run's folder, else here",
        ),
    ] = None,
) -> None:
    """Sample completions for held-out prompts, or read them from a file, and print Pass@k and rates with 95 % intervals
    over prompts."""
    if split not in SPLITS:
        raise InputError(f"--split is '{split}'; expected held-out or train.{nearest(split, SPLITS)}")
    asked = parse_ks(k)
    from botgrpo_cli.training import completions
    from botgrpo_cli.training import evaluate as library

    if completions.is_completions(subject):
        refuse({"--prompts": prompts, "--samples": samples, "--seed": seed})
        found = library.find_file(subject, recipe, scale)
        with progress_console().status("Reading.") as status:
            scored = library.score_file(found, status.update)
        split = "file"
    else:
        found = library.with_samples(library.find_subject(subject, recipe, scale), seed)
        with progress_console().status("Loading.") as status:
            scored = library.sample_answers(
                found, split, ks=asked or [], prompts=prompts, samples=samples, say=status.update
            )
        if scored is None:
            return  # another process prints
    report(found, split, scored.answers, scored.headline, asked, out)
    terminal = console()
    if scored.heuristic:
        terminal.print(f"By a heuristic and not by a model: {', '.join(scored.heuristic)}.")
    if scored.simulated:
        terminal.print(f"Simulated errors: {', '.join(scored.simulated)}.")


def report(
    found: Subject, split: str, answers: Sequence[Answer], headline: str, asked: list[int] | None, out: Path | None
) -> None:
    """The table in the terminal, its CSV file, and the rows of the problems beside it."""
    from botgrpo_cli.training import estimates
    from botgrpo_cli.training.evaluate import write_problems, write_table

    ks = default_ks(found, answers) if asked is None else asked
    rows = estimates.estimate(answers, headline, ks)
    path = out or (found.folder or Path()) / "evaluation.csv"
    problems = path.with_suffix(".jsonl")
    if found.file and problems.resolve() == found.file.resolve():
        raise InputError(f"{problems} is the file that is evaluated; name another with --out.")
    write_table(path, found, split, answers, rows)
    write_problems(problems, estimates.problem_rows(answers, headline))
    terminal = console()
    terminal.print(render(found, split, answers, rows))
    for row in rows:
        if row.value is None and row.metric.startswith("pass@"):
            terminal.print(f"{row.metric} has no value: some prompts have fewer completions.")
    terminal.print(f"Scored by the recipe {found.recipe.name} at scale {found.recipe.scale}; --recipe names another.")
    terminal.print(f"The table is in {path}, the problems are in {problems}.")


def default_ks(found: Subject, answers: Sequence[Answer]) -> list[int]:
    """Those of the task that the problem with the fewest samples allows."""
    from botgrpo_cli.tasks.registry import task_of
    from botgrpo_cli.training.estimates import by_problem

    fewest = min(map(len, by_problem(answers).values()))
    return [k for k in task_of(found.recipe).pass_at if k <= fewest]


def refuse(options: dict[str, Any]) -> None:
    """Options that say how to sample have no meaning for a file."""
    for name, value in options.items():
        if value is not None:
            raise InputError(f"{name} says how to sample, and a file of completions is not sampled.")


def parse_ks(text: str | None) -> list[int] | None:
    """The whole numbers of --k in order; None when it is not given."""
    if text is None:
        return None
    try:
        ks = sorted({int(part) for part in text.split(",")})
    except ValueError:
        ks = [0]
    if ks[0] < 1:
        raise InputError(f"--k is '{text}'; expected whole numbers from 1, for example 1,2,4.")
    return ks


def render(found: Subject, split: str, answers: Sequence[Answer], rows: Sequence[Estimate]) -> Table:
    from botgrpo_cli.training.estimates import by_problem

    sizes = [len(group) for group in by_problem(answers).values()]
    each = f"{min(sizes)}" if min(sizes) == max(sizes) else f"{min(sizes)}-{max(sizes)}"
    where = f" (step {found.checkpoint.step})" if found.checkpoint else "" if found.file else " (as it is)"
    which = "prompts of the file" if found.file else f"{split} prompts"
    table = Table(title=f"{found.name}{where}: {len(sizes)} {which} x {each} samples", title_justify="left")
    table.add_column("metric")
    table.add_column("value", justify="right")
    table.add_column("95 % interval", justify="right")
    for row in rows:
        if row.value is None:
            table.add_row(row.metric, "–", "–")
            continue
        share = row.metric in SHARES or row.metric.endswith("_rate") or row.metric.startswith(("pass@", "status_"))
        shown = "{:.1%}" if share else "{:.2f}"
        interval = "–" if row.low is None else f"{shown.format(row.low)} – {shown.format(row.high)}"
        table.add_row(row.metric, shown.format(row.value), interval)
    return table
