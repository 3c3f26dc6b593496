"""botgrpo ablate: a study, or all of them: every arm at every seed, then tables and figure."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from botgrpo_cli.commands.options import ScaleOption, StepsOption
from botgrpo_cli.console import console, error_console, progress_console
from botgrpo_cli.errors import InputError, RunError
from botgrpo_cli.records.rooms import RESULTS

if TYPE_CHECKING:
    from botgrpo_cli.studies.load import Study
    from botgrpo_cli.studies.run import Outcome
    from botgrpo_cli.studies.state import Planned

SCALES = ("tiny", "small", "paper")
ALL = "all"


def ablate(
    study: Annotated[
        str | None, typer.Argument(metavar="STUDY|all", help="A shipped study, a study file, or all shipped ones.")
    ] = None,
    scale: ScaleOption = None,
    seeds: Annotated[
        str | None, typer.Option(metavar="0,1,2", help="Training seeds.", show_default="the study's")
    ] = None,
    steps: StepsOption = None,
    arms: Annotated[
        str | None, typer.Option(metavar="A,B", help="Run only these arms.", show_default="all of them")
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(min=1, help="Runs at a time.", show_default="a core each at tiny scale, else 1"),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Keep finished runs, go on with the others from their checkpoints.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check everything, print what would run.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder that holds the folders of studies.",
            show_default="results; the next free one of results-2, results-3 … when the study is finished there",
        ),
    ] = None,
    show: Annotated[bool, typer.Option("--list", help="The studies: figure, arms, needs, time at each scale.")] = False,
    readme: Annotated[bool, typer.Option("--readme", help="Only write DIR/README.md from the studies there.")] = False,
) -> None:
    """Run a study: every arm at every seed, each a `botgrpo train`; then curves.csv, summary.csv and the figure.

    A study is a YAML file: a recipe, arms that change it, seeds, metrics. `botgrpo ablate --list` shows the shipped
    ones; write your own the same way. Results go into DIR/STUDY.
    """
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    if show:
        print_list(console())
        return
    if readme:
        _write_readme(out or RESULTS)
        return
    if study is None:
        raise InputError("Which study? Name one, or all; `botgrpo ablate --list` shows them.")
    studies = load_studies(study, scale=scale, seeds=numbers(seeds), steps=steps, arms=words(arms))
    from botgrpo_cli.studies import versus
    from botgrpo_cli.studies.run import plan_study

    out = out or (RESULTS if resume else _room(studies))
    plans = [plan_study(each, out, resume=resume) for each in studies]
    if dry_run:
        for each, planned in zip(studies, plans, strict=True):
            print_plan(console(), each, planned, len(versus.left(each, out / each.name, planned)))
        console().print("Dry run: every recipe resolves; nothing was started or written.")
        return
    outcomes: list[Outcome] = []
    try:
        for each in studies:
            outcomes.append(_run_one(each, out, resume=resume, jobs=jobs))
    except KeyboardInterrupt:
        console().print("Interrupted: every run has saved its state. To go on:")
        console().print(f"  {again(study, scale, seeds, steps, arms, jobs, out)}", soft_wrap=True, markup=False)
        raise
    if any(outcome.written for outcome in outcomes):
        _write_readme(out)
    elif not any(outcome.started for outcome in outcomes):
        console().print("Everything is complete; nothing was computed.")
    _name_failures(outcomes)


def _room(studies: Sequence[Study]) -> Path:
    """Where studies go that are to be begun, said where it is not the usual folder."""
    from botgrpo_cli.studies.state import free_root, taken

    root = free_root(studies)
    if root != RESULTS:
        there = [each.name for each in studies if taken(each, RESULTS / each.name)]
        console().print(
            f"{RESULTS}/ holds {' and '.join(there)} already, and keeps it; this goes into {root}/. (With --resume "
            f"what is in {RESULTS}/ would be gone on with.)",
            soft_wrap=True,
        )
    return root


def load_studies(
    name: str,
    *,
    scale: str | None,
    seeds: list[int] | None,
    steps: int | None,
    arms: list[str] | None,
) -> list[Study]:
    """One study, or all shipped ones that make sense at the scale. Raises RecipeError with the problems of all."""
    from botgrpo_cli.recipe.errors import RecipeError
    from botgrpo_cli.studies.load import load_study
    from botgrpo_cli.studies.shipped import study_names

    found, problems = [], []
    for each in study_names() if name == ALL else [name]:
        try:
            found.append(load_study(each, scale=scale, seeds=seeds, steps=steps, arms=arms))
        except RecipeError as error:
            if name == ALL and {problem.key for problem in error.problems} == {"at"}:
                error_console().print(f"Left out: {each}. {error.problems[0].text}", markup=False)
            else:
                problems += error.problems
    if problems:
        raise RecipeError({str(problem): problem for problem in problems}.values(), kind="study")
    return found


def _run_one(study: Study, out: Path, *, resume: bool, jobs: int | None) -> Outcome:
    import torch

    from botgrpo_cli.commands.ablate_table import AblateTable
    from botgrpo_cli.plots.study import save_study_figure
    from botgrpo_cli.studies.jobs import threads_each
    from botgrpo_cli.studies.run import run_study

    count = jobs or (threads_each(1) if study.scale == "tiny" else 1)
    watch = AblateTable(progress_console())
    outcome = run_study(study, out, watch, resume=resume, count=count, gpus=torch.cuda.device_count())
    if not outcome.started:
        said = "nothing to do" if not outcome.written else "only the tables were made anew"
        console().print(f"{study.name}: {outcome.kept} runs are complete; {said}.", soft_wrap=True)
    if outcome.written or (outcome.runs and not (outcome.folder / "figure.png").is_file()):
        try:
            save_study_figure(outcome.folder)
        except InputError as error:
            error_console().print(f"{study.name}: no figure was drawn. {error}", markup=False)
    if outcome.written:
        print_summary(console(), outcome)
    return outcome


def print_summary(terminal: Console, outcome: Outcome) -> None:
    """The headline of every arm, as summary.csv has it."""
    from botgrpo_cli.metrics import in_words, shown
    from botgrpo_cli.studies.tables import read_summary

    keys, rows = outcome.study.keys, read_summary(outcome.folder)
    metric, level = keys.metrics[0], f"{100 * keys.thresholds[0]:g}"
    table = Table(box=None, title=f"{outcome.study.name}: held-out {in_words(metric)}", title_justify="left")
    for name in ("arm", "seeds", "final", "95 %", f"steps to {level} %", "speed-up", "drop"):
        table.add_column(name, no_wrap=True)
    for _, row in rows[rows["metric"] == metric].iterrows():

        def cell(name: str, row: dict[str, str] = row) -> str:
            return shown(metric, float(row[name])) if row[name] else "-"

        interval = f"{cell('final_low')} – {cell('final_high')}" if row["final_low"] else "-"
        faster = f"{row[f'speed_up_{level}']}x" if row[f"speed_up_{level}"] else "-"
        steps = row[f"steps_{level}"] or "-"
        table.add_row(row["arm"], row["seeds"], cell("final"), interval, steps, faster, cell("drop"))
    terminal.print(table)
    terminal.print(f"Tables and figure: {outcome.folder}/", soft_wrap=True)


def print_plan(terminal: Console, study: Study, planned: Sequence[Planned], compared: int) -> None:
    """What is there, and what would run: runs, then so many comparisons."""
    from botgrpo_cli.studies import needs

    left = [run for run in planned if not run.complete]
    table = Table(
        box=None, title=escape(f"{study.name} at scale {study.scale}: {study.keys.title}"), title_justify="left"
    )
    for name in ("run", "state", "changes"):
        table.add_column(name, overflow="fold")
    said = {"new": "to be trained", "resume": "to be gone on with", "kept": "complete"}
    for run in planned:
        state = f"taken from {run.folder}" if run.state == "reused" else said[run.state]
        table.add_row(run.name, state, " ".join(study.arm(run.arm).changes))
    terminal.print(table)
    about = f", an estimated {needs.in_words(needs.minutes(study, runs=len(left)))} one after the other" if left else ""
    then = f" Then {compared} comparisons." if compared else ""
    terminal.print(f"{len(left)} runs to train{about}.{then}", soft_wrap=True)
    terminal.print(f"Needs: {', '.join(needs.needs(study)) or 'nothing else'}.", soft_wrap=True)


def print_list(terminal: Console) -> None:
    """Every shipped study at every scale."""
    from botgrpo_cli.recipe.errors import RecipeError
    from botgrpo_cli.studies import needs
    from botgrpo_cli.studies.load import load_study
    from botgrpo_cli.studies.shipped import shipped_studies, sweep_names

    for name in shipped_studies():
        at = {}
        for scale in SCALES:
            try:
                at[scale] = load_study(name, scale=scale)
            except RecipeError as error:
                at[scale] = error
        first = next((each for each in at.values() if not isinstance(each, RecipeError)), None)
        if first is None:
            raise at["paper"]
        keys = first.keys
        where = f"figure {keys.figure}" if keys.figure.isdecimal() else keys.figure
        terminal.print(f"[bold]{name}[/bold]  {escape(f'{where}: {keys.title}')}")
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 2))
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold")
        table.add_row("arms", f"{', '.join(arm.name for arm in first.arms)}; seeds {', '.join(map(str, first.seeds))}")
        for scale, each in at.items():
            if isinstance(each, RecipeError):
                table.add_row(scale, f"not at this scale: {each.problems[0].text}")
                continue
            time = needs.in_words(needs.minutes(each))
            table.add_row(scale, f"{time}; needs {', '.join(needs.needs(each)) or 'nothing else'}")
        terminal.print(table)
    terminal.print(
        "Times are estimates, all runs one after the other: tiny and small from runs with one thread of two busy "
        "cores, paper reckoned for one 80 GB GPU and never run. Runs that studies share are trained once. "
        f"`botgrpo ablate all` leaves out {' and '.join(sweep_names())}.",
    )


def numbers(text: str | None) -> list[int] | None:
    """The seeds of `--seeds`."""
    if text is None:
        return None
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"--seeds is '{text}'; expected integers with commas between, as in 0,1,2.") from None


def words(text: str | None) -> list[str] | None:
    """The names of `--arms`."""
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]


def again(
    study: str, scale: str | None, seeds: str | None, steps: int | None, arms: str | None, jobs: int | None, out: Path
) -> str:
    """The command that goes on."""
    given = {"--scale": scale, "--seeds": seeds, "--steps": steps, "--arms": arms, "--jobs": jobs}
    parts = ["botgrpo", "ablate", study]
    for name, value in given.items():
        parts += [name, str(value)] if value is not None else []
    parts += ["--out", str(out)] if out != RESULTS else []
    return shlex.join([*parts, "--resume"])


def _write_readme(out: Path) -> None:
    from botgrpo_cli.studies.readme import write_readme

    path = write_readme(out)
    if path:
        console().print(f"{path} is up to date.", soft_wrap=True)


def _name_failures(outcomes: Sequence[Outcome]) -> None:
    failed = [(outcome, job) for outcome in outcomes for job in outcome.failed]
    if failed:
        lines = [f"{len(failed)} of the runs failed; the tables are those of the others. Add --resume to try again."]
        lines += [f"{o.study.name}: {job.row}, {job.column}: {job.error} (log: {job.log})" for o, job in failed]
        raise RunError("\n".join(lines))
