"""botgrpo report: one page of every study."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from botgrpo_cli.console import console
from botgrpo_cli.errors import InputError
from botgrpo_cli.records.rooms import RESULTS


def report(
    folder: Annotated[Path, typer.Argument(metavar="[DIR]", help="Folder with studies, or a study.")] = RESULTS,
    out: Annotated[Path | None, typer.Option(help="File to write.", show_default="DIR/report.html")] = None,
) -> None:
    """Write one HTML page of every study in DIR: figures, tables, the paper beside what was measured, rollouts.

    The page needs nothing else. Studies are what `botgrpo ablate` made.
    """
    if not folder.is_dir():
        raise InputError(f"There is no folder {folder}. `botgrpo ablate STUDY` makes results/STUDY.")
    from botgrpo_cli.records.write import write_atomic
    from botgrpo_cli.report.page import report as render
    from botgrpo_cli.studies.found import find_studies

    studies = find_studies(folder)
    if not studies:
        raise InputError(
            f"{folder} holds no study. `botgrpo ablate STUDY` makes one; `botgrpo ablate --list` names them."
        )
    path = out or folder / "report.html"
    page = render(studies)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, page.encode())
    names = ", ".join(study.known_as for study in studies)
    console().print(f"{len(studies)} studies ({names}), {len(page) / 1e6:.1f} MB: {path}", soft_wrap=True)
