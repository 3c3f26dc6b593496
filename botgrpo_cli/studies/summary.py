"""summary.csv: one row an arm and metric, every number as `stats` and `speedup` define it.

- `final` is the value at the last evaluation, mean over seeds, with a 95 % bootstrap interval over prompts and seeds.
- `last5` is the mean of the last 5 evaluations, `best` the highest mean of 5 in a row, `drop` their difference.
- `steps_50` and its kin are medians over seeds; ">60" where the median was not there by step 60.
- `speed_up_50` is against the arm's baseline; "≥2.0" where the baseline never got there.
- `difference` is arm minus baseline at the last evaluation, on the same prompts, averaged over the seeds that both
  have; `p` is the sign-flip test over prompts, `p_holm` the same adjusted over the arms of the study. `p_seeds` is the
  test over seeds, which can't fall below `p_seeds_least`.

Cells are empty where a value does not exist. Only the headline and Pass@k are shares of success that can be
compared prompt by prompt; other metrics have `final` and `last5` alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from botgrpo_cli.speedup import Curves, speed_up_interval
from botgrpo_cli.stats import (
    bootstrap_ci,
    holm,
    paired_difference,
    pass_at_k,
    peak_to_final_drop,
    sign_flip_p,
    smallest_p,
    speed_up,
    steps_to_threshold,
    trailing_means,
)
from botgrpo_cli.studies.checks import PASS

Cell = str | float | int | None
Curve = tuple[list[int], list[float]]  # steps, values


@dataclass(frozen=True)
class RunTables:
    """What one finished run measured on held-out prompts."""

    arm: str
    seed: int
    metrics: pd.DataFrame  # rows of metrics.csv
    held_out: pd.DataFrame | None  # rows of held_out.csv

    def curve(self, metric: str) -> Curve:
        """(steps, values) of a held-out metric, in order; a step that was logged twice counts once."""
        rows = self.metrics[(self.metrics["split"] == "held-out") & (self.metrics["metric"] == metric)]
        rows = rows.drop_duplicates("step", keep="last").sort_values("step")
        return rows["step"].tolist(), rows["value"].tolist()

    def by_prompt(self, metric: str) -> pd.DataFrame | None:
        """Value of a metric for each prompt at each evaluation, [E, P]; None where the run has no such table."""
        if self.held_out is None or self.held_out.empty:
            return None
        rows, k = self.held_out, PASS.fullmatch(metric)
        if k:
            if (rows["samples"] < int(k[1])).any() or rows["value"].isna().any():
                return None
            right = (rows["value"] * rows["samples"]).round().astype(int)
            chances = [pass_at_k(n, c, int(k[1])) for n, c in zip(rows["samples"], right, strict=True)]
            rows = rows.assign(value=chances)
        elif set(rows["metric"]) != {metric}:
            return None
        table = rows.pivot(index="step", columns="prompt", values="value").sort_index(axis=1)
        return None if table.isna().any(axis=None) else table


@dataclass(frozen=True)
class ArmTables:
    """The finished runs of an arm, by seed."""

    name: str
    label: str
    baseline: str | None
    runs: tuple[RunTables, ...]
    last_step: int

    @cached_property
    def seeds(self) -> list[int]:
        return [run.seed for run in self.runs]

    def curves(self, metric: str) -> list[Curve]:
        return [run.curve(metric) for run in self.runs]

    def cube(self, metric: str, seeds: Sequence[int]) -> tuple[Curves, list[str]] | None:
        """[S, E, P] of these seeds with the prompts' ids; None unless all have the same prompts and evaluations."""
        tables = [run.by_prompt(metric) for run in self.runs if run.seed in seeds]
        if not tables or any(table is None for table in tables):
            return None
        first = tables[0]
        if any(not (t.index.equals(first.index) and t.columns.equals(first.columns)) for t in tables):
            return None
        return Curves(first.index.tolist(), np.stack([t.to_numpy() for t in tables])), first.columns.tolist()


def summary(arms: Sequence[ArmTables], metrics: Sequence[str], thresholds: Sequence[float]) -> list[dict[str, Cell]]:
    """The rows, arm by arm. `metrics` begins with the headline; all values of a row are of one metric."""
    by_name = {arm.name: arm for arm in arms}
    rows = []
    for metric in metrics:
        success = metric == metrics[0] or PASS.fullmatch(metric) is not None
        of_metric = [_row(arm, metric, by_name, thresholds if success else ()) for arm in arms if arm.runs]
        rows += _with_holm(of_metric)
    order = {arm.name: place for place, arm in enumerate(arms)}
    return sorted(rows, key=lambda row: order[row["arm"]])  # stable: metrics keep their order


def _row(arm: ArmTables, metric: str, arms: Mapping[str, ArmTables], thresholds: Sequence[float]) -> dict[str, Cell]:
    labels = arm.runs[0].metrics.iloc[0]
    curves = arm.curves(metric)
    row: dict[str, Cell] = {
        "arm": arm.name,
        "label": arm.label,
        "method": labels["method"],
        "base_model": labels["base_model"],
        "scale": labels["scale"],
        "metric": metric,
        "seeds": " ".join(map(str, arm.seeds)),
        "steps": arm.last_step,
        **_values(arm, metric, curves, success=bool(thresholds)),
    }
    reached = {level: _reached(curves, level) for level in thresholds}
    for level, steps in reached.items():
        row[f"steps_{100 * level:g}"] = _median_step(steps, arm.last_step)
        row[f"steps_{100 * level:g}_by_seed"] = " ".join(_step(step, arm.last_step) for step in steps)
    base = arms.get(arm.baseline or "")
    if base is not None and base.runs:
        row["baseline"] = base.name
        for level, steps in reached.items():
            row |= _speed_up(arm, base, metric, level, steps)
        if thresholds:
            row |= _difference(arm, base, metric)
    return row


