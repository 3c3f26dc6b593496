"""Putting a run together from a recipe: what is checked, in which order, and what is written first."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from botgrpo_cli.errors import InputError
from botgrpo_cli.methods.registry import Method, resolve
from botgrpo_cli.policy.decode import Decoder, choose_decoder
from botgrpo_cli.policy.load import Policy, load_policy
from botgrpo_cli.policy.sharding import shard
from botgrpo_cli.recipe.load import dump_recipe, load_recipe
from botgrpo_cli.recipe.schema import CheckpointConfig, JudgeConfig, Recipe
from botgrpo_cli.records.manifest import MANIFEST, git_state, hardware, read_manifest, software, write_manifest
from botgrpo_cli.records.read import read_metrics
from botgrpo_cli.records.rooms import RESULTS
from botgrpo_cli.records.schema import RunLabels
from botgrpo_cli.records.write import RunWriter, make_folder, write_atomic
from botgrpo_cli.tasks.base import SPLITS, Task
from botgrpo_cli.tasks.registry import make_task, task_of
from botgrpo_cli.training.checkpoint import list_checkpoints, load_checkpoint
from botgrpo_cli.training.loop import Reporter, Trainer
from botgrpo_cli.training.plan import Plan, make_plan
from botgrpo_cli.training.processes import ALONE, Processes
from botgrpo_cli.training.rollouts import collect, unscored

RECIPE_FILE = "recipe.yaml"
SOURCES = "task"  # folder of a run
REHEARSED_TOKENS = 48  # of the completion that is scored before a run starts
# Settings of the judge that change no verdict.
PATIENCE = ("key_variable", "concurrency", "timeout", "tries", "cache", "prices")


@dataclass
class Prepared:
    """Everything a run needs, loaded and checked; nothing is written yet."""

    recipe: Recipe
    policy: Policy
    decoder: Decoder
    task: Task
    method: Method
    plan: Plan
    out: Path
    processes: Processes = ALONE

    def close(self) -> None:
        self.task.close()


def default_out(recipe: Recipe) -> Path:
    return RESULTS / f"{recipe.name}-{recipe.scale}-{recipe.method.name}-seed{recipe.training.seed}"


def prepare(
    recipe: Recipe, out: Path, *, say: Callable[[str], None] = lambda _: None, processes: Processes = ALONE
) -> Prepared:
    """Load policy, task and method, and check what can only be checked with them loaded. Of several processes each
    loads its own; then all have the same weights, or their parts of them.

    Raises:
        InputError: anything that would stop the run later.
    """
    prepared: Prepared | None = None
    try:
        with processes.agreed():
            prepared = load(recipe, out, say, processes)
        if not processes.alone:
            processes.same(prepared.policy.trainable().values())
            if processes.sharded:
                shard(prepared.policy)
            prepared.decoder.refresh()
        return prepared
    except BaseException:
        if prepared is not None:
            prepared.close()
        raise


def load(recipe: Recipe, out: Path, say: Callable[[str], None], processes: Processes) -> Prepared:
    """What `prepare` does before processes wait for each other."""
    import torch

    method = resolve(recipe.method)
    task_of(recipe).require(recipe)
    if threads := recipe.training.threads or threads_each(processes):
        torch.set_num_threads(threads)
    torch.manual_seed(recipe.training.seed)  # new adapters start at random
    say(f"Loading {recipe.policy.model}.")
    policy = load_policy(
        recipe.policy, scale=recipe.scale, local_rank=None if processes.alone else processes.local_rank
    )
    if policy.device.type == "cuda":
        torch.cuda.set_device(policy.device)  # what the messages between processes go through
    task = make_task(recipe, say)
    try:
        train, held_out = task.prompts("train"), task.prompts("held-out")
        lengths = [len(ids) for ids in policy.encode_all([*train, *held_out])]
        limit = max(recipe.sampling.max_new_tokens, recipe.evaluation.max_new_tokens or 0)
        if max(lengths) + limit > policy.context_length:
            raise InputError(
                f"The longest prompt has {max(lengths)} tokens, and with {limit} new ones it does not fit into the "
                f"policy's context of {policy.context_length}. sampling.max_new_tokens and evaluation.max_new_tokens "
                f"may be {policy.context_length - max(lengths)} at most."
            )
        decoder = choose_decoder(policy, to_be_sharded=processes.sharded)
        if task.rehearsed:
            rehearse(task, policy, decoder, recipe)
        plan = make_plan(recipe, policy, prompt_tokens=round(sum(lengths) / len(lengths)), processes=processes)
        return Prepared(recipe, policy, decoder, task, method, plan, out, processes)
    except BaseException:
        task.close()
        raise


def rehearse(task: Task, policy: Policy, decoder: Decoder, recipe: Recipe) -> None:
    """Have the task score one completion of each split, so that what is wrong with it shows before a run starts.

    Raises:
        InputError: it could not be scored, for the reasons that the task gives.
    """
    for split in SPLITS:
        batch = collect(
            policy,
            decoder,
            task,
            task.prompts(split)[:1],
            group_size=1,
            max_new_tokens=min(REHEARSED_TOKENS, recipe.sampling.max_new_tokens),
            temperature=recipe.sampling.temperature,
            seed=recipe.training.seed,
            step=f"rehearsal {split}",
        )
        if reasons := unscored(batch):
            raise InputError("\n".join(["A completion could not be scored; nothing was started.", *reasons]))


def threads_each(processes: Processes) -> int:
    """torch threads of one of several processes: the cores shared out, whatever the launcher set. 0 for one alone,
    which keeps torch's own choice."""
    if processes.alone:
        return 0
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores // processes.local_count)


