"""One session of a run, to its end; the manifest says how it ended."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from botgrpo_cli.training import run, trackers

if TYPE_CHECKING:
    from botgrpo_cli.training.engines import Engine
    from botgrpo_cli.training.loop import Reporter, Trainer
    from botgrpo_cli.training.run import Prepared


@dataclass(frozen=True)
class Session:
    """A trainer that is ready; `evaluated_at` is the step whose evaluation is on disk already."""

    prepared: Prepared
    trainer: Trainer
    resumed: bool
    evaluated_at: int | None = None


def begin(
    prepared: Prepared, engine: Engine, reporter: Reporter, *, resume: bool = False, study: str = "", arm: str = ""
) -> Session:
    """Writes the first files of a new run, or loads the last checkpoint of an old one.

    Raises:
        InputError: the folder holds something already, or no run of this recipe.
    """
    if not resume:
        return Session(prepared, engine.start(reporter, study=study, arm=arm), resumed=False)
    trainer, evaluated_at = engine.resume(reporter, study=study, arm=arm)
    return Session(prepared, trainer, resumed=True, evaluated_at=evaluated_at)


def finish(session: Session) -> None:
    """Train to the end.

    Raises:
        KeyboardInterrupt: the state is saved.
        RunError: the run can't go on; the last checkpoint is kept.
    """
    started, status, trainer = time.monotonic(), "failed", session.trainer
    try:
        with trackers.following(trainer, resumed=session.resumed, evaluated_at=session.evaluated_at):
            trainer.run(session.evaluated_at)
        status = "done"
    except KeyboardInterrupt:
        status = "interrupted"
        raise
    finally:
        run.finish_manifest(session.prepared.out, status, started, trainer)
