"""Checkpoints: written beside and renamed, so that a kill at any moment leaves only complete ones."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch.distributed.tensor import DTensor

from botgrpo_cli.errors import InputError, RunError
from botgrpo_cli.policy.load import Policy
from botgrpo_cli.policy.sharding import sharded_like, whole, whole_state
from botgrpo_cli.training.processes import ALONE, Processes

NAME = re.compile(r"step-(\d+)")


@dataclass(frozen=True)
class Checkpoint:
    step: int
    folder: Path


def list_checkpoints(run: Path) -> list[Checkpoint]:
    """Complete checkpoints of a run, oldest first."""
    found = [(NAME.fullmatch(p.name), p) for p in (run / "checkpoints").glob("step-*")]
    complete = [Checkpoint(int(m[1]), p) for m, p in found if m and (p / "trainer.json").is_file()]
    return sorted(complete, key=lambda c: c.step)


def save_checkpoint(
    run: Path,
    policy: Policy,
    optimizer: torch.optim.Optimizer,
    *,
    step: int,
    keep_last: int,
    processes: Processes = ALONE,
) -> Checkpoint:
    """`checkpoints/step-N/`: the model or adapter as `from_pretrained` reads it, tokenizer, optimizer, step.

    Of several processes the main one writes; sharded weights are gathered, so that any number can go on from it.

    Raises:
        RunError: the disk is full or not writable; older checkpoints are still there.
    """
    weights: dict[str, Any] = {}
    if policy.sharded:
        weights["state_dict"] = whole_state(policy.model, keep=processes.main)
    moments = _whole_optimizer(optimizer, keep=processes.main)
    folder = run / "checkpoints" / f"step-{step}"
    with processes.agreed():
        if processes.main:
            _write(folder, policy, weights, moments, step=step)
            for old in list_checkpoints(run)[:-keep_last]:
                shutil.rmtree(old.folder, ignore_errors=True)
    return Checkpoint(step, folder)


def _write(folder: Path, policy: Policy, weights: dict[str, Any], moments: dict[str, Any], *, step: int) -> None:
    beside = folder.with_name(f".writing-{step}")
    if policy.has_adapters:
        weights["save_embedding_layers"] = False  # peft would ask the hub whether the vocabulary was resized
    try:
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir(parents=True)
        policy.model.save_pretrained(beside, **weights)
        policy.tokenizer.save_pretrained(beside)
        torch.save(moments, beside / "optimizer.pt")
        (beside / "trainer.json").write_text(json.dumps({"step": step}) + "\n")
        shutil.rmtree(folder, ignore_errors=True)
        beside.rename(folder)
    except (OSError, RuntimeError) as error:  # torch.save raises RuntimeError when a write falls short
        shutil.rmtree(beside, ignore_errors=True)
        raise RunError(f"The checkpoint of step {step} could not be written to {folder}: {error}.") from error


def _whole_optimizer(optimizer: torch.optim.Optimizer, *, keep: bool) -> dict[str, Any]:
    """The optimizer's state with sharded moments gathered, on the CPU; empty where it is not to be kept."""
    found = optimizer.state_dict()
    state: dict[int, dict[str, Any]] = {}  # a new one: the optimizer goes on with its own
    for index, moments in found["state"].items():
        state[index] = {}
        for name, value in moments.items():
            gathered = whole(value).cpu() if isinstance(value, DTensor) else value
            state[index][name] = gathered if keep else None
    return {**found, "state": state} if keep else {}


def load_checkpoint(checkpoint: Checkpoint, policy: Policy, optimizer: torch.optim.Optimizer | None = None) -> None:
    """Put the weights (and the optimizer's state) of a checkpoint into a freshly loaded starting policy.

    Raises:
        InputError: the checkpoint is of another model.
    """
    files = [*checkpoint.folder.glob("model*.safetensors"), *checkpoint.folder.glob("adapter_model.safetensors")]
    state = {name: tensor for file in files for name, tensor in load_file(file).items()}
    parameters = policy.trainable()
    if policy.has_adapters:  # peft leaves the adapter's name out of its files
        state = {re.sub(r"(lora_[AB])\.", r"\1.default.", name): tensor for name, tensor in state.items()}
    head = policy.causal_lm.get_output_embeddings()
    missing = [n for n in parameters if n not in state and parameters[n] is not head.weight]
    if missing or any(state[n].shape != p.shape for n, p in parameters.items() if n in state):
        raise InputError(f"The checkpoint {checkpoint.folder} is of another model than {policy.source}.")
    with torch.no_grad():
        for name, parameter in parameters.items():
            if name in state:
                parameter.copy_(sharded_like(state[name], parameter))
    if optimizer is not None:
        where = "cpu" if policy.sharded else policy.device
        saved = torch.load(checkpoint.folder / "optimizer.pt", map_location=where, weights_only=True)
        in_order = list(parameters.values())
        for index, moments in saved["state"].items():
            for name, value in moments.items():
                if value.shape == in_order[index].shape:
                    moments[name] = sharded_like(value, in_order[index])
        optimizer.load_state_dict(saved)
