"""An own task's part of a recipe: where its prompts come from, and one key a function in `reward:`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, create_model

from botgrpo_cli.errors import InputError
from botgrpo_cli.recipe.section import Count, RewardSection, SpreadConfig, TaskSection
from botgrpo_cli.tasks.own.data import DataSection
from botgrpo_cli.tasks.own.functions import Function

FunctionWeight = Annotated[float, Field(ge=-100.0, le=100.0)]


class TaskConfig(DataSection, TaskSection):
    headline: str | None = None
    """The metric that people watch: a function's name, or another metric; null takes the first weighted term."""
    steps: Literal["blank-lines", "markers", "lines"] = "blank-lines"
    """What a step is, for functions and methods that see steps: parts between blank lines, `Step 1:` and the like, or
    lines."""
    workers: Count = 1
    """Processes that call the functions; a function in batch form has the first one."""
    timeout: Annotated[float, Field(gt=0, le=3600)] = 10.0
    """Seconds that a call of a function may take before its rollout counts as unscored."""
    options: dict[str, Any] = Field({})
    """Arguments of a verifiers environment, or of reasoning-gym: size, seed, and the data set's own parameters."""
    compare: str | None = None
    """What makes an answer the better one, for a model that compares two in `botgrpo winrate`; null: nobody can."""


class OwnReward(RewardSection):
    spread: SpreadConfig = SpreadConfig(kind="none")
    """Softens what signals say of lines over nearby lines, praise and blame apart."""


def reward_section(functions: dict[str, Function]) -> type[RewardSection]:
    """A key for each function that can be weighted. Raises InputError for one whose name is a key already."""
    fields: dict[str, Any] = {}
    for function in functions.values():
        if function.kind == "metric":
            continue
        if function.name in OwnReward.model_fields:
            raise InputError(f"{function.place}: '{function.name}' is a key of `reward:` already; name it otherwise.")
        fields[function.name] = (FunctionWeight | None, Field(function.weight, description=_help(function)))
    return create_model("RewardConfig", __base__=OwnReward, **fields)


def _help(function: Function) -> str:
    what = "a term" if function.kind == "term" else f"a signal on {function.unit}"
    said = function.doc or f"What {function.name} says"
    place = f" ({function.place})" if function.place else ""
    return f"{said.rstrip('.')}. Weight of {what}{place}; 0 only logs it, null does not call it."
