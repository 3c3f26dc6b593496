"""`botgrpo train --engine trl` as a program: train, evaluate, resume, two processes, and input that starts nothing."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from botgrpo_cli.records.read import read_metrics, read_samples
from botgrpo_cli.training.checkpoint import list_checkpoints
from tests.program import ENVIRONMENT, FEW, assert_starts_nothing, botgrpo, cold

SHORT = (*FEW, "--set", "sampling.max_new_tokens=60", "--set", "evaluation.prompts=2")
TRL = ("train", "react_qwen", "--scale", "tiny", "--engine", "trl", *SHORT)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A short, real run: real policy, real compiler, real linter, TRL's generation and update."""
    folder = tmp_path_factory.mktemp("trl")
    done = cold(*TRL, "--steps", 1, "--out", "run", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder, done


@pytest.mark.slow
def test_the_run_has_the_records_of_any_run_and_prints_nothing_of_trl(run):
    folder, done = run
    assert done.stderr == ""
    assert "held-out compile rate" in done.stdout
    assert "TRL 1." in done.stdout
    assert "botgrpo plot run" in done.stdout
    for noise in ("Warning", "train_runtime", "Writing model shards", "'loss'"):
        assert noise not in done.stdout
    rows = read_metrics(folder / "run")
    held_out = rows[(rows["split"] == "held-out") & (rows["metric"] == "compile_rate")]
    assert held_out["step"].tolist() == [0, 1]
    assert {"loss", "grad_norm", "entropy", "term_compile", "seconds_sample"} <= set(rows["metric"])
    manifest = json.loads((folder / "run" / "manifest.json").read_text())
    assert (manifest["status"], manifest["engine"], manifest["steps_done"]) == ("done", "trl", 1)
    assert str(folder) not in (folder / "run" / "manifest.json").read_text()
    samples = list(read_samples(folder / "run"))
    assert any(s["split"] == "train" and "code" in s and any(s["advantages"]) for s in samples)
    assert [c.step for c in list_checkpoints(folder / "run")] == [1]
    for file in (folder / "run" / "checkpoints").rglob("*.json"):
        assert str(folder) not in file.read_text(), file.name


@pytest.mark.slow
def test_its_checkpoint_is_evaluated_and_gone_on_with(run):
    folder, _ = run
    done = botgrpo("evaluate", "run", "--prompts", 2, "--samples", 1, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "compile_rate" in done.stdout
    native = botgrpo("train", "run/recipe.yaml", "--out", "run", "--resume", "--steps", 2, cwd=folder)
    assert native.returncode == 2
    assert "--engine trl" in native.stderr
    arguments = ("train", "run/recipe.yaml", "--engine", "trl", "--out", "run", "--resume", "--steps", 2)
    done = botgrpo(*arguments, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "Going on at step 1 of 2" in done.stdout
    rows = read_metrics(folder / "run")
    assert sorted(rows[rows["split"] == "train"]["step"].unique()) == [1, 2]


@pytest.mark.slow
def test_two_processes_write_one_run_and_one_of_them_prints(tmp_path):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    command += ["-m", "botgrpo_cli", *TRL, "--method", "grpo", "--steps", "1", "--out", "run"]
    environment = {**ENVIRONMENT, "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Done: 1 steps") == 1
    assert done.stdout.count("engine ") == 1
    rows = read_metrics(tmp_path / "run")
    assert not rows.duplicated(["step", "split", "metric"]).any()
    assert rows[rows["metric"] == "groups"]["value"].tolist() == [2.0]
    assert rows[rows["metric"] == "prompts"]["value"].tolist() == [2.0, 2.0]
    assert [c.step for c in list_checkpoints(tmp_path / "run")] == [1]
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert (manifest["processes"], manifest["status"], manifest["method"]) == (2, "done", "grpo")


@pytest.mark.slow
def test_dry_run_prints_the_plan_and_writes_nothing(tmp_path):
    done = botgrpo(*TRL, "--method", "gspo", "--set", "training.micro_batch=2", "--dry-run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "4 optimizer steps a step" in " ".join(done.stdout.split())
    assert "nothing was trained" in done.stdout
    assert list(tmp_path.iterdir()) == []


BAD = {
    "engine": (["react_qwen", "--scale", "tiny", "--engine", "tlr"], ["native or trl", "'trl'"]),
    "field": ([*TRL[1:], "--set", "training.trl.use_vlm=true"], ["training.trl.use_vlm", "use_vllm"]),
}


@pytest.mark.parametrize("case", BAD)
def test_wrong_input_starts_nothing(case, tmp_path):
    arguments, words = BAD[case]
    assert_starts_nothing("train", *arguments, cwd=tmp_path, words=words)
