"""What of a study is on disk already: runs that are kept, taken from another study, gone on with, or refused."""

from __future__ import annotations

import os
import shutil
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from botgrpo_cli.errors import InputError
from botgrpo_cli.recipe.schema import Recipe
from botgrpo_cli.records.held_out import HELD_OUT
from botgrpo_cli.records.manifest import MANIFEST, read_manifest
from botgrpo_cli.records.rooms import rooms
from botgrpo_cli.records.write import METRICS
from botgrpo_cli.studies.load import Study
from botgrpo_cli.tiny import weights_digest
from botgrpo_cli.training.checkpoint import list_checkpoints
from botgrpo_cli.training.run import RECIPE_FILE, recipe_changes

State = Literal["new", "resume", "kept", "reused"]
_FIRST_FILES = (METRICS, RECIPE_FILE)  # what a start that was killed at once may have left


@dataclass(frozen=True)
class Planned:
    """One run of a study: an arm at a seed, and where it is."""

    arm: str
    seed: int
    recipe: Recipe
    folder: Path  # of another study when `state` is "reused"
    state: State
    done: int = 0  # steps on disk

    @property
    def name(self) -> str:
        return f"{self.arm}-seed{self.seed}"

    @property
    def complete(self) -> bool:
        return self.state in ("kept", "reused")


def plan(
    study: Study, folder: Path, *, resume: bool, compared: Container[tuple[str, int]] = frozenset()
) -> list[Planned]:
    """Every run of the study in `folder` with its state, arm by arm. Nothing is written.

    A finished run with the same recipe in a study beside this one is taken instead of training it again. Runs in
    `compared`, by arm and seed, need their checkpoints, for they are still to be compared. Raises InputError: a run
    there is of another recipe (the difference is shown) or longer than asked, or the study is there and `resume` is
    false.
    """
    if not resume and (there := taken(study, folder)):
        raise InputError(
            f"{folder} holds runs of this study already ({len(there)}: {there[0].name} …). Add --resume "
            f"--out {folder.parent} to keep what is finished and go on with the rest, or name another folder."
        )
    found, refused, earlier = [], [], earlier_runs(folder)
    for arm in map(study.arm, study.chosen):
        for seed in study.seeds:
            recipe, own = arm.at(seed), folder / f"{arm.name}-seed{seed}"
            checkpoints = (arm.name, seed) in compared
            if not _empty(own):
                refused += _refusals(recipe, own)
                found.append(_there(arm.name, seed, recipe, own, checkpoints))
                continue
            other = _elsewhere(recipe, folder, checkpoints)
            if other is None and (before := earlier.get((arm.name, seed))) and _begun(before):
                refused += _refusals(recipe, before)  # else the tables there would be overwritten with others
            state: State = "new" if other is None else "reused"
            done = recipe.training.steps if other else 0
            found.append(Planned(arm.name, seed, recipe, other or own, state, done))
    if refused:
        raise InputError("\n".join([f"{folder} can't be gone on with; nothing was started.", *refused]))
    return found


def taken(study: Study, folder: Path) -> list[Path]:
    """What of the study's runs is in `folder`, or else its tables, where they tell of these runs in another study."""
    asked = [(arm, seed) for arm in study.chosen for seed in study.seeds]
    runs = [own for arm, seed in asked if not _empty(own := folder / f"{arm}-seed{seed}")]
    return runs or ([folder / MANIFEST] if earlier_runs(folder).keys() & set(asked) else [])


def free_root(studies: Sequence[Study]) -> Path:
    """The first folder of `rooms` where none of the studies is finished already.

    One that was begun and did not come to its end is more likely to be gone on with: its room is returned, and `plan`
    says how.
    """
    for root in rooms():
        there = [path for study in studies for path in taken(study, root / study.name)]
        if not there or any(path.name != MANIFEST and not steps_done(path) for path in there):
            return root
    raise AssertionError("rooms have no end")


def earlier_runs(folder: Path) -> dict[tuple[str, int], Path]:
    """Where the tables in `folder` have each run from, by arm and seed."""
    runs = manifest_of(folder).get("runs", [])
    return {(run.get("arm"), run.get("seed")): Path(folder, str(run.get("folder", ""))) for run in runs}


