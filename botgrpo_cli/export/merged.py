"""A trained policy as one ordinary model folder, adapters merged, for programs that know nothing of this package."""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from botgrpo_cli.errors import InputError
from botgrpo_cli.export.check import PROBE, check_folder, logits, require_same
from botgrpo_cli.export.folder import new_folder
from botgrpo_cli.policy.load import DTYPES, Policy, locate
from botgrpo_cli.training.evaluate import Subject, find_subject, load_subject


def load_trained(name: str) -> tuple[Subject, Policy]:
    """The policy of a run's last checkpoint, or of the checkpoint that is named, in float32 on the CPU.

    Adapters are merged in float32: added to rounded weights, most of a small update would be lost.
    Raises:
        InputError: `name` is neither a run with a checkpoint nor a checkpoint.
    """
    found = find_subject(name, None, None)
    if found.checkpoint is None:
        raise InputError(f"{name} is no run; expected the folder of a run, or one of its checkpoints/step-N.")
    changes = {"dtype": "float32", "device": "cpu", "gradient_checkpointing": False}
    policy = found.recipe.policy.model_copy(update=changes)
    found = replace(found, recipe=found.recipe.model_copy(update={"policy": policy}))
    return found, load_subject(found)


def stored_dtype(model: str) -> torch.dtype:
    """The number format of the files that `policy.model` names; float32 where they have none of their own (GGUF)."""
    folder, gguf = locate(model)
    if gguf:
        return torch.float32
    return getattr(AutoConfig.from_pretrained(folder), "dtype", None) or torch.float32


def save_merged(policy: Policy, folder: Path, dtype: torch.dtype) -> None:
    """Write model, tokenizer with its chat template, and generation config as `from_pretrained` reads them.

    The policy is used up: its adapters are merged into the weights, and these are cast to `dtype`.
    Raises:
        InputError: `folder` is taken.
        RunError: it could not be written, or does not compute what was trained; nothing is left behind.
    """
    with new_folder(folder) as place:
        write_whole(policy, place, dtype)


def write_whole(policy: Policy, place: Path, dtype: torch.dtype) -> None:
    """`save_merged` into a folder that is there, and the check that the files compute what the policy does: merged as
    with its adapters beside the weights, loaded as in memory in the format of the files.

    Raises:
        RunError: they don't.
    """
    ids, model = policy.encode(PROBE), policy.model
    if policy.has_adapters:
        trained = logits(model, ids)  # [T, V]
        model = model.merge_and_unload(safe_merge=True)
        require_same(logits(model, ids), trained, "The model with its adapters merged")
    for parameter in model.parameters():  # `.to` would round the frequencies of the positions too, which no file holds
        parameter.data = parameter.data.to(dtype)
    model.save_pretrained(place)
    policy.tokenizer.save_pretrained(place)
    load = functools.partial(AutoModelForCausalLM.from_pretrained, place, dtype=dtype)
    check_folder(place, policy, logits(model, ids), load)


def choose_stored(name: str, model: str) -> torch.dtype:
    """`auto` keeps the format of the starting model's files."""
    return stored_dtype(model) if name == "auto" else DTYPES[name]
