"""How each tracker begins a run, takes a step's values and ends, through accelerate's tracker classes."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from botgrpo_cli.records.schema import RunLabels
from botgrpo_cli.records.write import write_atomic

PROJECT = "botgrpo"
WANDB_ID = "wandb-id.txt"  # the run's name on W&B's server, so that a resumed run goes on there
WANDB_SECONDS = 30.0  # to begin a run, and to send what is left at its end


@dataclass(frozen=True)
class Run:
    """What a tracker is told of a run."""

    folder: Path  # `tracking` in the run's folder
    labels: RunLabels
    config: dict[str, bool | str | float | int | None]  # the recipe, flat
    kept: int | None  # the last step whose rows are on disk, of a run that goes on; None for a new one

    @property
    def tags(self) -> list[str]:
        words = (self.labels.task, self.labels.method, self.labels.scale, self.labels.arm)
        return [word[:64] for word in words if word]  # W&B's limit


@dataclass(frozen=True)
class Live:
    """A tracker that has begun."""

    log: Callable[[dict[str, float], int], object]  # values, step
    finish: Callable[[bool], object]  # whether the run came to its end
    page: str | None = None


def begin_tensorboard(run: Run) -> Live:
    """Events in `tracking/tensorboard`; those of steps that a resumed run repeats are purged."""
    from accelerate.tracking import TensorBoardTracker

    more = {} if run.kept is None else {"purge_step": run.kept + 1}
    known = (run.folder / "tensorboard").exists()
    tracker = TensorBoardTracker("tensorboard", run.folder, **more)
    tracker.start()
    if not known:
        tracker.store_init_configuration(run.config)
    return Live(lambda values, step: tracker.log(values, step=step), lambda _: tracker.finish())


def begin_wandb(run: Run) -> Live:
    """A run of W&B, in the project WANDB_PROJECT names. Its id lies in the run's folder, and a resumed run takes it up.

    W&B's own step may only rise, so a step that is repeated after a crash, or the evaluation of the last one, would be
    dropped. Ours is a metric, which the figures have as their x axis.
    """
    import wandb
    from accelerate.tracking import WandBTracker

    settings = wandb.Settings(
        console="off",  # a bar that is redrawn makes a page of every second
        silent=True,
        init_timeout=WANDB_SECONDS,
        finish_timeout=WANDB_SECONDS,
        finish_timeout_raises=True,
    )
    tracker = WandBTracker(
        os.environ.get("WANDB_PROJECT") or PROJECT,
        id=wandb_id(run.folder, run.labels.run),
        resume="allow",
        name=run.labels.run,
        group=run.labels.study or None,
        tags=run.tags,
        config=run.config,
        dir=str(run.folder),
        settings=settings,
    )
    tracker.start()
    here = tracker.tracker
    here.define_metric("step")
    here.define_metric("*", step_metric="step")
    return Live(
        lambda values, step: tracker.log({**values, "step": step}),
        lambda done: tracker.finish() if done else here.finish(exit_code=1),
        here.url,
    )


def wandb_id(folder: Path, run: str) -> str:
    """The id of the run in `folder`; the first call makes one: the run's name and what no other run has."""
    file = folder / WANDB_ID
    if not file.is_file():
        name = re.sub(r"[^\w-]+", "-", run, flags=re.ASCII)[:80]
        write_atomic(file, f"{name}-{uuid.uuid4().hex[:8]}\n".encode())
    return file.read_text(encoding="utf-8").strip()


def begin_trackio(run: Run) -> Live:
    """A table of Trackio in `tracking/trackio`, or where TRACKIO_DIR or a Space of the environment say. Steps that are
    repeated after a crash stand there twice: its tables can't be cut."""
    place_trackio(run.folder)
    import trackio
    from accelerate.tracking import TrackioTracker

    tracker = TrackioTracker(
        os.environ.get("TRACKIO_PROJECT") or PROJECT,
        name=run.labels.run,
        group=run.labels.study or None,
        config=run.config,  # accelerate would put it where Trackio does not look
        resume="never" if run.kept is None else "allow",
        embed=False,
        auto_log_cpu=False,
        auto_log_gpu=False,
    )
    tracker.start()
    # The module's own `finish`: after that of the run alone, it would be ended, and say so, once more at exit.
    return Live(lambda values, step: tracker.log(values, step=step), lambda _: trackio.finish())


def place_trackio(folder: Path) -> None:
    """Trackio reads its folder when it is imported, and in a process for ever; one that the environment names stays."""
    os.environ.setdefault("TRACKIO_DIR", str((folder / "trackio").resolve()))


KINDS: dict[str, Callable[[Run], Live]] = {
    "tensorboard": begin_tensorboard,
    "wandb": begin_wandb,
    "trackio": begin_trackio,
}
