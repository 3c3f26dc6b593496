"""botgrpo ablate without training anything: lists, plans, what it refuses, finished studies, its README."""

from __future__ import annotations

import fcntl
import os
import shutil
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from botgrpo_cli.commands.ablate import ablate, again
from botgrpo_cli.commands.plot import plot
from botgrpo_cli.errors import InputError
from botgrpo_cli.studies.shipped import shipped_studies, study_names
from tests.studies.runs import rising, write_run
from tests.studies.test_tables import load
from tests.studies.toy import STUDY, write_study


def run(*arguments, command=ablate):
    app = typer.Typer()
    app.command()(command)
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def finished(tmp_path, monkeypatch):
    """The toy study with both arms trained, and no tables yet."""
    monkeypatch.chdir(tmp_path)
    path = write_study(tmp_path)
    study = load(path)
    for name, at in (("bot-grpo", 3), ("grpo", 5)):
        run_of = study.arm(name).at(0)
        write_run(tmp_path / f"results/letters/{name}-seed0", run_of, rising(at), also=[("length", float)])
    return path


def test_the_list_names_every_study_with_what_it_needs():
    text = run("--list").stdout
    for name in shipped_studies():
        assert f"\n{name}  " in f"\n{text}"
    assert "figure 1: Five methods on React" in text
    assert "not at this scale: The study's arms do not differ at scale small" in text
    for words in ("needs Node, Chromium, a judge (heuristic)", "a GPU, Qwen/Qwen2.5-3B-Instruct", "estimates"):
        assert words in text


def test_a_dry_run_of_every_shipped_study_writes_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run("all", "--scale", "tiny", "--seeds", "0", "--dry-run")
    assert done.exit_code == 0, done.exception
    for name in study_names():
        assert f"{name} at scale tiny" in done.stdout
    assert "to be trained" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_all_leaves_out_what_makes_no_sense_at_a_scale(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run("all", "--scale", "small", "--dry-run")
    assert done.exit_code == 0, done.exception
    assert "Left out: base-models." in done.stderr
    assert "base-models at scale" not in done.stdout


def test_a_finished_study_computes_its_tables_once_and_says_so(finished, tmp_path):
    first = run(finished, "--scale", "tiny", "--resume")
    assert first.exit_code == 0, first.exception
    assert "letters: 2 runs are complete; only the tables were made anew." in first.stdout
    assert "100 %" in first.stdout
    folder = tmp_path / "results/letters"
    made = ("curves.csv", "summary.csv", "manifest.json", "figure.png", "figure.svg")
    assert all((folder / name).is_file() for name in made)
    assert "### `letters`" in (tmp_path / "results/README.md").read_text()
    before = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in tmp_path.rglob("*") if path.is_file()}
    second = run(finished, "--scale", "tiny", "--resume")
    assert "letters: 2 runs are complete; nothing to do." in second.stdout
    assert "Everything is complete; nothing was computed." in second.stdout
    assert before == {p: (p.stat().st_mtime_ns, p.read_bytes()) for p in tmp_path.rglob("*") if p.is_file()}


def test_without_resume_runs_in_a_folder_that_was_named_are_refused(finished):
    done = run(finished, "--scale", "tiny", "--out", "results")
    assert isinstance(done.exception, InputError)
    assert "--resume --out results" in str(done.exception)


def test_without_resume_a_finished_study_is_left_alone(finished, tmp_path):
    (tmp_path / "results-2").mkdir()
    shutil.copytree("results/letters", "results-2/letters")
    done = run(finished, "--scale", "tiny", "--steps", "4", "--dry-run")
    assert done.exit_code == 0, done.exception
    assert "results/ holds letters already, and keeps it; this goes into results-3/." in done.stdout
    assert done.stdout.count("to be trained") == 2
    assert not (tmp_path / "results-3").exists()


def test_a_bad_study_starts_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = write_study(tmp_path, STUDY.replace("{name: grpo}", "{name: gprpo}"))
    done = run(path, "--scale", "tiny")
    assert isinstance(done.exception, InputError)
    assert "letters.yaml:13: method.name: Found 'gprpo'" in str(done.exception)
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "Name one, or all"),
        (["baselins"], "Did you mean 'baselines'"),
        (["baselines", "--seeds", "0;1"], "--seeds is '0;1'; expected integers with commas"),
        (["baselines", "--arms", "grpo,bot"], "has no arm 'bot'"),
        (["baselines", "--scale", "tyny"], "Did you mean 'tiny'"),
    ],
)
def test_wrong_input(arguments, says):
    done = run(*arguments)
    assert isinstance(done.exception, InputError)
    assert says in str(done.exception)


def test_a_study_at_work_is_not_disturbed(finished, tmp_path):
    descriptor = os.open(tmp_path / "results/letters", os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        done = run(finished, "--scale", "tiny", "--resume")
    finally:
        os.close(descriptor)
    assert isinstance(done.exception, InputError)
    assert "Another `botgrpo ablate` works in" in str(done.exception)


def test_the_command_that_goes_on():
    assert again("aime", "tiny", "0,1", None, None, 2, Path("out")) == (
        "botgrpo ablate aime --scale tiny --seeds 0,1 --jobs 2 --out out --resume"
    )
    assert again("my study.yaml", None, None, 4, "a,b", None, Path("results")) == (
        "botgrpo ablate 'my study.yaml' --steps 4 --arms a,b --resume"
    )


# --- botgrpo plot STUDY ----------------------------------------------------------------------------------------------
def test_plot_takes_a_study_by_name_or_folder_without_its_runs(finished, tmp_path):
    run(finished, "--scale", "tiny", "--resume")
    for path in (tmp_path / "results/letters").glob("*-seed0"):
        shutil.rmtree(path)
    (tmp_path / "results/letters/figure.png").unlink()
    done = run("letters", "--format", "png,pdf", command=plot)
    assert done.exit_code == 0, done.exception
    assert done.stdout.splitlines() == ["Figure: results/letters/figure.png", "Figure: results/letters/figure.pdf"]
    assert run("results/letters", "--out", "figures", command=plot).exit_code == 0
    assert (tmp_path / "figures/figure.svg").is_file()


def test_plot_names_the_other_folders_of_the_same_study(finished, tmp_path):
    run(finished, "--scale", "tiny", "--resume")
    shutil.copytree("results", "results-2")
    done = run("letters", command=plot)
    assert done.stdout.splitlines() == ["Figure: results/letters/figure.png", "Figure: results/letters/figure.svg"]
    assert "`botgrpo plot results-2/letters`" in done.stderr


def test_plot_draws_a_metric_of_a_studys_runs(finished, tmp_path):
    run(finished, "--scale", "tiny", "--resume")
    before = (tmp_path / "results/letters/figure.png").read_bytes()
    done = run("results/letters", "--metric", "length", command=plot)
    assert done.exit_code == 0, done.exception
    assert (tmp_path / "results/letters/figure-held-out-length.png").is_file()
    assert (tmp_path / "results/letters/figure.png").read_bytes() == before


def test_plot_refuses_a_study_beside_a_run(finished, tmp_path):
    run(finished, "--scale", "tiny", "--resume")
    done = run("letters", "results/letters/grpo-seed0", command=plot)
    assert "is no study" in str(done.exception)
