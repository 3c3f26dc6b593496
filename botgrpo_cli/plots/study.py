"""The figure of a study, drawn from the tables in its folder alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from botgrpo_cli.errors import InputError, nearest
from botgrpo_cli.plots import PLOTS, save_figure
from botgrpo_cli.records.manifest import MANIFEST, read_manifest
from botgrpo_cli.records.read import read_metrics
from botgrpo_cli.records.rooms import rooms_there

CURVES = "curves.csv"


@dataclass(frozen=True)
class StudyTables:
    """What a figure is drawn from: the manifest, and curves.csv with arms under the names that a reader sees."""

    folder: Path
    about: dict[str, Any]
    curves: pd.DataFrame

    @property
    def note(self) -> str:
        """The study's own note, what is no real measurement, and what is missing."""
        parts = [self.about.get("note", "")]
        for key, words in (("heuristic", "Heuristic"), ("simulated", "Simulated")):
            if found := self.about.get(key):
                parts.append(f"{words}: {', '.join(found)}.")
        if found := self.about.get("judges"):
            parts.append(f"Judge in training: {', '.join(found)}.")
        if found := self.about.get("missing"):
            parts.append(f"Not complete, and left out: {', '.join(found)}.")
        return " ".join(part for part in parts if part)


def is_study(folder: Path) -> bool:
    """Whether `folder` holds the tables of a study."""
    return (folder / CURVES).is_file() and (folder / MANIFEST).is_file() and "study" in read_manifest(folder)


def find_study_folders(name: str) -> list[Path]:
    """The folder of a study that is named by its path; those in `results`, `results-2` … where it is named by its name
    there. Empty when there is none."""
    paths = [Path(name)] if Path(name).exists() else [root / name for root in rooms_there()]
    return [path for path in paths if is_study(path)]


def read_study(folder: Path) -> StudyTables:
    """Raises InputError when the folder holds no tables of a study."""
    if not is_study(folder):
        raise InputError(f"{folder} holds no study: {CURVES} and {MANIFEST} are written by `botgrpo ablate`.")
    about, curves = read_manifest(folder), read_metrics(folder / CURVES)
    labels = _labels(about)
    return StudyTables(folder, about, curves.assign(arm=curves["arm"].map(lambda name: labels.get(name, name))))


def _labels(about: dict[str, Any]) -> dict[str, str]:
    """The name of each arm that a reader sees."""
    return {arm["name"]: arm["label"] for arm in about["arms"]}


def draw_study(folder: Path) -> Figure:
    """The figure of the study in `folder`. Raises InputError when there is nothing to draw yet."""
    tables = read_study(folder)
    draw = _KINDS.get(tables.about["kind"])
    if draw is None:
        kind = tables.about["kind"]
        raise InputError(
            f"{folder} is a study of the kind '{kind}'; known: {', '.join(_KINDS)}.{nearest(kind, _KINDS)}"
        )
    return draw(tables)


def save_study_figure(folder: Path, formats: Iterable[str] = ("png", "svg"), out: Path | None = None) -> list[Path]:
    """Write figure.png and so on into `out`, by default the study's own folder, and return their paths."""
    return save_figure(draw_study(folder), (out or folder) / "figure", formats)


def _curves(tables: StudyTables) -> Figure:
    metric = tables.about["draw"][0]
    thresholds = tables.about["thresholds"]
    return PLOTS["curves"](
        tables.curves, metric=metric, thresholds=thresholds, title=tables.about["title"], note=tables.note
    )


def _panels(tables: StudyTables) -> Figure:
    about = tables.about
    return PLOTS["panels"](
        tables.curves, names=about["draw"], by=about["panels"], title=about["title"], note=tables.note
    )


def _stability(tables: StudyTables) -> Figure:
    about = tables.about
    return PLOTS["stability"](tables.curves, metric=about["draw"][0], title=about["title"], note=tables.note)


def _winrate(tables: StudyTables) -> Figure:
    from botgrpo_cli.winrate.tables import TABLE, read_table

    about, labels = tables.about, _labels(tables.about)
    runs = {f"{run['arm']}-seed{run['seed']}": labels[run["arm"]] for run in about["runs"]}
    return PLOTS["winrate"](read_table(tables.folder / TABLE), labels=runs, title=about["title"], note=tables.note)


_KINDS: dict[str, Callable[[StudyTables], Figure]] = {
    "curves": _curves,
    "panels": _panels,
    "stability": _stability,
    "winrate": _winrate,
}
