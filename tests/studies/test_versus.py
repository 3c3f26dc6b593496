"""The comparisons of a study of win rates: what is asked of `botgrpo winrate`, when it is done, the joined table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from botgrpo_cli.plots.study import draw_study
from botgrpo_cli.records.manifest import write_manifest
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
    comparison.folder.mkdir(parents=True)
    rows = []
    for step in comparison.steps if steps is None else steps:
        labels = {"method_a": comparison.arm, "method_b": comparison.other, "seed_a": "0", "seed_b": "0"}
        shares = {"win": 0.6, "tie": 0.2, "loss": 0.2, "rate": 0.7, "ci_low": 0.5, "ci_high": 0.9}
        counts = {"prompts": 5, "n": 5, "invalid": 0, "forfeits": 1}
        names = {"run_a": "a", "run_b": "b", "judge": "heuristic", "shown": "screenshots", "scale_a": "tiny"}
        at = {"step_a": step, "step_b": step}
        rows.append({**dict.fromkeys(COLUMNS, ""), **labels, **shares, **counts, **names, **at})
    write_table(comparison.folder / "winrate.csv", rows)
    about = {
        "steps": [[row["step_a"], row["step_b"]] for row in rows],
        "prompts": [f"p{n}" for n in range(5)],
        "judge": {"kind": "heuristic"},
        "shown": "screenshots",
        "heuristic": ["pairwise judge"],
        "simulated": [],
    }
    write_manifest(comparison.folder, about)


def test_one_arm_meets_every_other_at_every_seed_and_checkpoint(study, tmp_path):
    found = versus.comparisons(study, tmp_path / "results/letters")
    assert [each.name for each in found] == [
        "bot-grpo-v-pure-seed0", "bot-grpo-v-pure-seed1", "bot-grpo-v-grpo-seed0", "bot-grpo-v-grpo-seed1"
    ]  # fmt: skip
    assert found[0].arguments(Path("a"), Path("b")) == [
        "winrate", "a", "b", "--checkpoints", "3,6,9,12", "--prompts", "5", "--out", str(found[0].folder)
    ]  # fmt: skip


def test_a_comparison_is_complete_when_every_checkpoint_was_judged(study, tmp_path):
    first, second, *_ = versus.comparisons(study, tmp_path)
    judged(first)
    judged(second, steps=(3, 6))
    assert first.complete
    assert not second.complete


def test_the_tables_of_all_comparisons_are_joined_and_drawn(study, tmp_path):
    folder = tmp_path / "results/letters"
    for arm in study.arms:
        for seed in study.seeds:
            write_run(folder / f"{arm.name}-seed{seed}", arm.at(seed), rising(3), also=[("length", float)])
    for each in versus.comparisons(study, folder):
        judged(each)
    runs = finished(study, folder, plan(study, folder, resume=True))
    write_tables(study, folder, runs, [])
    table = read_table(folder / "winrate.csv")
    assert len(table) == 16
    assert table["method_b"].unique().tolist() == ["grpo", "pure"]
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


def test_tables_alone_are_enough_once_everything_was_compared(study, tmp_path):
    root = tmp_path / "results"
    folder = root / "letters"
    for arm in study.arms:
        for seed in study.seeds:
            write_run(folder / f"{arm.name}-seed{seed}", arm.at(seed))
    assert {run.state for run in plan_study(study, root, resume=True)} == {"resume"}  # checkpoints are needed, and gone
    for each in versus.comparisons(study, folder):
        judged(each)
    assert {run.state for run in plan_study(study, root, resume=True)} == {"kept"}
