"""The comparisons of a study of win rates: after training, a judge compares one arm with every other, seed by seed.

Each is one call of `botgrpo winrate` over all checkpoints, in a folder beside the runs; the study's winrate.csv holds
the rows of all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from botgrpo_cli.recipe.checks import prompt_counts
from botgrpo_cli.records.write import write_atomic
from botgrpo_cli.studies.load import Study
from botgrpo_cli.studies.state import checkpoint_steps, manifest_of
from botgrpo_cli.winrate.tables import TABLE

if TYPE_CHECKING:
    from botgrpo_cli.studies.tables import Finished

MARK = "-v-"  # arm-v-other-seedN: no run is called so


@dataclass(frozen=True)
class Comparison:
    """One arm against another at a seed."""

    arm: str
    other: str
    seed: int
    folder: Path
    steps: tuple[int, ...]  # checkpoints that both have
    prompts: int

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def complete(self) -> bool:
        found = manifest_of(self.folder)
        wanted = [[step, step] for step in self.steps]
        return found.get("steps") == wanted and len(found.get("prompts", [])) == self.prompts

    def arguments(self, mine: Path, theirs: Path) -> list[str]:
        """Of the `botgrpo` command."""
        steps = ",".join(map(str, self.steps))  # an interrupted run has other checkpoints too
        options = ["--checkpoints", steps, "--prompts", str(self.prompts), "--out", str(self.folder)]
        return ["winrate", str(mine), str(theirs), *options]


def comparisons(study: Study, folder: Path) -> list[Comparison]:
    """All that the study asks for: the other arms, then the seeds. Empty for a study of another kind."""
    if study.keys.winrate is None:
        return []
    own, recipe = study.keys.winrate.arm, study.arm(study.keys.winrate.arm).recipe
    steps, counts = tuple(checkpoint_steps(recipe)), prompt_counts(recipe)
    prompts = min(study.keys.winrate.prompts, counts[1] if counts else study.keys.winrate.prompts)
    return [
        Comparison(own, other, seed, folder / f"{own}{MARK}{other}-seed{seed}", steps, prompts)
        for other in study.chosen
        if other != own
        for seed in study.seeds
    ]


def folder_of(runs: Sequence[Finished], arm: str, seed: int) -> Path | None:
    """Where a finished run is."""
    return next((run.folder for run in runs if (run.arm, run.seed) == (arm, seed)), None)


def tables(folder: Path) -> list[Path]:
    """The winrate.csv of every comparison there, in order of their names."""
    return sorted(folder.glob(f"*{MARK}*-seed*/{TABLE}"))


def join(folder: Path) -> None:
    """Write the study's winrate.csv: one header, then the rows of each comparison as they stand."""
    parts = [path.read_bytes() for path in tables(folder)]
    if parts:
        header = parts[0].partition(b"\n")[0] + b"\n"
        write_atomic(folder / TABLE, header + b"".join(part.partition(b"\n")[2] for part in parts))


def about(folder: Path) -> dict[str, Any]:
    """What the manifest of the study says of the judge."""
    found = [manifest_of(path.parent) for path in tables(folder)]
    judges = [manifest["judge"] for manifest in found if isinstance(manifest.get("judge"), dict)]
    return {
        "judges": sorted({str(judge.get("kind")) for judge in judges}),
        "shown": sorted({str(manifest["shown"]) for manifest in found if manifest.get("shown")}),
        "heuristic": sorted({word for manifest in found for word in manifest.get("heuristic", [])}),
        "simulated": sorted({word for manifest in found for word in manifest.get("simulated", [])}),
    }
