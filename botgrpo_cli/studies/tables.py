"""The tables of a study: curves.csv, summary.csv and manifest.json; figures and reports read nothing else.

curves.csv has the columns of metrics.csv and holds the held-out rows of the study's metrics, under the study's own
names of arms: a run may come from another study.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from botgrpo_cli.records.held_out import HELD_OUT, read_held_out
from botgrpo_cli.records.manifest import MANIFEST, digest, write_manifest
from botgrpo_cli.records.read import read_metrics
from botgrpo_cli.records.schema import COLUMNS
from botgrpo_cli.records.write import METRICS, write_atomic
from botgrpo_cli.studies import versus
from botgrpo_cli.studies.load import Study
from botgrpo_cli.studies.shipped import shipped_studies
from botgrpo_cli.studies.state import Planned, earlier_runs, manifest_of, relative, steps_done
from botgrpo_cli.studies.summary import ArmTables, Cell, RunTables, columns, summary
from botgrpo_cli.training.run import RECIPE_FILE, recipe_changes
from botgrpo_cli.winrate.tables import TABLE

CURVES, SUMMARY = "curves.csv", "summary.csv"
FORMAT = 1  # raised when the same runs give other tables
_ALSO = ("prompts",)  # for the captions


@dataclass(frozen=True)
class Finished:
    """A run that is complete, as the tables take it."""

    arm: str
    seed: int
    folder: Path

    @property
    def name(self) -> str:
        return f"{self.arm}-seed{self.seed}"


def finished(study: Study, folder: Path, planned: Sequence[Planned]) -> list[Finished]:
    """The complete runs of the study, arm by arm: those that were planned, and those of earlier calls (other seeds,
    other arms) that are still what the study says."""
    found = {}
    for run in planned:
        if steps_done(run.folder) >= run.recipe.training.steps:
            found[run.arm, run.seed] = Finished(run.arm, run.seed, run.folder)
    arms = {arm.name: arm for arm in study.arms}
    asked = {(run.arm, run.seed) for run in planned}
    for key, path in earlier_runs(folder).items():
        if key in asked or key[0] not in arms or not isinstance(key[1], int):
            continue
        recipe = arms[key[0]].at(key[1])
        whole = (path / RECIPE_FILE).is_file() and (path / METRICS).is_file()
        if whole and steps_done(path) == recipe.training.steps and not recipe_changes(recipe, path):
            found[key] = Finished(*key, path)
    order = {name: place for place, name in enumerate(arms)}
    return [found[key] for key in sorted(found, key=lambda key: (order[key[0]], key[1]))]


def fingerprint(study: Study, runs: Sequence[Finished], folder: Path) -> str:
    """Changes whenever the tables would, and for nothing else: a recipe's new keys leave finished studies alone."""
    arms = [(arm.name, arm.label, arm.baseline, arm.changes) for arm in study.arms]
    said = study.keys.model_dump(mode="json", exclude={"recipe", "set", "scales", "arms", "seeds", "minutes", "at"})
    parts = [json.dumps([FORMAT, study.name, study.scale, said, arms])]
    for run in runs:
        parts += [run.name, *(digest(run.folder / name) or "-" for name in (METRICS, HELD_OUT))]
    parts += [digest(each.folder / TABLE) or "-" for each in versus.finished(study, folder, runs)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def up_to_date(study: Study, folder: Path, runs: Sequence[Finished]) -> bool:
    """Whether the tables in `folder` are those of these runs."""
    there = all((folder / name).is_file() for name in (CURVES, SUMMARY, MANIFEST))
    return there and manifest_of(folder).get("fingerprint") == fingerprint(study, runs, folder)


def write_tables(study: Study, folder: Path, runs: Sequence[Finished], missing: Sequence[str]) -> None:
    """All tables, each in one rename, the manifest last. `missing` names runs that did not come to their end."""
    loaded = {run.name: _load(run) for run in runs}
    arms = [
        ArmTables(
            arm.name,
            arm.label,
            arm.baseline,
            tuple(loaded[run.name] for run in runs if run.arm == arm.name),
            arm.recipe.training.steps,
        )
        for arm in study.arms
    ]
    write_atomic(folder / CURVES, _csv(COLUMNS, _curves(study, runs, loaded)))
    rows = summary(arms, study.keys.metrics, study.keys.thresholds)
    write_atomic(folder / SUMMARY, _csv(columns(study.keys.thresholds), ({"study": study.name, **row} for row in rows)))
    if study.keys.winrate:
        versus.join(folder, versus.finished(study, folder, runs))
    write_manifest(folder, _manifest(study, folder, runs, missing))


def _load(run: Finished) -> RunTables:
    return RunTables(run.arm, run.seed, read_metrics(run.folder), read_held_out(run.folder))


def _curves(study: Study, runs: Sequence[Finished], loaded: Mapping[str, RunTables]) -> Iterable[dict[str, Any]]:
    wanted = (*study.keys.metrics, *_ALSO)
    for run in runs:
        metrics = loaded[run.name].metrics
        rows = metrics[(metrics["split"] == "held-out") & metrics["metric"].isin(wanted)]
        rows = rows.drop_duplicates(["step", "metric"], keep="last")
        yield from rows.assign(run=run.name, study=study.name, arm=run.arm).to_dict("records")


def _csv(names: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> bytes:
    """Empty cells where a value does not exist, numbers in their shortest form."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(names)
    table.writerows([_cell(row.get(name)) for name in names] for row in rows)
    return text.getvalue().encode()


def _cell(value: Cell) -> str:
    if value is None or (isinstance(value, float) and value != value):
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _manifest(study: Study, folder: Path, runs: Sequence[Finished], missing: Sequence[str]) -> dict[str, Any]:
    about = {run.name: manifest_of(run.folder) for run in runs}
    keys = study.keys
    found = {
        "study": study.name,
        "status": "incomplete" if missing else "complete",
        **{key: getattr(keys, key) for key in ("title", "figure", "paper", "note", "kind", "panels", "metrics")},
        "draw": keys.draw or keys.metrics[:1],
        "thresholds": keys.thresholds,
        "baseline": keys.baseline,
        "scale": study.scale,
        "command": _command(study, runs),
        "arms": [
            {
                "name": arm.name,
                "label": arm.label,
                "baseline": arm.baseline,
                "recipe": arm.recipe.name,
                "changes": list(arm.changes),
            }
            for arm in study.arms
        ],
        "runs": [
            {
                "arm": run.arm,
                "seed": run.seed,
                "folder": relative(run.folder, folder),
                "steps": about[run.name].get("steps_done"),
                "wall_seconds": about[run.name].get("wall_seconds"),
            }
            for run in runs
        ],
        "missing": list(missing),
        "heuristic": _words(about, "heuristic"),
        "simulated": _words(about, "simulated"),
        "judges": sorted({str(a["judge"]["kind"]) for a in about.values() if isinstance(a.get("judge"), dict)}),
        "hardware": _different(a.get("hardware", {}).get("cpu") for a in about.values()),
        "commits": _different((a.get("git") or {}).get("commit") for a in about.values()),
        "fingerprint": fingerprint(study, runs, folder),
    }
    if keys.winrate:
        found["winrate"] = keys.winrate.model_dump() | versus.about(versus.finished(study, folder, runs))
    return found


def _command(study: Study, runs: Sequence[Finished]) -> str:
    """What makes these tables, without options that change no number."""
    name = study.name if study.name in shipped_studies() else study.path.name
    parts = ["botgrpo ablate", name, "--scale", study.scale]
    seeds = sorted({run.seed for run in runs})
    parts += ["--seeds", ",".join(map(str, seeds))] if seeds != sorted(study.keys.seeds) else []
    parts += ["--steps", str(study.steps)] if study.steps else []
    arms = {run.arm for run in runs}
    names = [arm.name for arm in study.arms if arm.name in arms]
    parts += ["--arms", ",".join(names)] if len(names) < len(study.arms) else []
    return " ".join(parts)


def _words(about: Mapping[str, Mapping[str, Any]], key: str) -> list[str]:
    return _different(word for manifest in about.values() for word in manifest.get(key, []))


def _different(values: Iterable[Any]) -> list[str]:
    return sorted({str(value) for value in values if value})


def read_curves(folder: Path) -> pd.DataFrame:
    """curves.csv as `read_metrics` gives it. Raises InputError."""
    return read_metrics(Path(folder) / CURVES)


def read_summary(folder: Path) -> pd.DataFrame:
    """summary.csv with every cell as text; an empty one where there is no value."""
    return pd.read_csv(Path(folder) / SUMMARY, dtype=str, keep_default_na=False)


def arm_names(rows: pd.DataFrame) -> pd.Series:
    """What rows of a summary, one an arm, are called: their labels, or their arms where panels share labels. [A]"""
    return rows["label" if rows["label"].is_unique else "arm"]
