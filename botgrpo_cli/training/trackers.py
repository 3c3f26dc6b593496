"""The metrics of a run in TensorBoard, W&B or Trackio too, through accelerate's classes. `metrics.csv` stays the truth.

A tracker hears every row that the run's writer has written, so both engines have them, and Ctrl-C leaves out none.
Whatever a tracker does wrong, the run goes on without it. Their files lie below `tracking/` in the run's folder.
"""

from __future__ import annotations

import contextlib
import io
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from botgrpo_cli.console import is_verbose
from botgrpo_cli.errors import InputError, RunError, first_line
from botgrpo_cli.records.write import RunWriter, to_json
from botgrpo_cli.training.tracker_kinds import KINDS, Live, Run, place_trackio

if TYPE_CHECKING:
    from botgrpo_cli.methods.registry import Method
    from botgrpo_cli.training.loop import Trainer

Rows = Sequence[tuple[str, str, float | None]]  # split, metric, value

FOLDER = "tracking"
INSTALL = "pip install 'botgrpo[track]'"

SPLITS = {"train": "train", "held-out": "eval"}  # ours: the prefix that transformers gives the metrics of TRL

# Our metric: TRL's of the same definition (trl/trainer/grpo_trainer.py, 1.16). Ours is the mean over a whole step where
# TRL has means of micro-batches. Left out, because something else is meant: `zero_spread` (of scores with their local
# part; TRL's `frac_reward_zero_std` is of the global reward alone) and `seconds_*` (`step_time` is that of one update).
TRL_NAMES = {
    "reward": "reward",  # mean over rollouts of the weighted sum of the global terms
    "loss": "loss",
    "grad_norm": "grad_norm",  # before it is clipped
    "learning_rate": "learning_rate",
    "entropy": "entropy",  # mean over tokens, at the sampling temperature
    "kl": "kl",  # k3, mean over tokens
    "length": "completions/mean_length",  # tokens, the end token included
    "truncated": "completions/clipped_ratio",  # share that does not end with an end token
    "clip_share": "clip_ratio/region_mean",
    "clip_share_low": "clip_ratio/low_mean",
    "clip_share_high": "clip_ratio/high_mean",
    "sampler_gap": "sampling/sampling_logp_difference/mean",
}
TERM = "term_"  # a reward term alone, without its weight: TRL's `rewards/NAME/mean`


def trl_names(method: Method) -> dict[str, str]:
    """TRL_NAMES without what this method makes something else: TRL's reward has the punishment of long rollouts in it,
    and with one ratio a rollout it counts clipped rollouts, where we count their tokens."""
    other = {"reward"} if method.overlong else set()
    if method.ratio == "sequence":
        other |= {name for name in TRL_NAMES if name.startswith("clip_share")}
    return {ours: theirs for ours, theirs in TRL_NAMES.items() if ours not in other}


def named(rows: Rows, same: Mapping[str, str]) -> dict[str, float]:
    """The (split, metric, value) rows of a step as trackers show them, without values that are missing or not finite.

    >>> rows = [("held-out", "length", 9.0), ("held-out", "solved", float("nan")), ("held-out", "term_format", 0.5)]
    >>> named(rows, TRL_NAMES)  # doctest: +NORMALIZE_WHITESPACE
    {'held-out/length': 9.0, 'held-out/term_format': 0.5, 'eval/completions/mean_length': 9.0,
     'eval/rewards/format/mean': 0.5}
    """
    finite = [row for row in rows if row[2] is not None and math.isfinite(row[2])]
    found = {f"{split}/{name}": value for split, name, value in finite}
    for split, name, value in finite:
        theirs = f"rewards/{name.removeprefix(TERM)}/mean" if name.startswith(TERM) else same.get(name)
        if theirs is not None:
            found[f"{SPLITS[split]}/{theirs}"] = value
    return found


# What is said and checked before anything starts


def prepare(names: Sequence[str], out: Path) -> None:
    """Check that the trackers that a recipe names can be had here, for a run in `out`. W&B asks its server, for ten
    seconds at most, unless it is offline.

    Raises:
        InputError: a package is not installed; W&B has no key, or its server does not answer or refuses it.
    """
    if not names:
        return
    from accelerate.tracking import get_available_trackers

    there = {str(kind) for kind in get_available_trackers()}
    if missing := [name for name in dict.fromkeys(names) if name not in there]:
        verb, what = ("is", "it") if len(missing) == 1 else ("are", "them")
        raise InputError(
            f"training.trackers names {' and '.join(missing)}, which {verb} not installed here. Install {what} with: "
            f"{INSTALL}"
        )
    if "trackio" in names:
        place_trackio(out / FOLDER)  # before TRL is loaded, which imports it
    if "wandb" in names:
        check_wandb()


def check_wandb() -> None:
    """A run that could not send anything should say so before it starts: W&B would ask for a key, or wait."""
    os.environ.setdefault("WANDB_SILENT", "true")
    import wandb

    settings = wandb.setup().settings
    if wandb_offline(settings.mode):
        return
    instead = (
        "To keep the run on this machine set WANDB_MODE=offline; `wandb sync` sends it later. Without W&B, take it out "
        "of training.trackers."
    )
    try:
        known = wandb.login(prompt=False, verify=True)
    except wandb.Error as error:
        raise InputError(
            f"training.trackers names wandb, and W&B can't be used: {first_line(error)}\n{instead}"
        ) from error
    if not known:
        raise InputError(
            f"training.trackers names wandb, and there is no key for {settings.base_url}. `wandb login` stores one, or "
            f"set WANDB_API_KEY. {instead}"
        )


