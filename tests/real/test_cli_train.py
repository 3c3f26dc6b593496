"""The real program in a subprocess: train, resume, Ctrl-C, evaluate, plot, and input that never starts a run."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from botgrpo_cli.records.read import read_metrics, read_samples
from botgrpo_cli.training.checkpoint import list_checkpoints
from tests.program import ENVIRONMENT, FEW, assert_starts_nothing, botgrpo, cold


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A short, real run of the tiny scale: real policy, real compiler, real linter."""
    folder = tmp_path_factory.mktemp("cli")
    done = cold("train", "react_qwen", "--scale", "tiny", "--steps", 2, "--out", "run", *FEW, cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder, done


@pytest.mark.slow
def test_train_leaves_rows_samples_manifest_and_a_checkpoint(run):
    folder, done = run
    assert "held-out compile rate" in done.stdout
    assert "botgrpo plot run" in done.stdout
    rows = read_metrics(folder / "run")
    held_out = rows[(rows["split"] == "held-out") & (rows["metric"] == "compile_rate")]
    assert held_out["step"].tolist() == [0, 2]
    assert held_out["value"].between(0, 1).all()
    assert set(rows["method"]) == {"bot-grpo"}
    assert set(rows["scale"]) == {"tiny"}
    manifest = json.loads((folder / "run" / "manifest.json").read_text())
    assert manifest["status"] == "done"
    assert manifest["steps_done"] == 2
    assert manifest["toolchain"]["esbuild"]
    assert str(folder) not in (folder / "run" / "manifest.json").read_text()
    samples = list(read_samples(folder / "run"))
    assert any(s["split"] == "train" and "code" in s for s in samples)
    assert [c.step for c in list_checkpoints(folder / "run")] == [2]


@pytest.mark.slow
def test_resume_goes_on_with_more_steps(run):
    folder, _ = run
    done = botgrpo("train", "run/recipe.yaml", "--out", "run", "--resume", "--steps", 3, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "Going on at step 2 of 3" in done.stdout
    rows = read_metrics(folder / "run")
    assert sorted(rows[rows["split"] == "train"]["step"].unique()) == [1, 2, 3]


@pytest.mark.slow
def test_a_taken_folder_and_another_recipe_are_refused(run):
    folder, _ = run
    taken = botgrpo("train", "react_qwen", "--scale", "tiny", "--out", "run", *FEW, cwd=folder)
    assert taken.returncode == 2
    assert "--resume" in taken.stderr
    assert "--out" in taken.stderr
    other = botgrpo(
        "train", "run/recipe.yaml", "--out", "run", "--resume", "--set", "training.learning_rate=1e-3", cwd=folder
    )
    assert other.returncode == 2
    assert re.search(r"^ *\+training\.learning_rate: 0\.001$", other.stderr, re.MULTILINE)


@pytest.mark.slow
def test_evaluate_prints_intervals_and_writes_a_table(run):
    folder, _ = run
    done = cold("evaluate", "run", "--prompts", 3, "--samples", 2, "--k", "1,2", cwd=folder)
    assert done.returncode == 0, done.stderr
    for word in (
        "compile_rate",
        "lint_clean_rate",
        "format_rate",
        "length",
        "truncated",
        "pass@2",
        "3 held-out prompts x 2 samples",
    ):
        assert word in done.stdout
    assert (folder / "run" / "evaluation.csv").read_text().startswith("run,recipe,scale,")
    bare = botgrpo("evaluate", "tiny:react-qwen2", "--prompts", 2, "--out", "bare.csv", cwd=folder)
    assert bare.returncode == 0, bare.stderr
    assert "tiny:react-qwen2" in (folder / "bare.csv").read_text()


@pytest.mark.slow
def test_plot_draws_the_run(run):
    folder, _ = run
    done = botgrpo("plot", "run", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert (folder / "run" / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert (folder / "run" / "figure.svg").exists()


@pytest.mark.slow
def test_dry_run_prints_the_plan_and_writes_nothing(tmp_path):
    done = botgrpo("train", "react_qwen", "--scale", "tiny", "--dry-run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for word in (
        "8 prompts x 8 rollouts = 64 rollouts",
        "memory",
        "results/react_qwen-tiny-bot-grpo-seed0",
        "nothing was trained",
    ):
        assert word in done.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_ctrl_c_saves_and_says_how_to_resume(tmp_path):
    command = [
        sys.executable,
        "-m",
        "botgrpo_cli",
        "train",
        "react_qwen",
        "--scale",
        "tiny",
        "--out",
        "run",
        *FEW,
        "--set",
        "evaluation.every=1",
    ]
    process = subprocess.Popen(
        command, cwd=tmp_path, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1
    )
    printed = []
    for line in process.stdout:
        printed.append(line)
        if line.lstrip().startswith("step") and " 1 " in line:
            process.send_signal(signal.SIGINT)
            break
    rest, errors = process.communicate(timeout=120)
    assert process.returncode == 130, errors
    saved = list_checkpoints(tmp_path / "run")[-1].step
    assert saved >= 1
    assert f"the state after step {saved} is saved" in rest
    assert "botgrpo train run/recipe.yaml --out run --resume" in rest
    assert json.loads((tmp_path / "run" / "manifest.json").read_text())["status"] == "interrupted"
    more = botgrpo("train", "run/recipe.yaml", "--out", "run", "--resume", "--steps", saved + 1, cwd=tmp_path)
    assert more.returncode == 0, more.stderr


BAD = {
    "unknown key": (["react_qwen", "--scale", "tiny", "--set", "training.lr=1"], ["training.lr", "learning_rate"]),
    "wrong type": (["react_qwen", "--scale", "tiny", "--set", "training.steps=many"], ["training.steps", "integer"]),
    "missing file": (["react_qwem.yaml"], ["react_qwem.yaml"]),
    "shipped name": (["react_qwem"], ["react_qwen"]),
    "method": (["react_qwen", "--scale", "tiny", "--method", "bot_grpo"], ["bot-grpo"]),
    "too many held-out prompts": (
        ["react_qwen", "--scale", "tiny", "--set", "evaluation.prompts=100000"],
        ["evaluation.prompts", "256"],
    ),
    "micro-batch": (["react_qwen", "--scale", "tiny", "--set", "training.micro_batch=15"], ["micro_batch", "16"]),
    "no such tiny policy": (
        ["react_qwen", "--scale", "tiny", "--set", "policy.model=tiny:react-qwen"],
        ["tiny:react-qwen2"],
    ),
    "context": (
        ["react_qwen", "--scale", "tiny", "--set", "sampling.max_new_tokens=5000"],
        ["max_new_tokens", "at most"],
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_wrong_input_starts_nothing(case, tmp_path):
    arguments, words = BAD[case]
    assert_starts_nothing("train", *arguments, cwd=tmp_path, words=words)


def test_the_paper_scale_without_a_gpu_stops_at_once_with_two_commands(tmp_path):
    done = botgrpo("train", Path(__file__).parents[2] / "recipes" / "react_qwen.yaml", cwd=tmp_path)
    import torch

    if torch.cuda.is_available() or torch.backends.mps.is_available():
        assert done.returncode in (0, 2)
        return
    assert done.returncode == 2
    assert "botgrpo train react_qwen --scale tiny" in done.stderr
    assert "botgrpo train react_qwen --scale small" in done.stderr


@pytest.mark.slow
def test_node_missing_and_npm_offline_are_said_before_anything_starts(tmp_path):
    nowhere = {**ENVIRONMENT, "BOTGRPO_CACHE": str(tmp_path / "cache"), "BOTGRPO_NODE": str(tmp_path / "no-node")}
    done = botgrpo(
        "train", "react_qwen", "--scale", "tiny", "--out", "run", cwd=tmp_path, environment=nowhere, seconds=120
    )
    assert done.returncode == 2, done.stderr
    assert "Node" in done.stderr
    assert not (tmp_path / "run").exists()
