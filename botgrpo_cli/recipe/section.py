"""What every section of a recipe is made of."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Share = Annotated[float, Field(ge=0.0, le=1.0)]
Weight = Annotated[float, Field(ge=0.0, le=10.0)]
Count = Annotated[int, Field(ge=1)]


class Placed:
    """Marks a text that may be a path: one that is relative stands relative to the file that it is written in."""


FilePath = Annotated[str, Placed()]


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False, frozen=True)


class TaskSection(Section):
    """The `task:` section that every task has; a task's own class adds its keys."""

    name: str = ""
    """The task: one of the package or of a plugin, a Python file, `verifiers:ENV` or `reasoning-gym:NAME`."""


class RewardSection(Section):
    """The `reward:` section that every task has; a task's own class adds its terms."""


class TermConfig(Section):
    weight: Weight
    """Weight of this global term; the term itself lies in [0, 1]. 0 only logs it."""


class SpreadConfig(Section):
    kind: Literal["exponential", "linear", "none"] = "exponential"
    """How a line's penalty softens over nearby lines."""
    half_life: Annotated[float, Field(gt=0)] = 1.0
    """Lines after which an exponential penalty has halved; a linear one reaches zero at twice this distance."""
