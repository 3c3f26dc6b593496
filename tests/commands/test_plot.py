from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from botgrpo_cli.commands.plot import plot
from botgrpo_cli.errors import InputError
from botgrpo_cli.records.schema import RunLabels
from botgrpo_cli.records.write import RunWriter


def make_run(folder, method="bot-grpo", seed=0, metrics=("compile_rate",)):
    labels = RunLabels(folder.name, "react", method, "tiny:react", "tiny", seed)
    writer = RunWriter.create(folder, labels)
    for step in range(0, 21, 5):
        rows = [("held-out", name, step / 25) for name in metrics]
        writer.metrics(step, [*rows, ("train", "reward", step / 10)])
    return folder


def run(*arguments):
    app = typer.Typer()
    app.command()(plot)
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def names(folder):
    return sorted(path.name for path in folder.iterdir() if path.is_file())


def test_one_run_gets_its_figure_in_its_folder(tmp_path):
    folder = make_run(tmp_path / "one")
    result = run(folder)
    assert result.exit_code == 0, result.exception
    assert names(folder) == ["figure.png", "figure.svg", "metrics.csv"]
    assert result.stdout.splitlines() == [f"Figure: {folder / 'figure.png'}", f"Figure: {folder / 'figure.svg'}"]
    assert run(folder / "metrics.csv", "--format", "pdf").exit_code == 0
    assert "figure.pdf" in names(folder)


def test_several_runs_get_it_in_the_folder_that_holds_them(tmp_path):
    first, second = make_run(tmp_path / "all/one"), make_run(tmp_path / "all/two", "grpo")
    assert run(first, second, "--format", "svg").exit_code == 0
    assert names(tmp_path / "all") == ["figure.svg"]
    drawing = (tmp_path / "all/figure.svg").read_text()
    assert "bot-grpo  80 %" in drawing
    assert "<!-- grpo  80 % -->" in drawing


def test_a_study_folder_gets_it(tmp_path):
    for seed in range(2):
        make_run(tmp_path / f"study/seed-{seed}", seed=seed)
    assert run(tmp_path / "study").exit_code == 0
    assert names(tmp_path / "study") == ["figure.png", "figure.svg"]
    assert "seeds 0, 1" in (tmp_path / "study/figure.svg").read_text()


def test_out_is_made_and_other_metrics_have_names_of_their_own(tmp_path):
    folder = make_run(tmp_path / "one", metrics=("compile_rate", "pass@1"))
    out = tmp_path / "figures/new"
    assert run(folder, "--out", out, "--format", "PNG, svg,png").exit_code == 0
    assert run(folder, "--out", out, "--metric", "reward", "--split", "train", "--format", "svg").exit_code == 0
    assert run(folder, "--out", out, "--metric", "pass@1", "--format", "svg").exit_code == 0
    assert names(out) == ["figure-held-out-pass@1.svg", "figure-train-reward.svg", "figure.png", "figure.svg"]
    assert names(folder) == ["metrics.csv"]


def test_runs_without_the_metric_are_named(tmp_path):
    first, second = make_run(tmp_path / "one"), make_run(tmp_path / "two", "grpo", metrics=("lint_rate",))
    result = run(first, second)
    assert result.exit_code == 0
    assert "Left out, for want of 'compile_rate' on the split 'held-out': two." in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["on"], "There is no run at .*on. Did you mean 'one'"),
        (["one", "--metric", "compile"], "Logged there: compile_rate"),
        (["one", "--split", "held_out"], "Did you mean 'held-out'"),
        (["one", "--format", "png,jpg"], "'jpg' is not a figure format; expected one or more of png, svg, pdf"),
        (["one", "--format", ","], "No figure format"),
        (["one", "--out", "one/metrics.csv"], "--out"),
        (["empty"], "There is no run in"),
    ],
)
def test_wrong_input_writes_nothing(tmp_path, monkeypatch, arguments, message):
    make_run(tmp_path / "one")
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    result = run(*arguments)
    assert isinstance(result.exception, InputError)
    assert re.search(message, str(result.exception))
    assert names(tmp_path / "one") == ["metrics.csv"]
    assert names(tmp_path) == []


def test_a_run_that_logged_nothing_yet(tmp_path):
    RunWriter.create(tmp_path / "new", RunLabels("new", "react", "grpo", "tiny:react", "tiny", 0))
    assert "no step has been logged" in str(run(tmp_path / "new").exception)


def test_the_real_command_with_a_backend_that_does_not_exist(tmp_path):
    folder = make_run(tmp_path / "one")
    command = [sys.executable, "-m", "botgrpo_cli", "plot", str(folder)]
    env = {**os.environ, "MPLBACKEND": "nonsense"}
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert names(folder) == ["figure.png", "figure.svg", "metrics.csv"]
    wrong = subprocess.run([*command, "--metric", "compile_rat"], env=env, capture_output=True, text=True)
    assert wrong.returncode == 2
    assert "Did you mean 'compile_rate'" in " ".join(wrong.stderr.split())
