"""The engines that can train a recipe: our own loop, and TRL's."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from botgrpo_cli.console import is_verbose
from botgrpo_cli.errors import InputError, nearest
from botgrpo_cli.training import processes
from botgrpo_cli.training.processes import Processes

if TYPE_CHECKING:
    from botgrpo_cli.recipe.schema import Recipe
    from botgrpo_cli.training.loop import Trainer
    from botgrpo_cli.training.run import Prepared

ENGINES = ("native", "trl")


@dataclass(frozen=True)
class Engine:
    """How a prepared run is started, or gone on with, and what the plan says of it. See `training.run`."""

    name: str
    start: Callable[..., Trainer]  # (reporter) -> run
    resume: Callable[..., tuple[Trainer, int | None]]  # (reporter) -> run, step whose evaluation is on disk
    rows: list[tuple[str, str]]


def known(name: str) -> str:
    """The name of an engine, as given.

    Raises:
        InputError: there is none of that name; TRL is not installed, or in a version that is not supported.
    """
    if name not in ENGINES:
        raise InputError(f"--engine: there is no engine '{name}'; expected native or trl.{nearest(name, ENGINES)}")
    if name == "trl":
        from botgrpo_cli.integrations.trl_settings import require_trl

        require_trl()
    return name


def join(name: str) -> Processes:
    """Connect with the other processes of a launcher. With TRL, DeepSpeed and FSDP are accelerate's business.

    Raises:
        InputError: the launcher is set up for something that the engine does not do.
    """
    if name == "native":
        return processes.join()
    others = ("ACCELERATE_USE_", "FSDP_")  # what our own loop would have to refuse
    processes.refuse_other_launches({k: v for k, v in os.environ.items() if not k.startswith(others)})
    if not processes.launched():
        return processes.ALONE
    os.environ["FSDP_CPU_RAM_EFFICIENT_LOADING"] = "false"  # each process loads the policy, before TRL shards it
    import torch
    import torch.distributed as dist

    if not dist.is_initialized():
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        dist.init_process_group(backend, timeout=processes.PATIENCE)
    count = int(os.environ["WORLD_SIZE"])
    return Processes(
        count=count,
        rank=int(os.environ["RANK"]),
        local_count=int(os.environ.get("LOCAL_WORLD_SIZE", count)),
        local_rank=int(os.environ["LOCAL_RANK"]),
    )


def check_recipe(name: str, recipe: Recipe) -> None:
    """What an engine can say of a recipe before anything is loaded.

    Raises:
        InputError: a field of `training.trl` is unknown, or not its to decide.
    """
    if name != "trl":
        return
    from botgrpo_cli.training.trl_engine.quiet import silence

    if not is_verbose():
        silence()
    from botgrpo_cli.training.trl_engine.config import check_fields

    check_fields(recipe.training.trl)


def refuse_other_engine(name: str, out: Path) -> None:
    """A run goes on with the engine that it was started with: optimizer and checkpoints are that engine's.

    Raises:
        InputError: names the option.
    """
    from botgrpo_cli.records.manifest import MANIFEST, read_manifest

    if not (out / MANIFEST).is_file():
        return
    before = read_manifest(out).get("engine", "native")
    if before != name:
        raise InputError(f"The run in {out} was started with --engine {before}; go on with the same one.")


def make_engine(name: str, prepared: Prepared) -> Engine:
    """The engine of a prepared run; nothing is written yet.

    Raises:
        InputError: the engine can't train this recipe.
    """
    if name == "trl":
        from botgrpo_cli.training.trl_engine.start import TrlEngine

        trl = TrlEngine(prepared)
        return Engine(name, trl.start, trl.resume, trl.rows())
    from botgrpo_cli.training import run

    given = prepared.recipe.training.trl
    rows = [("note", f"training.trl has no effect with --engine native: {', '.join(given)}")] if given else []
    return Engine(name, functools.partial(run.start, prepared), functools.partial(run.resume, prepared), rows)
