"""What a person sees of a running study: one table of arms x seeds, or a line an event where there is no terminal."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from botgrpo_cli.metrics import in_words, shown
from botgrpo_cli.studies import needs
from botgrpo_cli.studies.follow import RunFollower

if TYPE_CHECKING:
    from botgrpo_cli.studies.jobs import Job
    from botgrpo_cli.studies.load import Study
    from botgrpo_cli.studies.state import Planned

STYLES = {"running": "bold", "failed": "red", "waiting": "dim", "stopped": "yellow"}


class AblateTable:
    """The `StudyWatcher` of the command line."""

    def __init__(self, terminal: Console) -> None:
        self._terminal = terminal
        self._live: Live | None = None

    def begins(self, study: Study, planned: Sequence[Planned], jobs: Sequence[Job], count: int) -> None:
        self._study, self._jobs, self._count = study, list(jobs), count
        training = all(job.arguments[0] == "train" for job in jobs)
        self._metric = study.keys.metrics[0] if training else "win_rate"
        self._kept = [run for run in planned if run.complete] if training else []
        self._values = {run.name: _value(run, self._metric) for run in self._kept}
        if self._terminal.is_terminal:
            self._live = Live(console=self._terminal, auto_refresh=False, transient=False)
            self._live.start()
            self.looked()

    def started(self, job: Job) -> None:
        if self._live is None:
            self._terminal.print(f"{self._study.name}: {job.row}, {job.column}: started.", highlight=False)
        self.looked()

    def looked(self) -> None:
        if self._live is not None:
            self._live.update(self._table(), refresh=True)

    def ended(self, job: Job) -> None:
        if self._live is None:
            seconds = job.ended - job.started
            how = "failed" if job.state == "failed" else f"done in {needs.in_words(seconds / 60)}{self._at(job)}"
            self._terminal.print(f"{self._study.name}: {job.row}, {job.column}: {how}.", highlight=False)
        self.looked()

    def ends(self) -> None:
        if self._live is not None:
            self.looked()
            self._live.stop()
            self._live = None

    def _at(self, job: Job) -> str:
        value = job.follow.value
        return "" if value is None else f", {in_words(self._metric)} {shown(self._metric, value)}"

    def _table(self) -> Group:
        cells: dict[tuple[str, str], Text] = {}
        for run in self._kept:
            where = "kept" if run.state == "kept" else f"of {run.folder.parent.name}"
            cells[run.arm, f"seed {run.seed}"] = Text(f"{self._values[run.name]} {where}".strip(), style="dim")
        for job in self._jobs:
            cells[job.row, job.column] = self._cell(job)
        rows = list(dict.fromkeys(row for row, _ in cells))
        columns = list(dict.fromkeys(column for _, column in sorted(cells, key=lambda cell: _number(cell[1]))))
        title = f"{self._study.name} at scale {self._study.scale}: held-out {in_words(self._metric)}"
        table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
        table.add_column("", style="bold", no_wrap=True)
        for column in columns:
            table.add_column(column, no_wrap=True)
        for row in rows:
            table.add_row(row, *(cells.get((row, column), Text()) for column in columns))
        return Group(Text(title, style="italic"), table, Text(self._caption(), style="dim"))

    def _cell(self, job: Job) -> Text:
        value = "" if job.follow.value is None else f" {shown(self._metric, job.follow.value)}"
        words = {
            "waiting": "waiting",
            "running": f"{job.step}/{job.total}{value}",
            "done": f"{value.strip()} done".strip(),
            "failed": f"failed at {job.step}",
            "stopped": f"stopped at {job.step}",
        }
        return Text(words[job.state], style=STYLES.get(job.state, ""))

    def _caption(self) -> str:
        done = sum(job.state in ("done", "failed") for job in self._jobs)
        parts = [f"{done} of {len(self._jobs)} done"]
        if done < len(self._jobs):
            left = minutes_left(self._jobs, self._count, time.monotonic())
            parts.append(f"about {needs.in_words(left)} left" if left is not None else "reckoning the time")
            parts.append("Ctrl-C saves and stops")
        return " · ".join(parts)


def minutes_left(jobs: Sequence[Job], count: int, now: float) -> float | None:
    """From the pace of these jobs so far; None before any of them has made a step."""
    paces = {}  # seconds a step
    for number, job in enumerate(jobs):
        steps = job.step - job.first_step
        if job.started and steps > 0:
            paces[number] = ((job.ended or now) - job.started) / steps
    if not paces:
        return None
    mean = sum(paces.values()) / len(paces)
    open_jobs = [(number, job) for number, job in enumerate(jobs) if job.state in ("waiting", "running")]
    seconds = [paces.get(number, mean) * (job.total - job.step) for number, job in open_jobs]
    return max([sum(seconds) / count, *seconds], default=0.0) / 60


def _value(run: Planned, metric: str) -> str:
    follow = RunFollower(run.folder, metric)
    follow.look()
    return "" if follow.value is None else shown(metric, follow.value)


def _number(column: str) -> int:
    return int(column.split()[-1])
