"""The methods by name. A new one is an advantage function in ADVANTAGES and an entry in METHODS, nothing else."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from torch import Tensor

from botgrpo_cli.errors import InputError, nearest
from botgrpo_cli.methods.advantages import bag_of_tokens, group_relative
from botgrpo_cli.methods.objectives import Aggregation, Ratio

if TYPE_CHECKING:
    from botgrpo_cli.recipe.schema import MethodConfig

# name -> function(token_rewards [B, T], mask [B, T], group [B], *, eps, **options) -> advantages [B, T]
ADVANTAGES: dict[str, Callable[..., Tensor]] = {"bot": bag_of_tokens, "group": group_relative}

# What the options mean where an advantage function has no say in them: each rollout counts once, and a token's
# reward stays its own. A recipe may state these values for any method.
_NEUTRAL = {"weights": "inverse-length", "credit": "immediate"}


@dataclass(frozen=True)
class Method:
    """One training method, complete: how advantages are made and what is optimised with them."""

    name: str
    advantage: str  # a key of ADVANTAGES
    ratio: Ratio
    clip_low: float
    clip_high: float
    aggregation: Aggregation
    paper: str  # where it comes from
    formula: str  # the advantage, in one line
    options: dict[str, str] = field(default_factory=dict)  # of the advantage function

    def compute(self, token_rewards: Tensor, mask: Tensor, group: Tensor) -> Tensor:
        """Advantages of a batch. Shapes: token_rewards [B, T], mask [B, T], group [B], result [B, T]."""
        return ADVANTAGES[self.advantage](token_rewards, mask, group, **self.options)


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method(
            name="grpo",
            advantage="group",
            ratio="token",
            clip_low=0.2,
            clip_high=0.2,
            aggregation="sequence-mean",
            paper="DeepSeekMath, arXiv 2402.03300",
            formula="A_k = (S_k - mean S) / (std S + eps), S_k = mean_t r_kt, for every token of rollout k",
        ),
        Method(
            name="bot-grpo",
            advantage="bot",
            ratio="token",
            clip_low=0.2,
            clip_high=0.2,
            aggregation="sequence-mean",
            paper="BoT-GRPO, arXiv 2610.09804",
            formula="A_kt = (r_kt - mu) / (sigma + eps), mu and sigma over the group's tokens weighted by 1/L_k",
            options=dict(_NEUTRAL),
        ),
    )
}


def resolve(config: MethodConfig) -> Method:
    """The registry entry that a recipe names, with the parts that the recipe overrides.

    Raises InputError for an unknown method or advantage, and for an option that the advantage has no use for.

    >>> from botgrpo_cli.recipe.schema import MethodConfig
    >>> method = resolve(MethodConfig(name="bot-grpo", ratio="sequence", weights="uniform"))
    >>> method.ratio, method.clip_high, method.options
    ('sequence', 0.2, {'weights': 'uniform', 'credit': 'immediate'})
    """
    base = METHODS[_known("method.name", "method", config.name, METHODS)]
    parts = {
        key: value
        for key in ("advantage", "ratio", "clip_low", "clip_high", "aggregation")
        if (value := getattr(config, key)) is not None
    }
    advantage = _known("method.advantage", "advantage", parts.get("advantage", base.advantage), ADVANTAGES)
    accepted = inspect.signature(ADVANTAGES[advantage]).parameters
    options = {key: value for key, value in base.options.items() if key in accepted}
    for key, neutral in _NEUTRAL.items():
        value = getattr(config, key)
        if value is None:
            continue
        if key in accepted:
            options[key] = value
        elif value != neutral:
            raise InputError(
                f"method.{key}: '{value}' changes nothing for the advantage '{advantage}' of method '{base.name}'. "
                f"Leave the key out, or choose an advantage that takes it: {', '.join(_taking(key))}."
            )
    return replace(base, **parts, options=options)


def _known(key: str, kind: str, word: str, valid: Iterable[str]) -> str:
    valid = list(valid)
    if word not in valid:
        raise InputError(f"{key}: there is no {kind} '{word}'. Known: {', '.join(valid)}.{nearest(word, valid)}")
    return word


def _taking(option: str) -> list[str]:
    return [name for name, function in ADVANTAGES.items() if option in inspect.signature(function).parameters]
