"""What an own task's functions are, as the parent process and the child that calls them both know them.

Standard library alone: the child imports this, and starts in a tenth of a second.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

Kind = Literal["term", "signal", "metric"]
Unit = Literal["characters", "lines", "steps", "tokens"]
Rows = dict[str, list[dict[str, Any]]]  # split ("train", "held-out") -> rows, one a prompt


@dataclass(frozen=True)
class Function:
    """One function of an own task. `batch`: it takes all completions in one call, else it is called for each."""

    name: str
    kind: Kind
    unit: Unit | None = None  # of a signal
    batch: bool = False
    low: float | None = None  # bounds of its values; None: any finite number
    high: float | None = None
    doc: str = ""  # the first paragraph of its docstring, on one line
    place: str = ""  # "sums.py:12", for messages
    weight: float | None = None  # what its source gives it (a rubric); None: the recipe has to name it


@dataclass(frozen=True)
class Call:
    """One completion, as functions see it."""

    prompt_id: str
    prompt: str | list[dict[str, str]]  # as the data has it: text, or chat messages
    text: str
    columns: dict[str, Any] = field(default_factory=dict)  # the row of the data
    tokens: tuple[str, ...] = ()  # readable text of each token
    token_ids: tuple[int, ...] = ()
    steps: tuple[str, ...] = ()  # texts of the steps, in order
    finished: bool = True


@dataclass(frozen=True)
class Failure:
    """A call that gave nothing usable: a sentence that names file, function, prompt id and value."""

    reason: str


# What a call gives: a number (term, metric), spans (start, end, value) or one number a line, step or token (signal),
# None where the function does not apply to this completion, or why there is nothing.
Span = tuple[int, int, float]
Answer = float | list[Span] | list[float] | None | Failure


class Source(Protocol):
    """Where functions, and sometimes prompts, come from: a file, an environment of verifiers, reasoning-gym."""

    functions: dict[str, tuple[Function, Callable[..., Any]]]
    versions: dict[str, str]  # for the manifest

    def rows(self) -> Rows | None:
        """The source's own prompts, with a column `prompt` (text or chat messages); None: it has none."""
        ...
