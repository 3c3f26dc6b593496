"""A recipe as TRL's GRPOConfig: the arithmetic of its batches, and the fields that `training.trl` passes through."""

from __future__ import annotations

import dataclasses
import types
import typing
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trl import GRPOConfig

from botgrpo_cli.errors import InputError, nearest
from botgrpo_cli.integrations.trl_settings import check_settings, grpo_settings
from botgrpo_cli.methods.registry import Method
from botgrpo_cli.policy.load import Policy
from botgrpo_cli.recipe.schema import Recipe

# Fields of GRPOConfig that a recipe has keys of its own for, or that the engine needs as they are.
DECIDED = {
    "activation_checkpointing": "policy.gradient_checkpointing",
    "beta": "training.kl",
    "bf16": "policy.dtype",
    "disable_tqdm": "the progress bar of botgrpo",
    "do_eval": "evaluation.every",
    "do_train": "botgrpo train",
    "epsilon": "method.clip_low",
    "epsilon_high": "method.clip_high",
    "eval_steps": "evaluation.every",
    "eval_strategy": "evaluation.every",
    "fp16": "policy.dtype",
    "generation_batch_size": "sampling.prompts and sampling.group_size",
    "gradient_accumulation_steps": "training.micro_batch",
    "gradient_checkpointing": "policy.gradient_checkpointing",
    "ignore_data_skip": "botgrpo train --resume",
    "importance_sampling_level": "method.ratio",
    "learning_rate": "training.learning_rate",
    "logging_steps": "metrics.csv, which has a row a step",
    "logging_strategy": "metrics.csv, which has a row a step",
    "loss_type": "method.aggregation",
    "lr_scheduler_type": "training.warmup_steps, constant after it",
    "max_completion_length": "sampling.max_new_tokens",
    "max_grad_norm": "training.max_grad_norm",
    "max_steps": "training.steps",
    "model_init_kwargs": "the keys of policy",
    "multi_objective_aggregation": "the keys of reward",
    "num_generations": "sampling.group_size",
    "num_iterations": "training.inner_epochs",
    "num_train_epochs": "training.steps",
    "output_dir": "--out",
    "per_device_train_batch_size": "training.micro_batch",
    "remove_unused_columns": "botgrpo train",
    "resume_from_checkpoint": "botgrpo train --resume",
    "reward_weights": "the keys of reward",
    "save_steps": "checkpoint.every",
    "save_strategy": "checkpoint.every",
    "save_total_limit": "checkpoint.keep_last",
    "scale_rewards": "method.advantage",
    "seed": "training.seed",
    "shuffle_dataset": "training.seed",
    "steps_per_generation": "method.minibatches",
    "temperature": "sampling.temperature",
    "use_cpu": "policy.device",
    "warmup_ratio": "training.warmup_steps",
    "warmup_steps": "training.warmup_steps",
    "weight_decay": "training.weight_decay",
}


@dataclass(frozen=True)
class Batches:
    """How the rollouts of a step are cut. Every process generates `rollouts / processes` of them."""

    rollouts: int  # a step, over all processes
    processes: int
    micro: int  # rollouts a forward-backward pass of one process
    accumulation: int  # passes an optimizer step
    updates: int  # optimizer steps a step of the run


