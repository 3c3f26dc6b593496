"""What a task is: prompts in, scored rollouts out. The trainer knows nothing else about a task."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

Split = Literal["train", "held-out"]


@dataclass(frozen=True)
class Prompt:
    """One task item. `id` is stable across runs and unique over both splits."""

    id: str
    text: str  # the user message, complete
    level: str  # graded difficulty: easy | medium | hard
    asks: tuple[str, ...] = ()  # content that can be looked for in the answer, task-defined


@dataclass(frozen=True)
class Completion:
    """One rollout as the sampler left it. The ids are the truth; text is only ever derived from `pieces`."""

    prompt: Prompt
    pieces: tuple[bytes, ...]  # bytes of every generated id in order, b"" for special tokens such as EOS
    finished: bool  # stopped on an end token; False means truncated

    @property
    def data(self) -> bytes:
        return b"".join(self.pieces)

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", errors="replace")


@dataclass(frozen=True)
class Attachment:
    """A file of a rollout, as a value of `Scored.detail`: the run's writer keeps it in a folder beside samples.jsonl,
    and the row names it. Those of rollouts that are not kept are dropped."""

    data: bytes
    folder: str
    suffix: str  # with its point


@dataclass
class Scored:
    """What a task says of one rollout.

    `reward` is the weighted sum of `terms`; NaN when the rollout could not be scored (it then leaves its
    group's statistics). `local[t]` is the token-level signal of token t, bounded in [-1, 0].
    """

    reward: float
    local: list[float]  # [T], T = len(completion.pieces)
    terms: dict[str, float]  # each in [0, 1], before its weight
    metrics: dict[str, float]  # facts to average, for example {"compile_rate": 1.0}
    detail: dict[str, Any] = field(default_factory=dict)  # for samples.jsonl: code, diagnostics, line penalties
    steps: list[int] | None = None  # [T] step of each token, from left to right (a line, a step); None: one step


class Task(Protocol):
    """Scoring is asynchronous so that it overlaps with sampling: `submit` returns at once."""

    name: str
    headline: str  # the metric that people watch, for example "compile_rate"

    def prompts(self, split: Split) -> Sequence[Prompt]: ...

    def submit(self, completion: Completion) -> Future[Scored]: ...

    def versions(self) -> dict[str, str]:
        """Tool versions for the manifest."""
        ...

    def counters(self) -> dict[str, float | None]:
        """What scoring used since the last call, to log with a step: calls of a judge, their outcomes, their time."""
        ...

    def provenance(self) -> dict[str, Any]:
        """For the manifest: `heuristic` and `simulated`, lists of what is no real measurement, and `judge`, if any."""
        ...

    def close(self) -> None: ...
