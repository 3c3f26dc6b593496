"""What of TRL is supported, and how a method of the registry reads as a `GRPOConfig`. TRL is not imported here."""

from __future__ import annotations

import warnings
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from packaging.version import Version

from botgrpo_cli.errors import InputError, nearest
from botgrpo_cli.methods.registry import METHODS, Method

# The tests of this integration were run with the first and the last minor version in this range.
OLDEST, TOO_NEW = "1.12", "1.17"
SUPPORTED = f"trl>={OLDEST},<{TOO_NEW}"
INSTALL = 'pip install "botgrpo[trl]"'

LOSS_TYPES = {"sequence-mean": "grpo", "token-mean": "dapo", "constant": "dr_grpo"}
# Losses of TRL that are a sum of one term a token, each with its own advantage.
TOKEN_LOSSES = ("grpo", "bnpo", "dr_grpo", "dapo", "cispo", "sapo")
# Advantages that are the same number for every token of a completion.
BY_COMPLETION = ("group", "group-centred")


class TrlMissing(InputError, ImportError):
    """TRL is not there, or is a version that this integration does not know."""


def require_trl() -> str:
    """The version of the installed TRL.

    Raises:
        TrlMissing: an ImportError whose text names the supported range and the command that installs it.
    """
    try:
        found = version("trl")
    except PackageNotFoundError:
        raise TrlMissing(f"TRL is not installed. Supported is {SUPPORTED}; install it with: {INSTALL}") from None
    if not Version(OLDEST) <= Version(found) < Version(TOO_NEW):
        raise TrlMissing(f"TRL {found} is installed, but supported is {SUPPORTED}; install it with: {INSTALL}")
    return found


def find_method(method: str | Method) -> Method:
    """A registry entry by name; a Method is passed through.

    Raises:
        ValueError: names the methods there are.
    """
    if isinstance(method, Method):
        return method
    if method not in METHODS:
        raise ValueError(f"There is no method '{method}'. Known: {', '.join(METHODS)}.{nearest(method, METHODS)}")
    return METHODS[method]


def grpo_settings(method: str | Method = "bot-grpo", *, gradient_accumulation_steps: int = 1) -> dict[str, Any]:
    """`GRPOConfig` arguments with which TRL optimises the objective of a registry entry.

    Beside loss, ratio and clip they hold what TRL would otherwise do on top: no KL (`beta`), no importance weight on
    the KL when `beta` is raised (`use_bias_correction_kl`), sampling from the whole distribution at the trainer's
    temperature, truncated completions kept, dropout off.

    `steps_per_generation` is `method.minibatches` times the accumulation, so that the rollouts of one generation are
    cut into as many optimizer steps as the entry says. With more than one of them TRL divides a "token-mean" loss by
    the mean number of tokens a minibatch, where ours counts the minibatch's own.

    Not in here, since they are no settings of TRL: `method.refills` (TRL keeps groups without spread) and
    `method.overlong` (`trl.rewards.get_soft_overlong_punishment` is DAPO's, as a reward function). With `use_vllm`
    TRL also corrects for the sampler's own log-probabilities; `vllm_importance_sampling_correction=False` turns that
    off.

    Raises:
        ValueError: an unknown method; a ratio of whole completions with advantages that differ by token.

    >>> settings = grpo_settings("dapo")
    >>> settings["loss_type"], settings["epsilon"], settings["epsilon_high"]
    ('dapo', 0.2, 0.28)
    """
    method = find_method(method)
    refuse_averaging(method, method.ratio)
    return {
        "loss_type": LOSS_TYPES[method.aggregation],
        "importance_sampling_level": method.ratio,
        "epsilon": method.clip_low,
        "epsilon_high": method.clip_high,
        "gradient_accumulation_steps": gradient_accumulation_steps,
        "steps_per_generation": method.minibatches * gradient_accumulation_steps,
        "beta": 0.0,
        "use_bias_correction_kl": False,
        "top_p": 1.0,
        "top_k": 0,
        "min_p": None,
        "repetition_penalty": 1.0,
        "mask_truncated_completions": False,
        "disable_dropout": True,
    }


def refuse_averaging(method: Method, level: str) -> None:
    """TRL's sequence-level ratio is one number a completion: its gradient reaches every token with the *mean* of the
    completion's advantages, and what was told of single tokens is lost. Ours keeps them (GSPO's token variant)."""
    if level != "token" and method.advantage not in BY_COMPLETION:
        raise ValueError(
            f"importance_sampling_level='{level}' (method.ratio) averages the advantages of a completion's tokens in "
            f"TRL, so those of method '{method.name}' would be lost. Use 'token'."
        )


def check_settings(args: Any, method: Method) -> None:
    """Refuse settings of a GRPOConfig that contradict advantages by token; warn of one that has no effect.

    Raises:
        ValueError: names the setting, its value and what is possible.
    """
    if args.multi_objective_aggregation != "sum_then_normalize":
        raise ValueError(
            f"multi_objective_aggregation='{args.multi_objective_aggregation}' normalises each reward function by "
            "itself, but token rewards need their weighted sum. Use 'sum_then_normalize'."
        )
    refuse_averaging(method, args.importance_sampling_level)
    if method.advantage not in BY_COMPLETION:
        if args.loss_type not in TOKEN_LOSSES:
            raise ValueError(
                f"loss_type='{args.loss_type}' is defined on one advantage a completion, and those of method "
                f"'{method.name}' differ by token. Possible: {', '.join(TOKEN_LOSSES)}."
            )
        if args.off_policy_mask_threshold is not None:
            raise ValueError(
                f"off_policy_mask_threshold={args.off_policy_mask_threshold} drops whole completions by the sign of "
                f"their one advantage, and those of method '{method.name}' differ by token. Use None."
            )
    fitting = ("group", "none") if method.advantage == "group-centred" else ("group",)
    if args.scale_rewards not in fitting:
        warnings.warn(
            f"scale_rewards='{args.scale_rewards}' has no effect: the advantage '{method.advantage}' of method "
            f"'{method.name}' decides how rewards are scaled.",
            stacklevel=3,
        )
