"""An own task through every command, as its author would run it, from a folder of their own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from botgrpo_cli.records.read import read_metrics, read_samples
from tests.judges.server import behave, chat, running
from tests.program import ENVIRONMENT, FEW, Forked, botgrpo

TINY = ("--scale", "tiny", *FEW, "--set", "training.threads=1")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """With the files of `task new`, and a run of two steps."""
    folder = tmp_path_factory.mktemp("own task")
    made = botgrpo("task", "new", "sums.py", cwd=folder)
    assert made.returncode == 0, made.stderr
    assert sorted(path.name for path in folder.iterdir()) == ["sums.jsonl", "sums.py", "sums.yaml"]
    dry = botgrpo("train", "sums.yaml", *TINY, "--dry-run", cwd=folder)
    assert (dry.returncode, "nothing was trained or written" in dry.stdout) == (0, True), dry.stderr
    done = botgrpo("train", "sums.yaml", *TINY, "--steps", "2", "--out", "run", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "held-out solved" in done.stdout
    return folder


def test_nothing_is_written_over(folder):
    before = (folder / "sums.py").read_bytes()
    again = botgrpo("task", "new", "sums.py", cwd=folder)
    assert again.returncode == 2
    assert "sums.py and sums.yaml and sums.jsonl exist already" in again.stderr
    assert (folder / "sums.py").read_bytes() == before
    wrong = botgrpo("task", "new", "sums.txt", cwd=folder)
    assert (wrong.returncode, "expected the name of a Python file" in wrong.stderr) == (2, True)


def test_the_run_keeps_what_it_was_made_with(folder):
    manifest = json.loads((folder / "run/manifest.json").read_text())
    assert (manifest["task"], manifest["headline"]) == ("sums", "solved")
    assert (manifest["prompts"]["train"], manifest["functions"]["boxed"][:8]) == (manifest["data"]["train"], "sums.py:")
    assert (folder / "run/task/sums.py").read_bytes() == (folder / "sums.py").read_bytes()
    metrics = read_metrics(folder / "run")
    assert set(metrics["task"]) == {"sums"}
    assert {"solved", "boxed", "equations", "term_solved", "local_mean", "unscored_rate"} <= set(metrics["metric"])


def test_wrong_equations_are_blamed_on_the_tokens_that_wrote_them(folder):
    rows = [row for row in read_samples(folder / "run") if row["split"] == "train"]
    blamed = [row for row in rows if row["signals"]["wrong_equations"]]
    assert blamed, "a policy that solves 4 % writes wrong equations"
    for row in blamed:
        wrong = [row["text"][start:end] for start, end, _ in row["signals"]["wrong_equations"]]
        marked = "".join(piece for piece, value in zip(row["pieces"], row["local"], strict=True) if value < 0)
        assert "".join(wrong).replace(" ", "") == marked.replace(" ", "").replace("\n", "")


def test_it_goes_on_evaluates_and_draws(folder):
    shorter = (folder / "sums.py").read_text().replace('"""How many equations', '"""Number of equations')
    (folder / "sums.py").write_text(shorter)
    more = botgrpo("train", "run/recipe.yaml", "--out", "run", "--steps", "3", "--resume", cwd=folder)
    assert (more.returncode, "Going on at step 2 of 3" in more.stdout) == (0, True), more.stderr
    found = botgrpo("evaluate", "run", "--k", "1,2", "--samples", "2", "--prompts", "4", cwd=folder)
    assert (found.returncode, "pass@2" in found.stdout, "boxed" in found.stdout) == (0, True, True), found.stderr
    for words in (("plot", "run"), ("plot", "run", "--metric", "boxed", "--split", "train"), ("inspect", "run")):
        done = botgrpo(*words, cwd=folder)
        assert done.returncode == 0, done.stderr
    assert {"figure.png", "figure-train-boxed.png"} <= {path.name for path in (folder / "run").iterdir()}


def test_trl_trains_it_too(folder):
    done = botgrpo("train", "sums.yaml", *TINY, "--steps", "1", "--engine", "trl", "--out", "trl", cwd=folder)
    assert done.returncode == 0, done.stderr
    rows = read_metrics(folder / "trl")
    assert {"solved", "term_boxed"} <= set(rows[rows["split"] == "train"]["metric"])


def test_two_processes_train_what_one_does(folder):
    words = ["train", "sums.yaml", *TINY, "--steps", "1", "--out"]
    launched = ["--nproc-per-node", "2", "-m", "botgrpo_cli", *words, "two"]
    two = Forked("torch.distributed.run", *launched, cwd=folder, environment=ENVIRONMENT).wait(300)
    assert two.returncode == 0, two.stderr
    one = botgrpo(*words, "one", cwd=folder)
    assert one.returncode == 0, one.stderr
    values = [read_metrics(folder / name).query("step == 1 and metric == 'solved'")["value"] for name in ("one", "two")]
    assert values[0].tolist() == values[1].tolist()


STUDY = """
title: Own task
figure: ours
recipe: sums.yaml
at: [tiny]
metrics: [solved, boxed]
baseline: grpo
set:
  sampling: {prompts: 2, group_size: 4}
  evaluation: {prompts: 4}
  training: {steps: 1, threads: 1}