def wandb_offline(mode: str) -> bool:
    """Whether a mode of W&B needs no server."""
    return mode in ("offline", "dryrun", "disabled")


def plan_rows(names: Sequence[str], out: Path) -> list[tuple[str, str]]:
    """(label, sentence) pairs for the plan: how to look at what the trackers write."""
    folder = out / FOLDER
    ways = {
        "tensorboard": f"tensorboard --logdir {folder / 'tensorboard'}",
        "wandb": "W&B names its page once the run has begun; offline, "
        f"`wandb sync {folder}/wandb/offline-run-*` sends the run",
        "trackio": f"TRACKIO_DIR={os.environ.get('TRACKIO_DIR', folder / 'trackio')} trackio show",
    }
    return [("tracker", ways[name]) for name in dict.fromkeys(names)]


# While the run goes on


@contextlib.contextmanager
def following(trainer: Trainer, *, resumed: bool, evaluated_at: int | None) -> Iterator[None]:
    """Begin the trackers that the recipe names, and end them with the body, which runs the trainer. Of several
    processes the main one tracks. `evaluated_at` is the last step whose evaluation is on disk already."""
    names = dict.fromkeys(trainer.recipe.training.trackers)
    if not names or not trainer.processes.main:
        yield
        return
    kept = None
    if resumed:  # a run without a checkpoint starts again, with nothing on disk
        kept = -1 if trainer.step == 0 and evaluated_at is None else trainer.step
    written = trainer.writer
    run = Run((trainer.folder / FOLDER).resolve(), written.labels, config_of(trainer), kept)
    tracking = Tracking(trl_names(trainer.method), trainer.reporter.note, written.event)
    for name in names:
        tracking.begin(name, run)
    trainer.writer = TrackedWriter(written.folder, written.labels, tracking.hear)
    done = False
    try:
        yield
        done = True
    finally:
        tracking.finish(done)


@dataclass(frozen=True)
class TrackedWriter(RunWriter):
    """Tells `hear` of a step and its rows once they are written."""

    hear: Callable[[int, Rows], None]

    def metrics(self, step: int, rows: Rows) -> None:
        super().metrics(step, rows)
        self.hear(step, rows)


class Tracking:
    """The trackers of a run that have not failed. `same` is from our metrics to TRL's, `note` is for the terminal and
    `event` for events.log."""

    def __init__(self, same: Mapping[str, str], note: Callable[[str], None], event: Callable[[str], None]) -> None:
        self.same, self.note, self.event = same, note, event
        self.live: dict[str, Live] = {}

    def begin(self, name: str, run: Run) -> None:
        with self._apart(name, "before the first step"), quietly():
            run.folder.mkdir(exist_ok=True)
            accelerate_state()
            self.live[name] = KINDS[name](run)
        if name in self.live and self.live[name].page:
            self.note(f"{name} shows the run at {self.live[name].page}")

    def hear(self, step: int, rows: Rows) -> None:
        values = named(rows, self.same)
        for name, tracker in self.live.items():
            with self._apart(name, f"at step {step}"):
                tracker.log(values, step)

    def finish(self, done: bool) -> None:
        for name, tracker in self.live.items():
            with self._apart(name, "when the run ended"), quietly():
                tracker.finish(done)

    @contextlib.contextmanager
    def _apart(self, name: str, when: str) -> Iterator[None]:
        """A tracker that raises is said to be lost, once, and left out from there on."""
        try:
            yield
        except Exception as error:
            self.live = {other: tracker for other, tracker in self.live.items() if other != name}
            sentence = f"The tracker {name} failed {when} and hears no more of this run: {first_line(error)}"
            self.note(f"{sentence} metrics.csv holds every value.")
            with contextlib.suppress(RunError):  # a full disk stops the run at its next row anyway
                self.event(sentence)


def config_of(trainer: Trainer) -> dict[str, bool | str | float | int | None]:
    """The recipe with dotted keys, lists as JSON, and the labels of the run that it does not hold."""
    from botgrpo_cli.training.run import flat

    def plain(value: Any) -> bool | str | float | int | None:
        return value if value is None or isinstance(value, bool | str | float | int) else to_json(value)

    labels = trainer.writer.labels
    own = {"run": labels.run, "study": labels.study, "arm": labels.arm}
    return {key: plain(value) for key, value in flat(trainer.recipe.model_dump()).items()} | own


def accelerate_state() -> None:
    """accelerate's trackers need its process state. Made for several processes on CPUs it takes the threads of torch
    for its own, and a run's numbers may depend on them."""
    import torch
    from accelerate import PartialState

    threads = torch.get_num_threads()
    PartialState()
    torch.set_num_threads(threads)


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Trackers greet on standard output, which is for results."""
    with contextlib.nullcontext() if is_verbose() else contextlib.redirect_stdout(io.StringIO()):
        yield
