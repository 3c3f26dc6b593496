"""The comparisons of a study of win rates: what is asked of `botgrpo winrate`, when it is done, the joined table."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pytest

from botgrpo_cli.plots.study import draw_study
from botgrpo_cli.records.manifest import run_digest, write_manifest
from botgrpo_cli.studies import versus
from botgrpo_cli.studies.load import load_study
from botgrpo_cli.studies.readme import write_readme
from botgrpo_cli.studies.run import plan_study
from botgrpo_cli.studies.state import plan
from botgrpo_cli.studies.tables import finished, write_tables
from botgrpo_cli.winrate.tables import COLUMNS, read_table, write_table
from tests.recipe.helpers import plenty
from tests.studies.runs import rising, write_run
from tests.studies.toy import STUDY, write_study

TEXT = STUDY.replace("thresholds: [0.2, 0.5]", "kind: winrate\nwinrate: {arm: bot-grpo, prompts: 5}").replace(
    "  grpo:\n", "  pure:\n    set:\n      method: {name: pure}\n  grpo:\n"
)


@pytest.fixture
def study(tmp_path):
    return load_study(str(write_study(tmp_path, TEXT)), scale="tiny", counts=plenty, seeds=[0, 1])


def judged(comparison, *, steps=None):
    """What `botgrpo winrate` leaves of a finished comparison."""
    comparison.folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for step in comparison.steps if steps is None else steps:
        labels = {"method_a": comparison.arm, "method_b": comparison.other, "seed_a": "0", "seed_b": "0"}
        shares = {"win": 0.6, "tie": 0.2, "loss": 0.2, "rate": 0.7, "ci_low": 0.5, "ci_high": 0.9}
        counts = {"prompts": 5, "n": 5, "invalid": 0, "forfeits": 1}
        names = {"run_a": "run", "run_b": "run", "judge": "heuristic", "shown": "screenshots", "scale_a": "tiny"}
        at = {"step_a": step, "step_b": step}
        rows.append({**dict.fromkeys(COLUMNS, ""), **labels, **shares, **counts, **names, **at})
    write_table(comparison.folder / "winrate.csv", rows)
    about = {
        "sides": [{"run": run_digest(side)} for side in comparison.sides],
        "steps": [[row["step_a"], row["step_b"]] for row in rows],
        "prompts": [f"p{n}" for n in range(5)],
        "judge": {"kind": "heuristic"},
        "shown": "screenshots",
        "heuristic": ["pairwise judge"],
        "simulated": [],
    }
    write_manifest(comparison.folder, about)


@pytest.fixture
def folder(study, tmp_path):
    """The study's folder with all of its runs."""
    folder = tmp_path / "results/letters"
    for arm in study.arms:
        for seed in study.seeds:
            write_run(folder / f"{arm.name}-seed{seed}", arm.at(seed), rising(3), also=[("length", float)])
    return folder


def between(study, folder):
    return versus.comparisons(study, folder, plan(study, folder, resume=True))


def states(study, folder):
    return {run.name: run.state for run in plan_study(study, folder.parent, resume=True)}


def test_one_arm_meets_every_other_at_every_seed_and_checkpoint(study, folder):
    found = between(study, folder)
    assert [each.name for each in found] == [
        "bot-grpo-v-pure-seed0", "bot-grpo-v-pure-seed1", "bot-grpo-v-grpo-seed0", "bot-grpo-v-grpo-seed1"
    ]  # fmt: skip
    a, b = (str(folder / f"{arm}-seed0") for arm in ("bot-grpo", "pure"))
    assert found[0].arguments() == [
        "winrate", a, b, "--checkpoints", "3,6,9,12", "--prompts", "5", "--out", str(found[0].folder)
    ]  # fmt: skip
    assert all(each.ready for each in found)
    assert not any(each.ready for each in versus.comparisons(study, folder, []))


def test_a_comparison_is_complete_when_every_checkpoint_was_judged(study, folder):
    first, second, *_ = between(study, folder)
    judged(first)
    judged(second, steps=(3, 6))
    assert first.complete
    assert not second.complete


def test_a_comparison_of_other_runs_is_made_again(study, folder):
    for each in between(study, folder):
        judged(each)
    assert set(states(study, folder).values()) == {"kept"}
    again = folder / "pure-seed1"
    shutil.rmtree(again)
    write_run(again, study.arm("pure").at(1), rising(6))
    left = [each.name for each in versus.left(study, folder, plan(study, folder, resume=True))]
    assert left == ["bot-grpo-v-pure-seed1"]
    # bot-grpo has no checkpoints left for it and is trained again: then it meets everyone again at this seed.
    assert states(study, folder) == {
        f"{arm}-seed{seed}": "kept" if seed == 0 else "resume"
        for arm in ("bot-grpo", "pure", "grpo")
        for seed in (0, 1)
    }
    runs = finished(study, folder, plan(study, folder, resume=True))
    write_tables(study, folder, runs, left)
    table = read_table(folder / "winrate.csv")
    assert set(zip(table["run_a"], table["run_b"], strict=True)) == {
        ("bot-grpo-seed0", "pure-seed0"), ("bot-grpo-seed0", "grpo-seed0"), ("bot-grpo-seed1", "grpo-seed1")
    }  # fmt: skip


def test_the_tables_of_all_comparisons_are_joined_and_drawn(study, folder):
    for each in between(study, folder):
        judged(each)
    runs = finished(study, folder, plan(study, folder, resume=True))
    write_tables(study, folder, runs, [])
    table = read_table(folder / "winrate.csv")
    assert len(table) == 16
    assert table["method_b"].unique().tolist() == ["pure", "grpo"]
    assert table["run_b"].unique().tolist() == [
        "pure-seed0",
        "pure-seed1",
        "grpo-seed0",
        "grpo-seed1",
    ]  # all were `run`
    about = json.loads((folder / "manifest.json").read_text())
    assert about["winrate"] == {
        "arm": "bot-grpo", "prompts": 5, "judges": ["heuristic"], "shown": ["screenshots"],
        "heuristic": ["pairwise judge"], "simulated": [],
    }  # fmt: skip
    text = write_readme(folder.parent).read_text()
    assert "| against | seeds | win rate at step 3 | win rate at step 6 |" in text
    assert "| pure | 0 | 70 % | 70 % | 70 % | 70 % | 20 % |" in text
    figure = draw_study(folder)
    assert figure.axes[0].get_title(loc="left") == "Letters"
    assert "judge: heuristic" in "\n".join(text.get_text() for text in figure.texts)


def test_comparisons_of_arms_that_are_not_asked_for_stay_in_the_table(study, folder):
    for each in between(study, folder):
        judged(each)
    few = replace(study, chosen=("bot-grpo", "grpo"), seeds=(1,))
    runs = finished(study, folder, plan(study, folder, resume=True))
    assert len(versus.finished(few, folder, runs)) == len(versus.finished(study, folder, runs)) == 4
    assert [each.name for each in versus.comparisons(few, folder, runs)] == ["bot-grpo-v-grpo-seed1"]


def test_tables_alone_are_enough_once_everything_was_compared(study, folder):
    assert set(states(study, folder).values()) == {"resume"}  # checkpoints are needed, and gone
    for each in between(study, folder):
        judged(each)
    assert set(states(study, folder).values()) == {"kept"}
