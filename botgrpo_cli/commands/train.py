"""botgrpo train: one recipe, one run."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from botgrpo_cli.commands.options import MethodOption, RecipeArgument, ScaleOption, SeedOption, SetOption, StepsOption
from botgrpo_cli.console import console, error_console, progress_console
from botgrpo_cli.training import engines, trackers

if TYPE_CHECKING:
    from botgrpo_cli.training.engines import Engine
    from botgrpo_cli.training.run import Prepared


def train(
    recipe: RecipeArgument,
    scale: ScaleOption = None,
    sets: SetOption = None,
    seed: SeedOption = None,
    steps: StepsOption = None,
    method: MethodOption = None,
    engine: Annotated[
        str, typer.Option(metavar="native|trl", help="Who samples and updates: botgrpo itself, or TRL's GRPO trainer.")
    ] = "native",
    out: Annotated[
        Path | None, typer.Option(help="Folder of the run.", show_default="results/RECIPE-SCALE-METHOD-seedN")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the last checkpoint in the run's folder.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Load and check everything, print the plan, train nothing.")
    ] = False,
    study: Annotated[str, typer.Option(hidden=True, help="Label of the records: the study that the run is for.")] = "",
    arm: Annotated[str, typer.Option(hidden=True, help="Label of the records: the arm of the study.")] = "",
) -> None:
    """Train a policy as RECIPE says and write its metrics, samples and checkpoints.

    RECIPE is a file or the name of a shipped recipe: `botgrpo train react_qwen --scale tiny`.
    """
    from botgrpo_cli.recipe.checks import check_processes
    from botgrpo_cli.recipe.load import load_recipe

    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    processes = engines.join(engines.known(engine))
    with processes.agreed():
        loaded = load_recipe(recipe, scale=scale, sets=sets or (), seed=seed, steps=steps, method=method)
        for note in loaded.notes:
            error_console().print(note)
        check_processes(loaded.recipe, processes.count, sources=loaded.sources)
        engines.check_recipe(engine, loaded.recipe)
        from botgrpo_cli.training import run

        out = out or run.default_out(loaded.recipe)
        if resume:
            run.refuse_other_recipe(loaded.recipe, out)
            engines.refuse_other_engine(engine, out)
        elif not dry_run and out.exists():
            run.refuse_occupied(out)
        if processes.main:
            trackers.prepare(loaded.recipe.training.trackers, out)  # last: it may ask a server
    progress = progress_console()
    with progress.status("Loading.") as status:
        prepared = run.prepare(loaded.recipe, out, say=status.update, processes=processes)
    try:
        chosen = engines.make_engine(engine, prepared)
        print_plan(console() if dry_run else progress, prepared, chosen)
        if dry_run:
            console().print("Dry run: everything loads; nothing was trained or written.")
        else:
            run_to_end(progress, prepared, resume, chosen, study=study, arm=arm)
    finally:
        prepared.close()
    processes.leave()


def print_plan(terminal: Console, prepared: Prepared, engine: Engine) -> None:
    from botgrpo_cli.training.plan import plan_rows

    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    p = prepared
    rows = plan_rows(p.plan, p.recipe, p.policy, type(p.decoder).__name__, p.out)
    for row in [*rows, *trackers.plan_rows(p.recipe.training.trackers, p.out), *engine.rows]:
        table.add_row(*row)
    terminal.print(table)


def run_to_end(
    progress: Console, prepared: Prepared, resume: bool, engine: Engine, *, study: str = "", arm: str = ""
) -> None:
    """Train, and leave the manifest with how it ended."""
    from botgrpo_cli.commands.progress import ProgressReporter
    from botgrpo_cli.training import session

    started = time.monotonic()
    steps, out = prepared.recipe.training.steps, prepared.out
    reporter = ProgressReporter(progress, steps=steps, headline=prepared.task.headline)
    begun = session.begin(prepared, engine, reporter, resume=resume, study=study, arm=arm)
    if resume:
        progress.print(f"Going on at step {begun.trainer.step} of {steps}.")
        reporter.progress.update(reporter.task, completed=begun.trainer.step)
    try:
        with reporter:
            session.finish(begun)
    except KeyboardInterrupt:
        console().print(f"Interrupted: the state after step {begun.trainer.step} is saved in {out}. To go on:")
        console().print(f"  {resume_command(out, engine.name)}", soft_wrap=True)
        raise
    console().print(f"Done: {steps} steps in {time.monotonic() - started:.0f} s; metrics and samples are in {out}/.")
    console().print(f"Draw the figure with: botgrpo plot {out}")
    console().print(f"What it wrote, and which tokens were blamed: botgrpo inspect {out}")


def resume_command(out: Path, engine: str = "native") -> str:
    """The run's own resolved recipe, so that it needs none of the flags of the first call."""
    option = "" if engine == "native" else f" --engine {engine}"
    return f"botgrpo train {out / 'recipe.yaml'} --out {out}{option} --resume"
