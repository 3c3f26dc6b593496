"""Running a study: what is missing is trained, then compared where the study says so, then the tables are written."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from botgrpo_cli.errors import InputError
from botgrpo_cli.recipe.load import dump_recipe
from botgrpo_cli.records.write import make_folder, write_atomic
from botgrpo_cli.studies import versus
from botgrpo_cli.studies.follow import RunFollower, WinrateFollower
from botgrpo_cli.studies.jobs import LAUNCH, Job, Pool, Watcher, threads_each
from botgrpo_cli.studies.load import Study
from botgrpo_cli.studies.state import Planned, clear, plan
from botgrpo_cli.studies.tables import Finished, finished, up_to_date, write_tables

LOGS = "logs"


class StudyWatcher(Watcher, Protocol):
    """A watcher that is told what there will be to watch."""

    def begins(self, study: Study, planned: Sequence[Planned], jobs: Sequence[Job], count: int) -> None: ...

    def ends(self) -> None:
        """No job of these is left, or all were stopped."""
        ...


@dataclass
class Outcome:
    """How one study went."""

    study: Study
    folder: Path
    planned: list[Planned]
    runs: list[Finished] = field(default_factory=list)
    failed: list[Job] = field(default_factory=list)
    started: int = 0  # processes
    written: bool = False  # whether tables were

    @property
    def kept(self) -> int:
        return sum(run.complete for run in self.planned)


def plan_study(study: Study, root: Path, *, resume: bool) -> list[Planned]:
    """What there is and what there is to do, in `root`/NAME. Raises InputError as `state.plan` does."""
    folder = root / study.name
    compared: set[tuple[str, int]] = set()
    while True:
        planned = plan(study, folder, resume=resume, compared=compared)
        needed = {run for each in versus.left(study, folder, planned) for run in each.pair}
        if needed <= compared:
            return planned
        compared |= needed  # a run that has no checkpoints left is trained again, and so compared with all again


def run_study(
    study: Study,
    root: Path,
    watch: StudyWatcher,
    *,
    resume: bool,
    count: int,
    gpus: int = 0,
    launch: Sequence[str] = LAUNCH,
) -> Outcome:
    """Train what is missing, `count` runs at a time, and write the tables into `root`/NAME.

    Runs that fail are in the outcome, and the tables are those of the others. Raises InputError before anything is
    started, and KeyboardInterrupt after all runs have saved their state.
    """
    plan_study(study, root, resume=resume)  # before a folder is made
    folder = root / study.name
    with _locked(folder) as descriptor:
        outcome = Outcome(study, folder, plan_study(study, root, resume=resume))
        pool = Pool(count, launch, (descriptor,), gpus)
        jobs = [_train(study, run, folder, count) for run in outcome.planned if not run.complete]
        _run(pool, jobs, watch, outcome)
        outcome.runs = finished(study, folder, outcome.planned)
        _run(pool, _compare(study, folder, outcome.runs), watch, outcome)
        if outcome.runs and not up_to_date(study, folder, outcome.runs):
            write_tables(study, folder, outcome.runs, missing(outcome))
            outcome.written = True
    return outcome


def _run(pool: Pool, jobs: list[Job], watch: StudyWatcher, outcome: Outcome) -> None:
    if not jobs:
        return
    watch.begins(outcome.study, outcome.planned, jobs, pool.count)
    try:
        pool.run(jobs, watch)
    finally:
        watch.ends()
    outcome.started += len(jobs)
    outcome.failed += [job for job in jobs if job.state == "failed"]


def missing(outcome: Outcome) -> list[str]:
    """Names of the runs and comparisons that were asked for and are not complete."""
    there = {run.name for run in outcome.runs}
    runs = [run.name for run in outcome.planned if run.name not in there]
    compared = versus.comparisons(outcome.study, outcome.folder, outcome.runs)
    return runs + [each.name for each in compared if not each.complete]


def _train(study: Study, run: Planned, folder: Path, count: int) -> Job:
    """One `botgrpo train`, from a file with the resolved recipe beside the log."""
    if run.state == "new":
        clear(run)
    recipe, path = run.recipe, folder / LOGS / f"{run.name}.yaml"
    if not recipe.training.threads:
        training = recipe.training.model_copy(update={"threads": threads_each(count)})
        recipe = recipe.model_copy(update={"training": training})
    path.parent.mkdir(exist_ok=True)
    write_atomic(path, dump_recipe(recipe).encode())
    arguments = ["train", str(path), "--out", str(run.folder), "--study", study.name, "--arm", run.arm]
    return Job(
        row=run.arm,
        column=f"seed {run.seed}",
        arguments=[*arguments, *(["--resume"] if run.state == "resume" else [])],
        log=path.with_suffix(".log"),
        follow=RunFollower(run.folder, study.keys.metrics[0]),
        total=recipe.training.steps,
    )


def _compare(study: Study, folder: Path, runs: Sequence[Finished]) -> list[Job]:
    """The comparisons that are not complete and whose runs are."""
    jobs = []
    for each in versus.comparisons(study, folder, runs):
        if each.complete or not each.ready:
            continue
        jobs.append(
            Job(
                row=f"against {each.other}",
                column=f"seed {each.seed}",
                arguments=each.arguments(),
                log=folder / LOGS / f"{each.name}.log",
                follow=WinrateFollower(each.folder),
                total=len(each.steps),
            )
        )
    return jobs


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[int]:
    """One study at a time works in a folder. The runs hold the lock too: what a killed study left is waited for.

    Raises InputError when another one works there, or the folder can't be made.
    """
    make_folder(folder)
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise InputError(f"The folder {folder} cannot be read: {error.strerror}. Name another with --out.") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise InputError(
            f"Another `botgrpo ablate` works in {folder}, or the runs of one that was killed are still saving their "
            "state. Try again when it has ended, or name another folder with --out."
        ) from None
    try:
        yield descriptor
    finally:
        os.close(descriptor)
