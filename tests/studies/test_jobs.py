"""Processes side by side: order, failures, how far they are, and that they end together."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from botgrpo_cli.records.schema import RunLabels
from botgrpo_cli.records.write import RunWriter
from botgrpo_cli.studies.follow import RunFollower, WinrateFollower
from botgrpo_cli.studies.jobs import Job, Pool, last_words, threads_each

PYTHON = (sys.executable, "-c")


class Still:
    step, value = 0, None

    def look(self):
        """Nothing to see."""


class Events:
    def __init__(self, jobs, at_end=lambda job: None):
        self.said, self.jobs, self.most, self._at_end = [], jobs, 0, at_end

    def started(self, job):
        self.said.append(("started", job.row))
        self.most = max(self.most, sum(each.state == "running" for each in self.jobs))

    def looked(self):
        """Nothing to say."""

    def ended(self, job):
        self.said.append((job.state, job.row))
        self._at_end(job)


def jobs(tmp_path, *programs):
    return [
        Job(f"job-{n}", "seed 0", [program], tmp_path / f"logs/job-{n}.log", Still(), 10)
        for n, program in enumerate(programs)
    ]


def test_all_run_a_few_at_a_time_and_a_failure_stops_no_other(tmp_path):
    every = jobs(tmp_path, "print(1)", "raise SystemExit('Error: no such thing')", "print(3)", "print(4)")
    events = Events(every)
    Pool(2, PYTHON).run(every, events)
    assert events.most == 2
    assert [job.state for job in every] == ["done", "failed", "done", "done"]
    assert every[1].error == "no such thing"
    assert [name for word, name in events.said if word == "started"] == ["job-0", "job-1", "job-2", "job-3"]
    assert (tmp_path / "logs/job-3.log").read_text() == "4\n"


def test_a_log_goes_on_and_old_errors_are_not_reported_again(tmp_path):
    log = tmp_path / "logs/job-0.log"
    log.parent.mkdir()
    log.write_text("Error: the old one\n")
    every = jobs(tmp_path, "print('The new one.'); raise SystemExit(3)")
    Pool(1, PYTHON).run(every, Events(every))
    assert every[0].error == "The new one."
    assert log.read_text() == "Error: the old one\nThe new one.\n"


def test_processes_know_their_threads_and_end_of_input_is_the_end_of_the_starter(tmp_path):
    every = jobs(tmp_path, "import os; print(os.environ['OMP_NUM_THREADS'], os.environ['NO_COLOR'])")
    Pool(1000, PYTHON).run(every, Events(every))
    assert every[0].log.read_text() == "1 1\n"
    assert threads_each(1) >= threads_each(1000) == 1


SAVES = """
import signal, sys
def stop(number, frame):
    print("saved", flush=True)
    sys.exit(130)
signal.signal(signal.SIGTERM, stop)
print("up", flush=True)
signal.pause()
"""


def test_an_interrupt_lets_every_process_save_and_starts_no_other(tmp_path):
    every = jobs(tmp_path, SAVES, "print('quick')", "print('never')")
    events = Events(every)

    class Interrupting(Events):
        def looked(self):
            if every[0].log.exists() and "up" in every[0].log.read_text():
                os.kill(os.getpid(), signal.SIGTERM)  # as a shutdown would; Ctrl-C is the same from here on

    events = Interrupting(every)
    with pytest.raises(KeyboardInterrupt):
        Pool(1, PYTHON).run(every, events)
    assert [job.state for job in every] == ["stopped", "waiting", "waiting"]
    assert every[0].log.read_text() == "up\nsaved\n"
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_process_ends_with_its_starter():
    program = (
        "import signal, sys; from botgrpo_cli.studies.child import end_with_the_starter; "
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(7)); end_with_the_starter(); print('up', flush=True); "
        "[signal.pause() for _ in range(3)]"
    )
    child = subprocess.Popen([*PYTHON, program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout.readline() == b"up\n"
    child.stdin.close()  # what the kernel does when the starter dies
    assert child.wait(timeout=60) == 7


@pytest.mark.parametrize(
    ("log", "code", "says"),
    [
        ("a\nError: one\nmore of it\n", 2, "one more of it"),
        ("Traceback\nValueError: x\n", 1, "ValueError: x"),
        ("", 1, "It ended with exit code 1 and said nothing."),
        ("working\n", -9, "It was ended by SIGKILL."),
    ],
)
def test_last_words(log, code, says):
    assert last_words(log, code) == says


def test_how_far_a_run_is(tmp_path):
    labels = RunLabels("r", "react", "grpo", "tiny", "tiny", 0, "a study", 'an "arm", odd')
    follow = RunFollower(tmp_path / "run", "compile_rate")
    follow.look()
    assert (follow.step, follow.value) == (0, None)
    writer = RunWriter.create(tmp_path / "run", labels)
    writer.metrics(0, [("held-out", "compile_rate", 0.25)])
    follow.look()
    writer.metrics(1, [("train", "compile_rate", 0.5), ("train", "reward", None)])
    writer.metrics(2, [("held-out", "compile_rate", None)])
    with (tmp_path / "run/metrics.csv").open("ab") as file:
        file.write(b"r,a study,torn")
    follow.look()
    assert (follow.step, follow.value) == (2, 0.25)
    RunWriter.resume(tmp_path / "run", labels).truncate_after(0)  # the file is another one now
    follow.look()
    assert follow.step == 0


def test_how_far_a_comparison_is(tmp_path):
    from botgrpo_cli.winrate.tables import COLUMNS

    follow = WinrateFollower(tmp_path)
    follow.look()
    assert follow.step == 0
    row = ["0.75" if name == "rate" else "" for name in COLUMNS]
    (tmp_path / "winrate.csv").write_text("\n".join(map(",".join, [COLUMNS, row, row])) + "\n")
    follow.look()
    assert (follow.step, follow.value) == (2, 0.75)


def test_time_left(tmp_path):
    from botgrpo_cli.commands.ablate_table import minutes_left

    class At(Still):
        def __init__(self, step):
            self.step = step

    def job(state, step, started=0.0, ended=0.0):
        return Job("a", "seed 0", [], Path(), At(step), 10, state, started=started, ended=ended)

    assert minutes_left([job("running", 0, 1.0), job("waiting", 0)], 2, 50.0) is None
    # 30 s a step: 5 steps left of this one, 10 of the other, two at a time.
    every = [job("running", 5, 10.0), job("waiting", 0)]
    assert minutes_left(every, 2, 160.0) == pytest.approx(5.0)  # the waiting one alone takes 300 s
    assert minutes_left(every, 1, 160.0) == pytest.approx(7.5)
    assert minutes_left([job("done", 10, 0.1, 300.0)], 1, 900.0) == 0.0
