"""Studies of real runs in real processes: failures, resuming, taking over, and that a kill changes nothing."""

from __future__ import annotations

import fcntl
import io
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from botgrpo_cli.studies.load import load_study
from botgrpo_cli.studies.run import missing, run_study
from botgrpo_cli.training.checkpoint import list_checkpoints
from tests.recipe.helpers import plenty
from tests.studies.toy import STUDY, TOY, Looks, write_study

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
TABLES = ("curves.csv", "summary.csv")


def run(path, root, *, resume=False, **options):
    said = io.StringIO()
    study = load_study(str(path), scale="tiny", counts=plenty, **options)
    outcome = run_study(study, root, Looks(said), resume=resume, count=2, launch=TOY)
    return outcome, said.getvalue()


def tables(folder):
    return {name: (folder / name).read_bytes() for name in TABLES}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A study that nobody disturbed."""
    folder = tmp_path_factory.mktemp("whole")
    path = write_study(folder)
    outcome, said = run(path, folder / "results")
    assert outcome.failed == []
    assert "ended grpo seed 0 done" in said
    return path, outcome


def test_a_study_leaves_its_runs_and_tables(whole):
    _, outcome = whole
    assert [run.name for run in outcome.runs] == ["bot-grpo-seed0", "grpo-seed0"]
    assert outcome.written
    assert missing(outcome) == []
    for finished in outcome.runs:
        assert (finished.folder / "held_out.csv").is_file()
        assert list_checkpoints(finished.folder)[-1].step == 12
    first = (outcome.folder / "bot-grpo-seed0/metrics.csv").read_text().splitlines()[1]
    assert first.startswith("bot-grpo-seed0,letters,bot-grpo,letters,")


def test_doing_it_again_starts_nothing(whole):
    path, outcome = whole
    again, said = run(path, outcome.folder.parent, resume=True)
    assert (again.started, again.written, again.kept, said) == (0, False, 2, "")


def test_the_runs_of_one_study_serve_another(whole, tmp_path):
    path, outcome = whole
    other = path.with_name("others.yaml")
    other.write_text(STUDY.replace("  grpo:\n", "  group:\n").replace("baseline: grpo", "baseline: group"))
    taken, said = run(other, outcome.folder.parent)
    assert (taken.started, said) == (0, "")
    assert [run.folder.name for run in taken.runs] == ["bot-grpo-seed0", "grpo-seed0"]
    assert b"\ngroup-seed0,others,group," in (taken.folder / "curves.csv").read_bytes()


def test_a_run_that_fails_is_named_and_the_others_are_there(tmp_path):
    path = write_study(tmp_path, STUDY.replace("{name: grpo}", "{name: grpo}\n      training: {weight_decay: 0.125}"))
    outcome, _ = run(path, tmp_path / "results", steps=2)
    assert [(job.row, job.error) for job in outcome.failed] == [
        ("grpo", "The toy can't be trained with this weight decay.")
    ]
    assert [run.name for run in outcome.runs] == ["bot-grpo-seed0"]
    assert missing(outcome) == ["grpo-seed0"]
    assert b"grpo-seed0" in (outcome.folder / "manifest.json").read_bytes()


def start(path, root, *options):
    """The runner in a process of its own, which prints a line at each look at its runs."""
    command = [*TOY, "ablate", str(path), str(root), *options]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)


def wait_for_runs(folder):
    """Blocks until no process of a study that was killed is left: each of them holds the lock."""
    descriptor = os.open(folder, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    os.close(descriptor)


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_a_runner_that_is_ended_at_a_random_moment_and_resumed_gives_the_same_tables(whole, tmp_path, end):
    path, undisturbed = whole
    root = tmp_path / "results"
    folder = root / "letters"
    moment = random.randrange(1, 26)  # held-out evaluations, of both runs together, before the end comes
    runner = start(path, root, "--resume")
    for line in runner.stdout:
        if line.startswith("looked") and _evaluations(folder) >= moment:
            runner.send_signal(end)
            break
    runner.stdout.read()
    assert runner.wait() in (0, -signal.SIGKILL if end == signal.SIGKILL else 130)
    wait_for_runs(folder)
    last = start(path, root, "--resume")
    last.stdout.read()
    assert last.wait() == 0
    assert tables(folder) == tables(undisturbed.folder), f"ended after {moment} evaluations"


def _evaluations(folder):
    found = 0
    for table in folder.glob("*/held_out.csv"):
        found += table.read_bytes().count(b"\n") // 6
    return found


def test_a_second_runner_is_refused_and_the_first_saves_on_an_interrupt(whole, tmp_path):
    path, _ = whole
    runner = start(path, tmp_path / "results")
    for line in runner.stdout:
        if line.startswith("looked"):
            break
    second = subprocess.run(
        [*TOY, "ablate", str(path), str(tmp_path / "results"), "--resume"],
        cwd=ROOT, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert second.returncode == 2
    assert "Another `botgrpo ablate` works in" in second.stdout
    runner.send_signal(signal.SIGTERM)
    runner.stdout.read()
    assert runner.wait() == 130
    wait_for_runs(tmp_path / "results/letters")


def test_the_child_is_the_command_itself():
    command = [sys.executable, "-m", "botgrpo_cli.studies.child", "--version"]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout.read().startswith("botgrpo ")
    assert child.wait() == 0
    child.stdin.close()
