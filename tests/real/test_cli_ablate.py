"""The real program in a subprocess: a shortened study of the tiny scale, its tables and figure, and doing it again."""

from __future__ import annotations

import pytest

from botgrpo_cli.records.held_out import read_held_out
from botgrpo_cli.records.read import read_metrics
from botgrpo_cli.studies.tables import read_summary
from tests.program import botgrpo, cold

pytestmark = pytest.mark.slow

STUDY = """\
title: Two methods, two steps
figure: ours
recipe: react_qwen
metrics: [compile_rate, length]
baseline: grpo
set:
  sampling: {prompts: 2, group_size: 4, max_new_tokens: 120}
  training: {micro_batch: 8}
  evaluation: {every: 1, prompts: 6}
arms:
  bot-grpo:
    set:
      method: {name: bot-grpo}
  grpo:
    label: GRPO
    set:
      method: {name: grpo}
"""


def test_a_study_from_its_file_to_its_figure(tmp_path):
    (tmp_path / "short.yaml").write_text(STUDY)
    options = ("--scale", "tiny", "--seeds", "3", "--steps", "2")
    done = cold("ablate", "short.yaml", *options, "--jobs", 2, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "short: grpo, seed 3: done in" in done.stdout
    folder = tmp_path / "results/short"
    runs = [read_metrics(folder / f"{arm}-seed3") for arm in ("bot-grpo", "grpo")]
    for run, arm in zip(runs, ("bot-grpo", "grpo"), strict=True):
        assert (set(run["study"]), set(run["arm"]), set(run["seed"])) == ({"short"}, {arm}, {3})
    # Same starting weights, same held-out prompts, same random numbers: the same first evaluation.
    first = [run[(run["step"] == 0) & (run["split"] == "held-out")].set_index("metric")["value"] for run in runs]
    assert first[0].drop("reward").equals(first[1].drop("reward"))
    prompts = [set(read_held_out(folder / f"{arm}-seed3")["prompt"]) for arm in ("bot-grpo", "grpo")]
    assert prompts[0] == prompts[1]
    assert len(prompts[0]) == 6
    rows = read_summary(folder)
    assert rows["steps"].tolist() == ["2"] * 4
    assert rows.loc[(rows["arm"] == "bot-grpo") & (rows["metric"] == "compile_rate"), "p"].iloc[0] != ""
    drawn = (folder / "figure.svg").read_text()
    assert "GRPO" in drawn
    assert "Two methods, two steps" in drawn
    assert "![Two methods, two steps](short/figure.png)" in (tmp_path / "results/README.md").read_text()

    again = botgrpo("ablate", "short.yaml", *options, "--resume", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert "Everything is complete; nothing was computed." in again.stdout
    refused = botgrpo(
        "ablate", "short.yaml", "--scale", "tiny", "--seeds", "3", "--steps", "1", "--resume", cwd=tmp_path
    )
    assert refused.returncode == 2
    assert "has 2 steps already, more than the 1 asked for" in refused.stderr
    plotted = botgrpo("plot", "short", "--format", "pdf", cwd=tmp_path)
    assert plotted.stdout == "Figure: results/short/figure.pdf\n"


def test_a_failed_arm_is_named_with_exit_code_1(tmp_path):
    text = STUDY.replace("{name: bot-grpo}", "{name: bot-grpo}\n      policy: {model: tiny:no-such-policy}")
    (tmp_path / "short.yaml").write_text(text)
    done = botgrpo("ablate", "short.yaml", "--scale", "tiny", "--steps", "1", "--jobs", 2, cwd=tmp_path)
    assert done.returncode == 1
    assert "1 of the runs failed; the tables are those of the others" in done.stderr
    assert "short: bot-grpo, seed 0:" in done.stderr
    assert "no-such-policy" in done.stderr
    assert read_summary(tmp_path / "results/short")["arm"].tolist() == ["grpo", "grpo"]
