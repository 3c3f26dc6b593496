"""The studies that are on disk below a folder, as their tables and manifests tell them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from botgrpo_cli.errors import InputError
from botgrpo_cli.records.manifest import read_manifest
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

    @property
    def scale(self) -> str:
        return str(self.about.get("scale"))

    @property
    def known_as(self) -> str:
        """Its name, with the scale where that is not the tiny one."""
        return self.name if self.scale == "tiny" else f"{self.name} ({self.scale})"

    @property
    def key(self) -> str:
        """For links to it: no spaces."""
        return self.name if self.scale == "tiny" else f"{self.name}-{self.scale}"

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
    """Studies in `folder` itself or at most two folders below it (`small/baselines`), in the order of the paper's
    figures, then ours by name, the tiny scale first."""
    found = []
    for table in (folder / SUMMARY, *folder.glob(f"*/{SUMMARY}"), *folder.glob(f"*/*/{SUMMARY}")):
        if not table.is_file():
            continue
        try:
            about = read_manifest(table.parent)
        except InputError:
            continue
        if "study" in about:
            found.append(StudyFolder(table.parent, about, read_summary(table.parent)))
    return sorted(found, key=_place)


def _place(study: StudyFolder) -> tuple[int, int, str, bool, str]:
    figure = str(study.about.get("figure", ""))
    kind = 0 if figure.isdecimal() else 1 if figure != "ours" else 2
    number = int(figure) if figure.isdecimal() else 0
    return kind, number, study.name, study.scale != "tiny", str(study.folder)