arms:
  grpo: {set: {method: {name: grpo}}}
  signal-only: {set: {reward: {solved: 0, boxed: 0}}}
"""


def test_a_study_changes_its_keys(folder):
    (folder / "study.yaml").write_text(STUDY)
    done = botgrpo("ablate", "study.yaml", "--scale", "tiny", "--out", "studies", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert (folder / "studies/study/summary.csv").is_file()
    (folder / "wrong.yaml").write_text(STUDY.replace("[solved, boxed]", "[solvd]").replace("{solved: 0,", "{solvd: 0,"))
    wrong = botgrpo("ablate", "wrong.yaml", "--scale", "tiny", "--out", "studies", cwd=folder)
    assert wrong.returncode == 2
    assert "wrong.yaml:14: arms.signal-only.set.reward.solvd: Found an unknown key" in wrong.stderr
    assert "Did you mean 'solved'?" in wrong.stderr


def test_a_model_compares_answers_by_what_the_recipe_says(folder):
    refused = botgrpo("winrate", "run", "tiny:aime-qwen2", "--prompts", "2", "--out", "rates", cwd=folder)
    assert (refused.returncode, "expected task.compare" in refused.stderr) == (2, True), refused.stderr
    recipe = (folder / "sums.yaml").read_text().replace("task:\n", "task:\n  compare: The shorter answer.\n")
    (folder / "compared.yaml").write_text(recipe)

    asked = []

    def first(request):
        if "better" not in str(request):
            return behave(request)  # the probe
        asked.append("The shorter answer." in str(request))
        return chat('{"why": "It is first.", "better": "first"}')

    with running() as server:
        server.answering = first
        words = ["--recipe", "compared.yaml", "--scale", "tiny", "--prompts", "2", "--out", "rates"]
        settings = ["--judge", "openai:m", "--set", f"judge.url={server.url}", "--set", "judge.cache=false"]
        done = botgrpo("winrate", "tiny:aime-qwen2", "tiny:aime-phi3", *words, *settings, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert len(asked) == 2 * 4
    assert all(asked)
    assert "50.0%" in done.stdout, "who always says first decides nothing"
    assert {"winrate.csv", "pairs.jsonl", "gallery.html", "figure.png"} <= {
        p.name for p in (folder / "rates").iterdir()
    }


def test_verl_gets_a_folder_that_can_be_moved(folder):
    done = botgrpo("export", "verl", "sums.yaml", "verl", *TINY, cwd=folder)
    assert done.returncode == 0, done.stderr
    (folder / "verl").rename(folder / "moved")
    shown = botgrpo("recipes", "show", "moved/recipe.yaml", cwd=folder)
    assert f"name: {folder}/moved/sums.py" in shown.stdout
    assert "`sums.jsonl` | a copy of the task's own file" in (folder / "moved/README.md").read_text()


LATE = """

def late(completions, trainer_state, **columns):
    if trainer_state.global_step >= 2:
        raise ValueError("too late")
    return [0.0] * len(completions)
"""


def test_a_function_that_breaks_ends_the_run_with_its_state_saved(folder):
    """It works while a run starts, and fails on everything from the third update on."""
    (folder / "breaks.py").write_text((folder / "sums.py").read_text() + LATE)
    recipe = (folder / "sums.yaml").read_text().replace("./sums.py", "./breaks.py")
    (folder / "breaks.yaml").write_text(recipe.replace("  solved: 1.0\n", "  solved: 1.0\n  late: 1.0\n"))
    words = ("train", "breaks.yaml", *TINY, "--steps", "4", "--set", "evaluation.every=4", "--out", "breaks")
    done = botgrpo(*words, cwd=folder)
    assert done.returncode == 1, done.stderr
    assert "No rollout could be scored any more; the state after step 2 is saved in breaks." in done.stderr
    assert "late raised ValueError: too late (breaks.py:" in done.stderr
    (folder / "breaks.py").write_text((folder / "breaks.py").read_text().replace(">= 2", ">= 99"))
    again = botgrpo(*words, "--resume", cwd=folder)
    assert (again.returncode, "Going on at step 2 of 4" in again.stdout) == (0, True), again.stderr
    assert read_metrics(folder / "breaks").query("split == 'train'")["step"].max() == 4
