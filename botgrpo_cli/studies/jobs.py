"""Runs of a study as processes: a few at a time, watched through their tables, stopped together."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Literal, Protocol

from botgrpo_cli.studies.follow import Follower

LAUNCH = (sys.executable, "-m", "botgrpo_cli.studies.child")
POLL = 0.25  # seconds between two looks at the processes and their tables

State = Literal["waiting", "running", "done", "failed", "stopped"]


@dataclass
class Job:
    """One process to run: a row and a column of the table that a person sees."""

    row: str
    column: str
    arguments: Sequence[str]  # of the botgrpo command
    log: Path
    follow: Follower
    total: int  # steps
    state: State = "waiting"
    error: str = ""
    started: float = 0.0
    ended: float = 0.0
    first_step: int = 0  # at which this process began
    log_start: int = 0  # bytes that were in the log before
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def step(self) -> int:
        return min(self.follow.step, self.total)


class Watcher(Protocol):
    """What a person sees of it."""

    def started(self, job: Job) -> None: ...

    def looked(self) -> None:
        """Some time has passed; steps may have."""
        ...

    def ended(self, job: Job) -> None: ...


def threads_each(count: int) -> int:
    """torch threads of one of `count` processes that run at once: the cores shared out."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores // count)


def gpu_of(slot: int, gpus: int, visible: str | None) -> dict[str, str]:
    """The variable that gives a process one of several GPUs; nothing where there is one or none.

    >>> gpu_of(3, 2, None), gpu_of(0, 2, "4,5"), gpu_of(1, 1, None)
    ({'CUDA_VISIBLE_DEVICES': '1'}, {'CUDA_VISIBLE_DEVICES': '4'}, {})
    """
    names = visible.split(",") if visible else [str(number) for number in range(gpus)]
    return {"CUDA_VISIBLE_DEVICES": names[slot % gpus]} if gpus > 1 else {}


@dataclass
class Pool:
    """Runs jobs in order, `count` at a time. `keep_open` are file descriptors that the processes hold too."""

    count: int
    launch: Sequence[str] = LAUNCH
    keep_open: Sequence[int] = ()
    gpus: int = 0

    def run(self, jobs: Sequence[Job], watch: Watcher) -> None:
        """Run them all; one that fails stops no other.

        Raises KeyboardInterrupt after every process has saved its state and ended. A second one ends them at once.
        """
        slots: dict[int, Job] = {}
        waiting = list(jobs)
        with _terminated_is_interrupted():
            try:
                while waiting or slots:
                    for slot in range(self.count):
                        if slot not in slots and waiting:
                            slots[slot] = waiting.pop(0)
                            self._start(slots[slot], slot)
                            watch.started(slots[slot])
                    time.sleep(POLL)
                    for slot, job in list(slots.items()):
                        job.follow.look()
                        if job.process.poll() is not None:
                            del slots[slot]
                            _end(job)
                            watch.ended(job)
                    watch.looked()
            except BaseException:
                _stop(list(slots.values()))
                raise

    def _start(self, job: Job, slot: int) -> None:
        job.log.parent.mkdir(parents=True, exist_ok=True)
        job.started, job.state = time.monotonic(), "running"
        job.follow.look()
        job.first_step = job.step
        environment = self._environment(slot)
        with job.log.open("ab") as log:
            job.log_start = log.tell()
            job.process = subprocess.Popen(
                [*self.launch, *job.arguments],
                stdin=subprocess.PIPE,  # held open: see child.py
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                process_group=0,  # Ctrl-C reaches us alone, and each process hears of it once
                pass_fds=tuple(self.keep_open),
            )

    def _environment(self, slot: int) -> Mapping[str, str]:
        threads = str(threads_each(self.count))
        own = {"OMP_NUM_THREADS": threads, "NO_COLOR": "1", "COLUMNS": "120", "PYTHONUNBUFFERED": "1"}
        return {**os.environ, **own, **gpu_of(slot, self.gpus, os.environ.get("CUDA_VISIBLE_DEVICES"))}


def _end(job: Job) -> None:
    job.ended = time.monotonic()
    job.process.stdin.close()
    job.follow.look()
    code = job.process.returncode
    job.state = "done" if code == 0 else "failed"
    if code:
        job.error = last_words(job.log.read_bytes()[job.log_start :].decode(errors="replace"), code)


def _stop(running: Sequence[Job]) -> None:
    """Tell each process once, then wait for what it has to save."""
    for job in running:
        job.process.terminate()
    try:
        for job in running:
            job.process.wait()
    except KeyboardInterrupt:
        for job in running:
            job.process.kill()
        for job in running:
            job.process.wait()
        raise
    finally:
        for job in running:
            job.state = "stopped"
            job.process.stdin.close()


def last_words(log: str, code: int) -> str:
    """Why a process failed, from what it said: the message after the last "Error:", else its last line.

    >>> last_words("Loading.\\nError: There is no GPU.\\n", 2)
    'There is no GPU.'
    """
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [number for number, line in enumerate(lines) if line.startswith("Error: ")]
    if errors:
        return " ".join(lines[errors[-1] :]).removeprefix("Error: ")
    if code < 0:
        return f"It was ended by {signal.Signals(-code).name}."
    return lines[-1] if lines else f"It ended with exit code {code} and said nothing."


@contextlib.contextmanager
def _terminated_is_interrupted() -> Iterator[None]:
    """SIGTERM does what Ctrl-C does: the runs save their state."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    try:
        kept = signal.signal(signal.SIGTERM, interrupt)
    except ValueError:  # outside the main thread Python allows no handlers
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, kept)
