"""From rows of metrics to the curves of a figure: which runs are seeds of one curve, its mean and its band."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from botgrpo_cli.errors import InputError, nearest

FEW_SEEDS = 5  # under this many, the band is the range of the seeds; a bootstrap of so few says nothing
_DRAWS = 10_000
_LABELS = ["arm", "method", "base_model", "scale", "task", "study"]


@dataclass(frozen=True)
class Series:
    """One curve: the runs that differ in nothing but their seed.

    `values` [S, N] holds a row a seed and a column a step; `logged` [S, N] says where the table has a row at all.
    A logged NaN is a missing value and leaves a gap; a step that a seed did not log does not.
    """

    name: str  # the arm, or the method where there are no arms
    method: str
    label: str  # `name` and whatever else tells this curve from the others
    seeds: list[int]  # [S]
    steps: np.ndarray  # [N]
    values: np.ndarray  # [S, N]
    logged: np.ndarray  # [S, N]

    @property
    def mean(self) -> np.ndarray:
        """Mean over seeds, NaN at a step where a seed has no value. [N]"""
        return self.values.mean(axis=0)

    def band(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Lower and upper edge [N] each; None for one seed.

        Minimum and maximum under five seeds, else the 95 % percentile bootstrap interval of the mean over seeds
        (10,000 draws, fixed seed; our choice, the paper has one seed a configuration).
        """
        count = len(self.seeds)
        if count == 1:
            return None
        if count < FEW_SEEDS:
            return self.values.min(axis=0), self.values.max(axis=0)
        draws = np.random.default_rng(0).multinomial(count, [1 / count] * count, size=_DRAWS)  # [D, S]
        whole = ~np.isnan(self.mean)
        edges = np.full((2, len(self.steps)), np.nan)
        edges[:, whole] = np.percentile(draws @ self.values[:, whole] / count, [2.5, 97.5], axis=0)  # [2, N]
        return edges[0], edges[1]


def select_rows(metrics: pd.DataFrame, metric: str, split: str) -> pd.DataFrame:
    """The rows of one metric on one split. Raises InputError, naming what there is, when none has a value."""
    if metrics.empty:
        raise InputError("There is nothing to draw: no step has been logged yet.")
    of_metric = metrics[metrics["metric"] == metric]
    if of_metric.empty:
        there = sorted(set(metrics.loc[metrics["split"] == split, "metric"])) or sorted(set(metrics["metric"]))
        raise InputError(f"No run logged '{metric}'.{nearest(metric, there)} Logged there: {', '.join(there)}.")
    rows = of_metric[of_metric["split"] == split]
    if rows.empty:
        splits = sorted(set(of_metric["split"]))
        raise InputError(
            f"'{metric}' was not logged on the split '{split}', only on {', '.join(splits)}.{nearest(split, splits)}"
        )
    if rows["value"].isna().all():
        raise InputError(f"Every value of '{metric}' on the split '{split}' is missing.")
    return rows


def build_series(rows: pd.DataFrame) -> list[Series]:
    """The curves in `rows` (one metric, one split), the bag of tokens first, then in the order of the table.

    Runs that share every label and the seed are not seeds of one curve; each becomes a curve of its own.
    """
    groups: list[tuple[dict[str, str], str, pd.DataFrame]] = []
    for key, group in rows.groupby(_LABELS, sort=False):
        labels = dict(zip(_LABELS, key, strict=True))
        if (group.groupby("seed")["run"].nunique() > 1).any():
            groups += [(labels, f" ({run})", own) for run, own in group.groupby("run", sort=False)]
        else:
            groups.append((labels, "", group))
    groups.sort(key=lambda entry: entry[0]["method"] != "bot-grpo")  # stable
    names = _names([labels for labels, _, _ in groups])
    return [
        _series(labels, label + suffix, group) for (labels, suffix, group), label in zip(groups, names, strict=True)
    ]


def _names(every: list[dict[str, str]]) -> list[str]:
    """Labels that say what differs between the curves and nothing else."""
    first = [labels["arm"] or labels["method"] for labels in every]
    extra = [key for key in _LABELS[2:] if len({labels[key] for labels in every}) > 1]
    if len({(name, *map(labels.get, extra)) for name, labels in zip(first, every, strict=True)}) < len(
        {tuple(labels.values()) for labels in every}
    ):
        extra.insert(0, "method")
    return [
        " · ".join([name, *(labels[key].split("/")[-1] for key in extra if labels[key])])
        for name, labels in zip(first, every, strict=True)
    ]


def _series(labels: dict[str, str], label: str, group: pd.DataFrame) -> Series:
    table = group.drop_duplicates(["seed", "step"], keep="last")
    values = table.pivot(index="seed", columns="step", values="value")
    logged = table.assign(value=1.0).pivot(index="seed", columns="step", values="value").notna()
    return Series(
        name=labels["arm"] or labels["method"],
        method=labels["method"],
        label=label,
        seeds=[int(seed) for seed in values.index],
        steps=values.columns.to_numpy(),
        values=values.to_numpy(dtype=float),
        logged=logged.to_numpy(),
    )
