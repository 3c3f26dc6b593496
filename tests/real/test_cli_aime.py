"""The real program in a subprocess on the task aime: train the tiny policy, evaluate a run, a model and a file."""

from __future__ import annotations

import csv
import json

import pytest

from botgrpo_cli.records.read import read_metrics, read_samples
from tests.program import assert_starts_nothing, botgrpo

pytestmark = pytest.mark.slow

FEW = [
    *("--set", "sampling.prompts=2", "--set", "sampling.group_size=4", "--set", "training.micro_batch=8"),
    *("--set", "evaluation.prompts=4"),
]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("aime")
    done = botgrpo("train", "aime_qwen", "--scale", "tiny", "--steps", 1, "--out", "run", *FEW, cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder, done


def test_train_logs_what_the_studies_read(run):
    folder, done = run
    assert "held-out solved" in done.stdout
    rows = read_metrics(folder / "run")
    held_out = rows[rows["split"] == "held-out"]
    assert {"solved", "pass@1", "pass@2", "pass@4", "format_rate", "step_score", "first_error"} <= set(
        held_out["metric"]
    )
    start = held_out[held_out["step"] == 0].set_index("metric")["value"]
    assert start["step_score"] > 0.05  # a policy that knows how a solution looks, not a random one
    manifest = json.loads((folder / "run" / "manifest.json").read_text())
    assert manifest["judge"]["kind"] == "exact"
    assert manifest["problems"] == {"source": "chains"}
    sample = next(s for s in read_samples(folder / "run") if s["split"] == "train")
    assert sample["judged_steps"][0]["text"].startswith("Step 1: ")


def test_evaluate_a_run_a_model_and_a_file(run):
    folder, _ = run
    done = botgrpo("evaluate", "run", "--prompts", 3, "--samples", 4, cwd=folder)
    assert done.returncode == 0, done.stderr
    for word in ("pass@1", "pass@4", "solved", "status_no_box", "3 held-out prompts x 4 samples", "aime_qwen at scale"):
        assert word in done.stdout
    problems = [json.loads(line) for line in (folder / "run" / "evaluation.jsonl").read_text().splitlines()]
    assert [row["n"] for row in problems] == [4, 4, 4]
    bare = botgrpo("evaluate", "tiny:aime-qwen2", "--prompts", 2, "--samples", 2, "--out", "bare.csv", cwd=folder)
    assert bare.returncode == 0, bare.stderr
    rows = list(csv.DictReader((folder / "bare.csv").open()))
    assert {row["recipe"] for row in rows} == {"aime_qwen"}
    assert [row["metric"] for row in rows[:2]] == ["pass@1", "pass@2"]
    file = botgrpo("evaluate", "run/samples.jsonl", "--out", "file.csv", cwd=folder)
    assert file.returncode == 0, file.stderr
    assert "of the file" in file.stdout


def test_input_that_never_starts_a_run(tmp_path):
    tiny = ["train", "aime_qwen", "--scale", "tiny"]
    missing = ["--set", "task.problems.source=no.csv"]
    for arguments, words in (
        (["train", "aime_qwen"], ["judge.url", "reward.steps.strategy=none"]),
        ([*tiny, "--set", "evaluation.prompts=999"], ["'chains' has 256 held-out"]),
        ([*tiny, *missing], ["judge.kind", "'no.csv'"]),
        ([*tiny, *missing, "--set", "reward.steps.strategy=none"], ["no.csv does not exist"]),
    ):
        assert_starts_nothing(*arguments, "--out", "run", cwd=tmp_path, words=words)
