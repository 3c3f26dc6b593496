"""The real program with judges and browser on: one step, its rows, screenshots, manifest, evaluation and resume."""

from __future__ import annotations

import json

import pytest

from botgrpo_cli.records.read import read_metrics, read_samples
from tests.program import FEW, botgrpo

pytestmark = pytest.mark.slow
ON = ["--set", "reward.vlm.mode=local-2turn", "--set", "judge.noise=0.05"]
# Prompts that the tiny policy answers with code that compiles now and then; more of them make a page likely.
MORE = ["--set", "evaluation.prompts=48", "--set", "training.threads=1"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("judged")
    done = botgrpo(
        "train", "react_judged", "--scale", "tiny", "--steps", 1, "--out", "run", *FEW, *MORE, *ON, cwd=folder
    )
    assert done.returncode == 0, done.stderr
    return folder


def test_rows_name_the_judges_and_what_is_simulated(folder):
    rows = read_metrics(folder / "run")
    for split in ("train", "held-out"):
        names = set(rows[rows["split"] == split]["metric"])
        assert {"term_code_judge", "term_vlm", "judge_code_score", "judge_vlm_score", "blank_rate"} <= names
        assert {"hollow_rate", "judge_ok", "judge_malformed", "judge_heuristic", "judge_lines"} <= names
    assert set(rows[rows["metric"] == "judge_heuristic"]["value"]) == {1.0}
    manifest = json.loads((folder / "run" / "manifest.json").read_text())
    assert {"reward.code_judge", "reward.vlm", "hollow_rate"} <= set(manifest["heuristic"])
    assert manifest["simulated"] == ["judge.noise 0.05"]
    assert manifest["judge"]["kind"] == "simulated"
    assert manifest["toolchain"]["chromium"]


def test_samples_hold_verdicts_and_name_their_screenshots(folder):
    samples = list(read_samples(folder / "run"))
    judged = [sample for sample in samples if "judge_code" in sample]
    assert judged
    assert all(sample["judge"] == "simulated" for sample in judged)
    drawn = [sample for sample in samples if "screenshot" in sample]
    assert drawn, "48 answers, and none of them compiles: see tiny/weights/react-qwen2/CARD.md"
    for sample in drawn:
        assert (folder / "run" / sample["screenshot"]).read_bytes().startswith(b"\x89PNG")
        assert sample["terms"]["compile"] == 1.0


def test_evaluation_uses_the_same_stack_and_says_so(folder):
    done = botgrpo("evaluate", "run", "--prompts", 4, "--out", "e.csv", cwd=folder)
    assert done.returncode == 0, done.stderr
    for word in ("term_vlm", "judge_code_score", "blank_rate", "By a heuristic", "judge.noise 0.05"):
        assert word in done.stdout
    assert "judge_heuristic,1.0" in (folder / "e.csv").read_text()


def test_resume_goes_on_with_the_same_judges(folder):
    done = botgrpo("train", "run/recipe.yaml", "--out", "run", "--resume", "--steps", 2, cwd=folder)
    assert done.returncode == 0, done.stderr
    rows = read_metrics(folder / "run")
    assert sorted(rows[(rows["split"] == "train") & (rows["metric"] == "term_vlm")]["step"]) == [1, 2]