class SilentWriter(RunWriter):
    """What a process has that is not the main one: it writes nothing."""

    def _append(self, name: str, data: bytes, what: str) -> None:
        pass

    def _rewrite(self, last_step: int | None) -> None:
        pass


def start(prepared: Prepared, reporter: Reporter, *, study: str = "", arm: str = "") -> Trainer:
    """Write the first files of a new run.

    Raises:
        InputError: the folder holds something already.
    """
    writer: RunWriter = SilentWriter(prepared.out, labels_of(prepared, study, arm))
    with prepared.processes.agreed():
        if prepared.processes.main:
            writer = RunWriter.create(writer.folder, writer.labels)
            write_atomic(prepared.out / RECIPE_FILE, dump_recipe(prepared.recipe).encode())
            write_manifest(prepared.out, manifest_of(prepared, study, arm))
            keep_sources(prepared)
            writer.event("started")
    return trainer_of(prepared, writer, reporter)


def keep_sources(prepared: Prepared) -> None:
    """Copies of the task's own code beside the records that it made."""
    files = type(prepared.task).files(prepared.recipe).values()
    for path in (path for path in files if path.suffix == ".py"):
        make_folder(prepared.out / SOURCES)
        write_atomic(prepared.out / SOURCES / path.name, path.read_bytes())


def resume(prepared: Prepared, reporter: Reporter, *, study: str = "", arm: str = "") -> tuple[Trainer, int | None]:
    """Go on from the last checkpoint of the run in `prepared.out`, on whatever number of processes.

    Returns the trainer and the step whose evaluation is on disk already, or None.
    Raises:
        InputError: there is no run, or its recipe is another one (the difference is shown).
    """
    out, processes = prepared.out, prepared.processes
    writer: RunWriter = SilentWriter(out, labels_of(prepared, *kept_labels(out, study, arm)))
    with processes.agreed():
        refuse_other_recipe(prepared.recipe, out)
        if processes.main:
            writer = RunWriter.resume(out, writer.labels)
        trainer = trainer_of(prepared, writer, reporter)
        checkpoints = list_checkpoints(out)
        if checkpoints:
            load_checkpoint(checkpoints[-1], prepared.policy, trainer.optimizer)
            trainer.step = trainer.saved_at = checkpoints[-1].step
    prepared.decoder.refresh()
    evaluated_at = None
    with processes.agreed():
        if processes.main:
            # A run killed before its first checkpoint starts again, with nothing on disk.
            writer.truncate_after(trainer.step if checkpoints else -1)
            rows = read_metrics(out)
            if len(rows[(rows["split"] == "held-out") & (rows["step"] == trainer.step)]):
                evaluated_at = trainer.step
            write_atomic(out / RECIPE_FILE, dump_recipe(prepared.recipe).encode())  # steps may have been raised
            writer.event(f"resumed at step {trainer.step}")
    return trainer, processes.gather(evaluated_at)[0]


def refuse_occupied(out: Path) -> None:
    """Say at once, before anything is loaded, that a folder is taken."""
    if not out.is_dir() or any(out.iterdir()):
        raise InputError(
            f"{out} holds something already. Add --resume to go on with it, or name another folder with --out."
        )


