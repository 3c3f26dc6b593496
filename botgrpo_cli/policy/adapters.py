"""LoRA adapters: new ones, or saved ones that training goes on from."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel

from botgrpo_cli.errors import InputError
from botgrpo_cli.recipe.schema import LoraConfig

CONFIG_FILE = "adapter_config.json"


def add_adapters(model: PreTrainedModel, config: LoraConfig) -> torch.nn.Module:
    """`model` with the adapters that `policy.lora` describes, ready to be trained.

    Raises:
        InputError: `policy.lora.adapter` names no saved adapter, one of another shape, or one of another model.
    """
    if config.adapter is not None:
        return saved_adapters(model, config, find_adapter(config.adapter))
    from peft import LoraConfig as PeftLora
    from peft import get_peft_model

    # Dropout 0: with dropout the first ratio would not be 1.
    lora = PeftLora(
        r=config.rank,
        lora_alpha=config.alpha,
        lora_dropout=0.0,
        target_modules=config.targets,
        task_type="CAUSAL_LM",
    )
    with warnings.catch_warnings():  # peft still reads an attribute that transformers has renamed
        warnings.simplefilter("ignore", FutureWarning)
        return get_peft_model(model, lora).eval()


def find_adapter(name: str) -> Path:
    """The folder of a saved adapter: what `save_pretrained` of peft wrote, or a checkpoint of a LoRA run.

    Raises:
        InputError: it is not there, or holds no adapter; says what to write instead where that is known.
    """
    folder = Path(name).expanduser()
    if (folder / CONFIG_FILE).is_file():
        return folder
    found = f"policy.lora.adapter is '{name}'"
    if not folder.is_dir():
        raise InputError(f"{found}: there is no such folder; expected one that holds {CONFIG_FILE}.")
    below = sorted(folder.rglob(CONFIG_FILE), key=lambda path: path.stat().st_mtime)
    if below:
        raise InputError(f"{found}, which holds no adapter itself. The newest one in it: {below[-1].parent}")
    if (folder / "config.json").is_file():
        raise InputError(f"{found}, which holds a whole model and no adapter; name it in policy.model instead.")
    raise InputError(f"{found}, which holds no {CONFIG_FILE}; expected a saved adapter or a checkpoint of a LoRA run.")


def saved_adapters(model: PreTrainedModel, config: LoraConfig, folder: Path) -> torch.nn.Module:
    """`model` with the adapter of `folder` on it, if its shape is the one that the recipe states."""
    from peft import PeftModel

    saved = json.loads((folder / CONFIG_FILE).read_text(encoding="utf-8"))
    check_shape(config, saved, folder)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            adapted = PeftModel.from_pretrained(model, folder, is_trainable=True, torch_device=str(model.device))
    except (RuntimeError, ValueError, OSError) as error:  # other shapes, other module names, a broken file
        reason = next(line.strip() for line in f"{error}\n{type(error).__name__}".splitlines() if line.strip())
        raise InputError(
            f"The adapter in {folder} does not fit the model of policy.model, {getattr(model, 'name_or_path', '')}: "
            f"{reason}"
        ) from error
    return adapted.eval()


def check_shape(config: LoraConfig, saved: dict[str, Any], folder: Path) -> None:
    """The recipe states the rank, the scale and the modules that the adapter was saved with.

    Raises:
        InputError: names both sides and the values to set.
    """
    if saved.get("peft_type") != "LORA":
        raise InputError(f"The adapter in {folder} is of type {saved.get('peft_type')}; expected LORA.")
    odd = [key for key in ("use_dora", "use_rslora", "rank_pattern", "alpha_pattern") if saved.get(key)]
    if odd:
        raise InputError(
            f"The adapter in {folder} was saved with {' and '.join(odd)}, which policy.lora can't state; expected "
            "plain LoRA with one rank and one alpha."
        )
    rank, alpha = saved.get("r"), saved.get("lora_alpha")
    if (config.rank, config.alpha) != (rank, alpha):
        raise InputError(
            f"policy.lora states rank {config.rank} and alpha {config.alpha:g}, but the adapter in {folder} was saved "
            f"with rank {rank} and alpha {alpha:g}. To go on from it set policy.lora.rank={rank} and "
            f"policy.lora.alpha={alpha:g}; other values need a new adapter (policy.lora.adapter: null)."
        )
    stated, kept = _last_names(config.targets), _last_names(saved.get("target_modules"))
    if stated and kept and stated != kept:
        raise InputError(
            f"policy.lora.targets is {sorted(stated)}, but the adapter in {folder} was saved for {sorted(kept)}. To go "
            "on from it set policy.lora.targets to these names."
        )


def _last_names(targets: Any) -> set[str]:
    """Names of modules without the path to them; empty for `all-linear`, which peft writes out when it saves."""
    return {name.rpartition(".")[2] for name in targets} if isinstance(targets, list) else set()
