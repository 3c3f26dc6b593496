"""The columns of metrics.csv: tidy, one value a row. Plots and reports read nothing else."""

from __future__ import annotations

from dataclasses import asdict, dataclass

COLUMNS = (
    "run",
    "study",
    "arm",
    "task",
    "method",
    "base_model",
    "scale",
    "seed",
    "step",
    "split",
    "metric",
    "value",
)


@dataclass(frozen=True)
class RunLabels:
    """The columns that are the same in every row of a run. Empty strings are written as empty cells."""

    run: str
    task: str
    method: str
    base_model: str
    scale: str
    seed: int
    study: str = ""
    arm: str = ""

    def row(self, step: int, split: str, metric: str, value: float | None) -> dict[str, object]:
        return {**asdict(self), "step": step, "split": split, "metric": metric, "value": value}