def refuse_other_recipe(recipe: Recipe, out: Path) -> None:
    """Only what changes no number may differ from what the run was started with: steps, threads, workers, trackers,
    checkpoints, and how patiently a judge is asked."""
    if not (out / RECIPE_FILE).is_file():
        raise InputError(f"There is no run in {out} to resume. Leave --resume out to start one there.")
    if changes := recipe_changes(recipe, out):
        raise InputError(
            f"{out} holds a run of another recipe; it can't be resumed with these changes (- before, + now):\n  "
            + "\n  ".join(changes)
            + "\nName another folder with --out to start a new run."
        )


def recipe_changes(recipe: Recipe, out: Path) -> list[str]:
    """What in `recipe` differs from the recipe of the run in `out` and changes its numbers: "-reward.lint.weight: 0.3"
    is before, "+reward.lint.weight: 0.5" is now. Empty when nothing does."""
    before = load_recipe(str(out / RECIPE_FILE)).recipe

    def comparable(r: Recipe) -> dict[str, Any]:
        training = r.training.model_copy(update={"steps": 1, "threads": 0, "trackers": []})
        task = r.task.model_copy(update=dict.fromkeys(task_of(r).free_keys))
        judge = r.judge.model_copy(update={key: getattr(JudgeConfig(), key) for key in PATIENCE})
        free = {"training": training, "task": task, "judge": judge, "checkpoint": CheckpointConfig(), "name": ""}
        return flat(r.model_copy(update=free).model_dump())

    old, new = comparable(before), comparable(recipe)
    changed = [key for key in {**old, **new} if old.get(key) != new.get(key)]
    return [
        f"{sign}{key}: {values[key]}" for key in changed for sign, values in (("-", old), ("+", new)) if key in values
    ]


def flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested sections as dotted keys.

    >>> flat({"a": {"b": 1, "c": []}, "d": None})
    {'a.b': 1, 'a.c': [], 'd': None}
    """
    found: dict[str, Any] = {}
    for key, value in values.items():
        found |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) and value else {f"{prefix}{key}": value}
    return found


def trainer_of(prepared: Prepared, writer: RunWriter, reporter: Reporter) -> Trainer:
    p = prepared
    return Trainer(p.recipe, p.policy, p.decoder, p.task, p.method, writer, reporter, p.processes)


def labels_of(prepared: Prepared, study: str, arm: str) -> RunLabels:
    recipe = prepared.recipe
    return RunLabels(
        run=prepared.out.name,
        task=prepared.task.name,
        method=recipe.method.name,
        base_model=recipe.policy.model,
        scale=recipe.scale,
        seed=recipe.training.seed,
        study=study,
        arm=arm,
    )


def kept_labels(out: Path, study: str, arm: str) -> tuple[str, str]:
    """Study and arm of the run in `out`, which goes on under them when the caller names none."""
    if study or not (out / MANIFEST).is_file():
        return study, arm
    before = read_manifest(out)
    return str(before.get("study", "")), str(before.get("arm", ""))


def manifest_of(prepared: Prepared, study: str = "", arm: str = "") -> dict[str, Any]:
    recipe = prepared.recipe
    return {
        "status": "running",
        **({"study": study, "arm": arm} if study else {}),
        "recipe": recipe.name,
        "task": prepared.task.name,
        "headline": prepared.task.headline,
        "scale": recipe.scale,
        "method": recipe.method.name,
        "seed": recipe.training.seed,
        "software": software(),
        "git": git_state(Path(__file__).parent),
        "hardware": hardware(),
        "processes": prepared.processes.count,
        "strategy": prepared.processes.strategy,
        "policy": prepared.policy.describe(),
        "toolchain": prepared.task.versions(),
        "data": {split: len(prepared.task.prompts(split)) for split in ("train", "held-out")},
        **prepared.task.provenance(),
        "wall_seconds": 0.0,
    }


def finish_manifest(out: Path, status: str, started: float, trainer: Trainer) -> None:
    """Record how the run ended; wall time adds up over resumed sessions."""
    if not trainer.processes.main:
        return
    data = read_manifest(out)
    data["status"] = status
    data["wall_seconds"] = round(float(data["wall_seconds"]) + time.monotonic() - started, 1)
    data["steps_done"] = trainer.step
    data.update(trainer.task.provenance())  # what a judge was asked, up to now
    write_manifest(out, data)