def _there(arm: str, seed: int, recipe: Recipe, own: Path, checkpoints: bool) -> Planned:
    if not _begun(own):
        return Planned(arm, seed, recipe, own, "new")
    done = steps_done(own)
    # A run whose checkpoints are gone trains again: that is what going on without any means.
    kept = done >= recipe.training.steps and not (checkpoints and not list_checkpoints(own))
    return Planned(arm, seed, recipe, own, "kept" if kept else "resume", done)


def _begun(folder: Path) -> bool:
    """Whether a run got as far as its first files, so that it can be gone on with."""
    return all((folder / name).is_file() for name in (RECIPE_FILE, MANIFEST, METRICS))


def _empty(folder: Path) -> bool:
    return not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))


def _refusals(recipe: Recipe, own: Path) -> Iterator[str]:
    """Why the run in `own` can't be this one."""
    if not _begun(own):
        if not own.is_dir() or any(not _left(path) for path in own.iterdir()):
            yield f"{own} holds something that is no run. Move it, or name another folder with --out."
        return
    if _other_weights(recipe, manifest_of(own)):
        model = recipe.policy.model
        yield f"{own} started from weights of {model} that another version of botgrpo had; name another --out."
    elif changes := recipe_changes(recipe, own):
        yield f"{own} is a run of another recipe (- before, + now):"
        yield from (f"  {line}" for line in changes)
    elif (done := steps_done(own)) > (asked := recipe.training.steps):
        yield f"{own} has {done} steps already, more than the {asked} asked for; expected --steps {done}."


def _left(path: Path) -> bool:
    return path.name in _FIRST_FILES or path.name.startswith(".")


def clear(run: Planned) -> None:
    """Remove what a start that was killed at once left in the folder of a new run."""
    if run.folder.exists():
        shutil.rmtree(run.folder)


def manifest_of(folder: Path) -> dict[str, Any]:
    """The manifest of a run, empty where it can't be read: a kill may have come before it was written."""
    try:
        return read_manifest(folder)
    except InputError:
        return {}


def steps_done(folder: Path) -> int:
    """Steps of a run that came to its end; 0 for one that did not."""
    found = manifest_of(folder)
    done = found.get("steps_done")
    return done if found.get("status") == "done" and isinstance(done, int) else 0


def _other_weights(recipe: Recipe, about: Mapping[str, Any]) -> bool:
    """Whether a run started from other weights than the recipe's model has now; only the package's own are known."""
    before = about.get("policy", {}).get("weights")
    return before is not None and before != weights_digest(recipe.policy.model)


def _elsewhere(recipe: Recipe, folder: Path, checkpoints: bool) -> Path | None:
    """A finished run of the same recipe in a study beside `folder`."""
    for path in sorted(folder.parent.glob(f"*/*/{HELD_OUT}")):  # without it nothing can be compared prompt by prompt
        other = path.parent
        if other.parent.resolve() == folder.resolve() or not _begun(other):
            continue
        about, training = manifest_of(other), recipe.training
        alike = {"method": recipe.method.name, "seed": training.seed, "scale": recipe.scale}
        if any(about.get(key) != value for key, value in alike.items()):
            continue  # quicker than reading its recipe
        if _other_weights(recipe, about):
            continue
        there = {c.step for c in list_checkpoints(other)} if checkpoints else set()
        enough = not checkpoints or there >= set(checkpoint_steps(recipe))
        if steps_done(other) == training.steps and enough and not recipe_changes(recipe, other):
            return other
    return None


def checkpoint_steps(recipe: Recipe) -> list[int]:
    """Steps at which a run that keeps all of its checkpoints has one."""
    steps, every = recipe.training.steps, recipe.checkpoint.every
    return [*range(every, steps, every), steps]


def relative(path: Path, folder: Path) -> str:
    """`path` as the tables of a study in `folder` name it."""
    return Path(os.path.relpath(path, folder)).as_posix()