def batches_of(recipe: Recipe, method: Method, processes: int) -> Batches:
    """TRL's minibatches are equal parts, so the rollouts must divide; micro-batches are the largest that divide.

    Raises:
        InputError: names the numbers.
    """
    prompts, size = recipe.sampling.prompts, recipe.sampling.group_size
    rollouts, parts = prompts * size, method.minibatches * processes
    if rollouts % parts:
        raise InputError(
            f"sampling.prompts x sampling.group_size is {rollouts} rollouts a step, and TRL cuts them into "
            f"{method.minibatches} minibatches (method.minibatches) on {processes} process(es) of equal size, which "
            f"they don't divide into. Choose numbers of which {parts} is a divisor."
        )
    share = rollouts // parts
    micro = max(d for d in range(1, min(share, recipe.training.micro_batch) + 1) if share % d == 0)
    return Batches(rollouts, processes, micro, share // micro, method.minibatches * recipe.training.inner_epochs)


def make_config(recipe: Recipe, method: Method, policy: Policy, out: Path, batches: Batches) -> GRPOConfig:
    """The GRPOConfig of a run. Nothing is written.

    Raises:
        InputError: a field of `training.trl` is unknown, of the wrong type or not its to decide; TRL or the method
            refuses the combination; the device can't be had this way.
    """
    training, sampling = recipe.training, recipe.sampling
    check_fields(training.trl)
    if policy.device.type == "cuda" and policy.device.index not in (None, 0) and batches.processes == 1:
        raise InputError(
            f"policy.device is {policy.device}, but TRL takes the first GPU that it sees. Set policy.device=cuda and "
            f"the environment variable CUDA_VISIBLE_DEVICES={policy.device.index}."
        )
    if training.kl > 0 and not policy.has_adapters and policy.source.endswith(".gguf"):
        raise InputError(
            f"training.kl is {training.kl:g}: TRL loads the reference model from policy.model by itself and can't read "
            "a .gguf file. Use --engine native, training.kl=0 or policy.lora."
        )
    precision = str(policy.compute_dtype).removeprefix("torch.")
    try:
        fields = {
            **grpo_settings(method, gradient_accumulation_steps=batches.accumulation),
            "output_dir": str(out / "checkpoints"),
            "per_device_train_batch_size": batches.micro,
            "num_generations": sampling.group_size,
            "max_completion_length": sampling.max_new_tokens,
            "temperature": sampling.temperature,
            "max_steps": training.steps * batches.updates,
            "num_iterations": training.inner_epochs,
            "learning_rate": training.learning_rate,
            "weight_decay": training.weight_decay,
            "max_grad_norm": training.max_grad_norm,
            "beta": training.kl,
            "seed": training.seed,
            "bf16": precision == "bfloat16",
            "fp16": precision == "float16",
            "use_cpu": policy.device.type == "cpu",
            "gradient_checkpointing": recipe.policy.gradient_checkpointing,
            "gradient_checkpointing_kwargs": {"use_reentrant": False},
            "shuffle_dataset": False,  # the data set holds the prompts in the order of the steps
            "logging_steps": 1,
            "logging_nan_inf_filter": False,
            "save_strategy": "no",  # the engine saves after the rows of a step are written
            "ignore_data_skip": False,
            "disable_tqdm": True,
            "report_to": "none",
            **training.trl,
        }
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # TRL still uses a name that transformers has renamed
            config = GRPOConfig(**fields)
        check_settings(config, method)
    except (ValueError, TypeError, ImportError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"TRL can't train with this recipe: {error}") from error
    if batches.processes == 1 and config.n_gpu > 1:
        config._n_gpu = 1  # one process trains on one GPU; TRL refuses nn.DataParallel, the default of transformers
    return config


def check_fields(given: dict[str, Any]) -> None:
    """Refuse names that GRPOConfig does not have or that are not open, and values of another type.

    Raises:
        InputError: names the key, the nearest valid name or the recipe key that decides.
    """
    known = {field.name for field in dataclasses.fields(GRPOConfig) if field.init}
    hints = typing.get_type_hints(GRPOConfig)
    for name, value in given.items():
        if name not in known:
            raise InputError(f"training.trl.{name}: TRL's GRPOConfig has no such field.{nearest(name, known)}")
        if name in DECIDED:
            raise InputError(f"training.trl.{name}: this is decided by {DECIDED[name]}.")
        kinds = _kinds(hints[name])
        if kinds and not _fits(value, kinds):
            words = " or ".join("null" if kind is type(None) else kind.__name__ for kind in kinds)
            raise InputError(f"training.trl.{name}: found {value!r}; TRL expects {words}.")


def _kinds(hint: Any) -> tuple[type, ...]:
    """The plain types that a field takes; empty when it also takes something else."""
    union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    members = [typing.get_origin(m) or m for m in (typing.get_args(hint) if union else (hint,))]
    plain = (bool, int, float, str, dict, list, type(None))
    return tuple(members) if all(member in plain for member in members) else ()


def _fits(value: Any, kinds: tuple[type, ...]) -> bool:
    if isinstance(value, bool):
        return bool in kinds
    return isinstance(value, kinds) or (isinstance(value, int) and float in kinds)
