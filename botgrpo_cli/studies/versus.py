"""The comparisons of a study of win rates: after training, a judge compares one arm with every other, seed by seed.

Each is one call of `botgrpo winrate` over all checkpoints, in a folder beside the runs; the study's winrate.csv holds
the rows of all of them.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from botgrpo_cli.recipe.checks import prompt_counts
from botgrpo_cli.records.manifest import run_digest
from botgrpo_cli.studies.load import Study
from botgrpo_cli.studies.state import Planned, checkpoint_steps, manifest_of
from botgrpo_cli.winrate.tables import TABLE, write_table

MARK = "-v-"  # arm-v-other-seedN: no run is called so


class Run(Protocol):
    """A run of a study, planned or finished."""

    arm: str
    seed: int
    folder: Path


@dataclass(frozen=True)
class Comparison:
    """One arm against another at a seed."""

    arm: str
    other: str
    seed: int
    folder: Path
    steps: tuple[int, ...]  # checkpoints that both have
    prompts: int
    sides: tuple[Path | None, Path | None]  # the runs; None for one that is not there

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def pair(self) -> set[tuple[str, int]]:
        """Both runs, by arm and seed."""
        return {(self.arm, self.seed), (self.other, self.seed)}

    @property
    def complete(self) -> bool:
        """Whether every checkpoint of these very runs was compared."""
        found = manifest_of(self.folder)
        wanted = [[step, step] for step in self.steps]
        whole = found.get("steps") == wanted and len(found.get("prompts", [])) == self.prompts
        return whole and all(
            side is not None and told.get("run") == run_digest(side)
            for side, told in zip(self.sides, found.get("sides", [{}, {}]), strict=True)
        )

    @property
    def ready(self) -> bool:
        """Whether both runs are there."""
        return None not in self.sides

    def arguments(self) -> list[str]:
        """Of the `botgrpo` command."""
        steps = ",".join(map(str, self.steps))  # an interrupted run has other checkpoints too
        options = ["--checkpoints", steps, "--prompts", str(self.prompts), "--out", str(self.folder)]
        return ["winrate", *map(str, self.sides), *options]


def comparisons(study: Study, folder: Path, runs: Sequence[Run]) -> list[Comparison]:
    """All that is asked for between these runs: the other arms, then the seeds. Empty for a study of another kind."""
    return _between(study, folder, runs, study.chosen, study.seeds)


def _between(
    study: Study, folder: Path, runs: Sequence[Run], arms: Iterable[str], seeds: Sequence[int]
) -> list[Comparison]:
    if study.keys.winrate is None:
        return []
    own, recipe = study.keys.winrate.arm, study.arm(study.keys.winrate.arm).recipe
    steps, counts = tuple(checkpoint_steps(recipe)), prompt_counts(recipe)
    prompts = min(study.keys.winrate.prompts, counts[1] if counts else study.keys.winrate.prompts)
    there = {(run.arm, run.seed): run.folder for run in runs}
    return [
        Comparison(
            own,
            other,
            seed,
            folder / f"{own}{MARK}{other}-seed{seed}",
            steps,
            prompts,
            (there.get((own, seed)), there.get((other, seed))),
        )
        for other in arms
        if other != own
        for seed in seeds
    ]


def left(study: Study, folder: Path, planned: Sequence[Planned]) -> list[Comparison]:
    """Those that are still to be made once these runs are there: of a run that is trained (again), all."""
    again = {(run.arm, run.seed) for run in planned if not run.complete}
    return [each for each in comparisons(study, folder, planned) if not each.complete or each.pair & again]


def finished(study: Study, folder: Path, runs: Sequence[Run]) -> list[Comparison]:
    """The complete comparisons between these runs, whether this call asks for their arms and seeds or not."""
    arms, seeds = [arm.name for arm in study.arms], sorted({run.seed for run in runs})
    return [each for each in _between(study, folder, runs, arms, seeds) if each.complete]


def join(folder: Path, compared: Sequence[Comparison]) -> None:
    """Write the study's winrate.csv: the rows of each comparison, under the study's own names of the runs."""
    rows = []
    for each in compared:
        with (each.folder / TABLE).open(encoding="utf-8", newline="") as file:
            names = {"run_a": f"{each.arm}-seed{each.seed}", "run_b": f"{each.other}-seed{each.seed}"}
            rows += [row | names for row in csv.DictReader(file)]
    if rows:
        write_table(folder / TABLE, rows)


def about(compared: Sequence[Comparison]) -> dict[str, Any]:
    """What the manifest of the study says of the judge."""
    found = [manifest_of(each.folder) for each in compared]
    judges = [manifest["judge"] for manifest in found if isinstance(manifest.get("judge"), dict)]
    return {
        "judges": sorted({str(judge.get("kind")) for judge in judges}),
        "shown": sorted({str(manifest["shown"]) for manifest in found if manifest.get("shown")}),
        "heuristic": sorted({word for manifest in found for word in manifest.get("heuristic", [])}),
        "simulated": sorted({word for manifest in found for word in manifest.get("simulated", [])}),
    }