def _values(arm: ArmTables, metric: str, curves: list[Curve], *, success: bool) -> dict[str, Cell]:
    finals = [_last(values) for _, values in curves]
    tails = [means[-1][1] if (means := trailing_means(*curve)) else None for curve in curves]
    found: dict[str, Cell] = {
        "final": _mean(finals),
        **dict.fromkeys(("final_low", "final_high")),
        "final_by_seed": _listed(finals),
        "last5": _mean(tails),
    }
    if success:
        peaks = [max(mean for _, mean in means) if (means := trailing_means(*curve)) else None for curve in curves]
        drops = [peak_to_final_drop(values) for _, values in curves]
        found |= {"best": _mean(peaks), "drop": _mean(drops), "drop_by_seed": _listed(drops)}
        if cube := arm.cube(metric, arm.seeds):
            at_end, prompts = cube[0].values[:, -1, :], cube[1]  # [S, P]
            seeds = np.repeat(arm.seeds, len(prompts))
            interval = bootstrap_ci(at_end.ravel().tolist(), prompts * len(arm.seeds), seeds.tolist())
            found |= {"final_low": interval.low, "final_high": interval.high}
    return found


def _reached(curves: list[Curve], level: float) -> list[int | None]:
    return [steps_to_threshold(steps, values, level) for steps, values in curves]


def _speed_up(arm: ArmTables, base: ArmTables, metric: str, level: float, steps: list[int | None]) -> dict[str, Cell]:
    key = f"speed_up_{100 * level:g}"
    ratio = speed_up(_reached(base.curves(metric), level), steps, base.last_step)
    if ratio is None:
        return {}
    found: dict[str, Cell] = {key: f"≥{_short(ratio.ratio)}" if ratio.at_least else ratio.ratio}
    mine, theirs = arm.cube(metric, arm.seeds), base.cube(metric, base.seeds)
    if mine and theirs and mine[1] == theirs[1]:
        interval = speed_up_interval(theirs[0], mine[0], level)
        if interval is not None:
            high = f"≥{_short(interval.high)}" if interval.at_least else interval.high
            found |= {f"{key}_low": interval.low, f"{key}_high": high}
    return found


def _difference(arm: ArmTables, base: ArmTables, metric: str) -> dict[str, Cell]:
    seeds = [seed for seed in arm.seeds if seed in base.seeds]
    mine, theirs = arm.cube(metric, seeds), base.cube(metric, seeds)
    if not (mine and theirs) or mine[1] != theirs[1]:
        return {}
    (own, prompts), (other, _) = mine, theirs
    first, second = own.values[:, -1, :], other.values[:, -1, :]  # [S, P]
    found = paired_difference(_by_prompt(prompts, first), _by_prompt(prompts, second))
    return {
        "difference": found.difference,
        "difference_low": found.low,
        "difference_high": found.high,
        "p": found.p,
        "p_seeds": sign_flip_p((first - second).mean(axis=1).tolist()),
        "p_seeds_least": smallest_p(len(seeds)),
    }


def _by_prompt(prompts: list[str], values: np.ndarray) -> dict[str, list[float]]:
    return {prompt: values[:, column].tolist() for column, prompt in enumerate(prompts)}


def _with_holm(rows: list[dict[str, Cell]]) -> list[dict[str, Cell]]:
    """Adjusted over the arms that are compared with a baseline: one family a metric."""
    tested = [row for row in rows if row.get("p") is not None]
    for row, adjusted in zip(tested, holm([row["p"] for row in tested]), strict=True):
        row["p_holm"] = adjusted
    return rows


def _last(values: list[float]) -> float | None:
    return next((value for value in reversed(values) if not np.isnan(value)), None)


def _mean(values: list[float | None]) -> float | None:
    """None unless every seed has a value: a mean over fewer would be of other seeds."""
    return None if not values or None in values else float(np.mean(values))


def _listed(values: list[float | None]) -> str:
    return " ".join("-" if value is None else _short(value) for value in values)


def _median_step(steps: list[int | None], last: int) -> str:
    median = float(np.median([np.inf if step is None else step for step in steps]))
    return _step(None if np.isinf(median) else median, last)


def _step(step: float | None, last: int) -> str:
    return f">{last}" if step is None else f"{step:g}"


def _short(value: float) -> str:
    return f"{value:.4g}"


def columns(thresholds: Sequence[float]) -> list[str]:
    """The columns of summary.csv, in order."""
    levels = [f"{100 * level:g}" for level in thresholds]
    return [
        *("study", "arm", "label", "method", "base_model", "scale", "metric", "seeds", "steps"),
        *("final", "final_low", "final_high", "final_by_seed", "last5", "best", "drop", "drop_by_seed"),
        *(f"steps_{level}{end}" for level in levels for end in ("", "_by_seed")),
        "baseline",
        *(f"speed_up_{level}{end}" for level in levels for end in ("", "_low", "_high")),
        *("difference", "difference_low", "difference_high", "p", "p_holm", "p_seeds", "p_seeds_least"),
    ]
