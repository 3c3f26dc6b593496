"""summary.csv against values worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from botgrpo_cli.records.held_out import read_held_out
from botgrpo_cli.records.read import read_metrics
from botgrpo_cli.studies.summary import ArmTables, RunTables, columns, summary
from tests.studies.runs import rising, write_run
from tests.training.toy import make_recipe

LEVELS = (0.5, 0.8)


def recipe(method="bot-grpo", seed=0, steps=60):
    return make_recipe(training__steps=steps, training__seed=seed, evaluation__every=5, method__name=method)


def arm(folder, name, curves, *, baseline=None, steps=60, **options):
    """An arm with one run a curve."""
    runs = []
    for seed, curve in enumerate(curves):
        path = write_run(folder / f"{name}-seed{seed}", recipe(name, seed, steps), curve, **options)
        runs.append(RunTables(name, seed, read_metrics(path), read_held_out(path)))
    return ArmTables(name, name.upper(), baseline, tuple(runs), steps)


def rows(*arms, metrics=("compile_rate",)):
    return {(row["arm"], row["metric"]): row for row in summary(arms, metrics, LEVELS)}


def test_one_arm_worked_out(tmp_path):
    # 0 up to step 15, 0.6 from 20 to 35, 1 at 40 and 45, 0.8 from 50 on.
    values = {20: 0.6, 40: 1.0, 50: 0.8}
    curve = lambda step: max([v for at, v in values.items() if at <= step][-1:], default=0.0)  # noqa: E731
    row = rows(arm(tmp_path, "grpo", [curve]))["grpo", "compile_rate"]
    assert row["final"] == 0.8
    # Of the means of five in a row, 0.6 0.6 1 1 0.8 (to step 50) is 0.8, then 0.84 at 55 and 0.88 at the end.
    assert row["last5"] == pytest.approx((1 + 1 + 0.8 * 3) / 5)
    assert row["best"] == pytest.approx(0.88)
    assert row["drop"] == pytest.approx(0.0)
    # Means end at 20, 25, …: 0.12 0.24 0.36 0.48 0.68 …: half is held from step 40, five means are left from there.
    assert (row["steps_50"], row["steps_80"]) == ("40", ">60")
    assert row["final_low"] < 0.8 < row["final_high"]
    assert "baseline" not in row
    assert (row["label"], row["seeds"], row["steps"]) == ("GRPO", "0", 60)


def test_seeds_medians_and_censoring(tmp_path):
    found = rows(
        arm(tmp_path, "grpo", [rising(20), rising(25), rising(90)]),
        arm(tmp_path, "bot-grpo", [rising(10), rising(10), rising(15)], baseline="grpo"),
    )
    bag, group = found["bot-grpo", "compile_rate"], found["grpo", "compile_rate"]
    assert (group["steps_50_by_seed"], group["steps_50"]) == ("30 35 >60", "35")
    assert (bag["steps_50_by_seed"], bag["steps_50"]) == ("20 20 25", "20")
    assert bag["speed_up_50"] == pytest.approx(35 / 20)
    assert bag["speed_up_50_high"] == "≥3"  # a draw of seeds with the one that never got there
    assert 1.0 < bag["speed_up_50_low"] <= 35 / 20
    assert bag["difference"] == pytest.approx(1 / 3)  # one of three seeds of the baseline is at 0
    assert (bag["p_seeds_least"], bag["p_seeds"]) == (0.25, 1.0)
    assert bag["p"] == pytest.approx(1 / 10001)  # all prompts agree, and 2^20 signs are drawn, not counted out
    assert bag["p_holm"] == bag["p"]
    assert "difference" not in group


def test_a_baseline_that_never_gets_there(tmp_path):
    found = rows(
        arm(tmp_path, "grpo", [rising(90)]),
        arm(tmp_path, "bot-grpo", [rising(10)], baseline="grpo"),
    )["bot-grpo", "compile_rate"]
    assert (found["speed_up_50"], found["speed_up_50_high"]) == ("≥3", "≥3")


def test_holm_is_over_the_arms_of_a_metric(tmp_path):
    # Ten of twenty prompts better, and two: p of 2/2^10 and of 2/2^2.
    found = rows(
        arm(tmp_path, "grpo", [rising(0, 0.2)]),
        arm(tmp_path, "bot-grpo", [rising(0, 0.7)], baseline="grpo"),
        arm(tmp_path, "pure", [rising(0, 0.3)], baseline="grpo"),
    )
    bag, pure = found["bot-grpo", "compile_rate"], found["pure", "compile_rate"]
    assert bag["difference"] == pytest.approx(0.5)
    assert bag["p"] == pytest.approx(2 / 2**10, abs=0.002)
    assert pure["p"] == pytest.approx(0.5, abs=0.03)
    assert bag["p_holm"] == pytest.approx(2 * bag["p"])
    assert pure["p_holm"] == pytest.approx(max(pure["p"], 2 * bag["p"]))


def test_pass_at_k_is_worked_out_prompt_by_prompt(tmp_path):
    tables = arm(tmp_path, "grpo", [rising(0, 0.5)], metric="solved", samples=4)
    run = tables.runs[0]
    half = run.held_out.assign(value=np.where(run.held_out["prompt"] < "p10", 0.25, 0.0))
    metrics = run.metrics.copy()
    run = RunTables("grpo", 0, metrics, half)
    assert run.by_prompt("pass@2").loc[60].tolist() == [0.5] * 10 + [0.0] * 10  # 1 - C(3,2)/C(4,2)
    assert run.by_prompt("pass@4").loc[60].tolist() == [1.0] * 10 + [0.0] * 10
    assert run.by_prompt("pass@8") is None
    assert run.by_prompt("compile_rate") is None


def test_other_metrics_have_their_value_alone(tmp_path):
    tables = arm(tmp_path, "grpo", [rising(20)], also=[("length", lambda step: 100.0 - step)])
    row = rows(tables, metrics=("compile_rate", "length"))["grpo", "length"]
    assert row["final"] == 40.0
    assert row["last5"] == 50.0
    assert not {"best", "drop", "steps_50", "difference"} & row.keys()


def test_few_evaluations_and_no_single_prompts(tmp_path):
    few = rows(arm(tmp_path / "few", "grpo", [rising(0)], steps=5))["grpo", "compile_rate"]
    assert (few["final"], few["last5"], few["drop"], few["drop_by_seed"]) == (1.0, None, None, "-")
    assert few["steps_50"] == ">5"
    bare = rows(
        arm(tmp_path / "bare", "grpo", [rising(20)], held_out=False),
        arm(tmp_path / "bare", "bot-grpo", [rising(10)], held_out=False, baseline="grpo"),
    )["bot-grpo", "compile_rate"]
    assert bare["final_low"] is None
    assert bare["speed_up_50"] == pytest.approx(1.5)
    assert "p" not in bare
    assert "speed_up_50_low" not in bare


def test_every_value_has_a_column(tmp_path):
    found = rows(arm(tmp_path, "grpo", [rising(20)] * 2), arm(tmp_path, "bot-grpo", [rising(10)] * 2, baseline="grpo"))
    for row in found.values():
        assert set(row) <= set(columns(LEVELS))


def test_arms_without_a_run_are_left_out(tmp_path):
    empty = ArmTables("pure", "PURE", "grpo", (), 60)
    assert list(rows(arm(tmp_path, "grpo", [rising(20)]), empty)) == [("grpo", "compile_rate")]
