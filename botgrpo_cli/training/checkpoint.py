"""Checkpoints: written beside and renamed, so that a kill at any moment leaves only complete ones."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file

from botgrpo_cli.errors import InputError, RunError
from botgrpo_cli.policy.load import Policy

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
    run: Path, policy: Policy, optimizer: torch.optim.Optimizer, *, step: int, keep_last: int
) -> Checkpoint:
    """`checkpoints/step-N/`: the model or adapter as `from_pretrained` reads it, tokenizer, optimizer, step.

    Raises:
        RunError: the disk is full or not writable; older checkpoints are still there.
    """
    folder = run / "checkpoints" / f"step-{step}"
    beside = folder.with_name(f".writing-{step}")
    try:
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir(parents=True)
        # peft would ask the hub whether the vocabulary was resized; adapters never resize it here
        policy.model.save_pretrained(beside, **({"save_embedding_layers": False} if policy.has_adapters else {}))
        policy.tokenizer.save_pretrained(beside)
        torch.save(optimizer.state_dict(), beside / "optimizer.pt")
        (beside / "trainer.json").write_text(json.dumps({"step": step}) + "\n")
        shutil.rmtree(folder, ignore_errors=True)
        beside.rename(folder)
    except (OSError, RuntimeError) as error:  # torch.save raises RuntimeError when a write falls short
        shutil.rmtree(beside, ignore_errors=True)
        raise RunError(f"The checkpoint of step {step} could not be written to {folder}: {error}.") from error
    for old in list_checkpoints(run)[:-keep_last]:
        shutil.rmtree(old.folder, ignore_errors=True)
    return Checkpoint(step, folder)


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
                parameter.copy_(state[name])
    if optimizer is not None:
        saved = torch.load(checkpoint.folder / "optimizer.pt", map_location=policy.device, weights_only=True)
        optimizer.load_state_dict(saved)
