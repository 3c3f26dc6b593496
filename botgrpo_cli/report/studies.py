"""The studies below a folder, as their tables and manifests tell them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from botgrpo_cli.errors import InputError
from botgrpo_cli.records.manifest import read_manifest
from botgrpo_cli.records.read import read_samples
from botgrpo_cli.studies.tables import SUMMARY, read_summary
from botgrpo_cli.training.run import RECIPE_FILE


@dataclass(frozen=True)
class StudyFolder:
    """One study on disk."""

    folder: Path
    about: dict[str, Any]  # manifest.json
    summary: pd.DataFrame  # every cell as text

    @property
    def name(self) -> str:
        return str(self.about["study"])

    def picture(self) -> tuple[bytes, str] | None:
        """The figure and its media type."""
        for name, kind in (("figure.svg", "image/svg+xml"), ("figure.png", "image/png")):
            if (self.folder / name).is_file():
                return (self.folder / name).read_bytes(), kind
        return None

    def runs(self) -> Iterator[tuple[str, int, Path]]:
        """(arm, seed, folder) of each finished run; runs whose folder is gone are left out."""
        for run in self.about.get("runs", []):
            folder = self.folder / str(run.get("folder"))
            if (folder / RECIPE_FILE).is_file():
                yield str(run.get("arm")), int(run.get("seed", 0)), folder


def find_studies(folder: Path) -> list[StudyFolder]:
    """Studies in `folder` itself or in the folders right below it, in the order of the paper's figures."""
    found = []
    for path in (folder, *sorted(path for path in folder.iterdir() if path.is_dir())):
        if not (path / SUMMARY).is_file():
            continue
        try:
            about = read_manifest(path)
        except InputError:
            continue
        if "study" in about:
            found.append(StudyFolder(path, about, read_summary(path)))
    return sorted(found, key=_place)


def _place(study: StudyFolder) -> tuple[bool, int, str]:
    figure = str(study.about.get("figure", ""))
    return not figure.isdecimal(), int(figure) if figure.isdecimal() else 0, study.name


def first_and_last(folder: Path) -> list[dict[str, Any]]:
    """The kept training rollouts with tokens of a run's first and last step; empty where none were kept."""
    try:
        rows = [row for row in read_samples(folder) if row.get("split") == "train" and "pieces" in row]
    except InputError:
        return []
    steps = sorted({row["step"] for row in rows})
    chosen = steps[:1] + steps[1:][-1:]
    return [row for step in chosen for row in rows if row["step"] == step]
