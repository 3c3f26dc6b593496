"""The methods by name. A new one is an advantage function in ADVANTAGES and an entry in METHODS, nothing else."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from torch import Tensor

from botgrpo_cli.errors import InputError, nearest
from botgrpo_cli.methods.advantages import bag_of_tokens, group_centred, group_relative
from botgrpo_cli.methods.objectives import Aggregation, Ratio
from botgrpo_cli.methods.steps import process_supervision, softmin_credit

if TYPE_CHECKING:
    from botgrpo_cli.recipe.schema import MethodConfig

# name -> function(token_rewards [B, T], mask [B, T], group [B], *, eps, **options) -> advantages [B, T].
# One that takes `steps` [B, T] (the step of each token) or `outcome` [B] (the global reward alone) is given them.
ADVANTAGES: dict[str, Callable[..., Tensor]] = {
    "bot": bag_of_tokens,
    "group": group_relative,
    "group-centred": group_centred,
    "process": process_supervision,
    "softmin": softmin_credit,
}

# What the options mean where an advantage function has no say in them: each rollout counts once, and a token's
# reward stays its own. A recipe may state these values for any method.
_NEUTRAL = {"weights": "inverse-length", "credit": "immediate", "softmin_temperature": None}

# Parts of an entry that a recipe may override with a key of the same name.
PARTS = ("advantage", "ratio", "clip_low", "clip_high", "aggregation", "minibatches", "refills", "overlong")


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
    formula: str  # what is its own, in one line
    options: dict[str, Any] = field(default_factory=dict)  # of the advantage function
    minibatches: int = 1  # optimizer steps that the rollouts of one pass are cut into
    refills: int = 0  # times that a step samples other prompts in place of groups without spread; 0 keeps them
    overlong: float = 0.0  # last share of the token limit over which a punishment grows from 0 to -1; 0: none

    def compute(
        self,
        token_rewards: Tensor,
        mask: Tensor,
        group: Tensor,
        *,
        steps: Tensor | None = None,
        outcome: Tensor | None = None,
    ) -> Tensor:
        """Advantages of a batch.

        Shapes: token_rewards, mask, steps [B, T], group, outcome [B], result [B, T]. ValueError when the method's
        advantage needs `steps` or `outcome` and they are not given.
        """
        given = {"steps": steps, "outcome": outcome}
        wanted = {key: given[key] for key in self.needs}
        missing = [key for key, value in wanted.items() if value is None]
        if missing:
            raise ValueError(f"The advantage '{self.advantage}' of method '{self.name}' needs {' and '.join(missing)}.")
        return ADVANTAGES[self.advantage](token_rewards, mask, group, **wanted, **self.options)

    @property
    def needs(self) -> tuple[str, ...]:
        """What the advantage takes beside the token rewards: some of "steps", "outcome"."""
        accepted = inspect.signature(ADVANTAGES[self.advantage]).parameters
        return tuple(key for key in ("steps", "outcome") if key in accepted)


def _entries(*methods: Method) -> dict[str, Method]:
    return {method.name: method for method in methods}


METHODS: dict[str, Method] = _entries(
    Method(
        name="bot-grpo",
        advantage="bot",
        ratio="token",
        clip_low=0.2,
        clip_high=0.2,
        aggregation="sequence-mean",
        paper="BoT-GRPO, arXiv 2610.09804",
        formula="A_kt = (r_kt - mu) / (sigma + eps), mu and sigma over the group's tokens weighted by 1/L_k",
        options={"weights": "inverse-length", "credit": "immediate"},
    ),
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
        name="gspo",
        advantage="group",
        ratio="sequence",
        clip_low=3e-4,
        clip_high=4e-4,
        aggregation="sequence-mean",
        paper="GSPO, arXiv 2507.18071",
        formula="grpo with one ratio a rollout, s_k = exp(mean_t log-ratio_kt), and a narrow clip",
        minibatches=4,  # on-policy the ratio is 1 and GSPO is GRPO; its paper cuts each batch in four
    ),
    Method(
        name="dapo",
        advantage="group",
        ratio="token",
        clip_low=0.2,
        clip_high=0.28,
        aggregation="token-mean",
        paper="DAPO, arXiv 2503.14476",
        formula="grpo with a higher upper clip, a mean over tokens, refilled groups and an overlong punishment",
        refills=10,
        overlong=0.2,
    ),
    Method(
        name="pure",
        advantage="softmin",
        ratio="token",
        clip_low=0.2,
        clip_high=0.2,
        aggregation="sequence-mean",
        paper="PURE, arXiv 2504.15275",
        formula="r*_j = softmax(-p/T)_j p_j at the end of step j, minus leave-one-out means; summed to go, whitened",
        options={"softmin_temperature": 0.1},
    ),
    Method(
        name="dr-grpo",
        advantage="group-centred",
        ratio="token",
        clip_low=0.2,
        clip_high=0.2,
        aggregation="constant",
        paper="Dr. GRPO, arXiv 2503.20783",
        formula="A_k = S_k - mean S, not divided; losses divided by the token limit instead of the length",
    ),
    Method(
        name="process-grpo",
        advantage="process",
        ratio="token",
        clip_low=0.2,
        clip_high=0.2,
        aggregation="sequence-mean",
        paper="DeepSeekMath, arXiv 2402.03300, 4.1.3",
        formula="A_kt = sum over steps j that end at or after t of (r_kj - mean) / (std + eps) over the group's steps",
    ),
)


def resolve(config: MethodConfig) -> Method:
    """The registry entry that a recipe names, with the parts that the recipe overrides.

    Raises InputError for an unknown method or advantage, and for an option that the advantage has no use for.

    >>> from botgrpo_cli.recipe.schema import MethodConfig
    >>> method = resolve(MethodConfig(name="bot-grpo", ratio="sequence", weights="uniform"))
    >>> method.ratio, method.clip_high, method.options
    ('sequence', 0.2, {'weights': 'uniform', 'credit': 'immediate'})
    """
    base = METHODS[_known("method.name", "method", config.name, METHODS)]
    parts = {key: value for key in PARTS if (value := getattr(config, key)) is not None}
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
