"""How a task's answers are compared. Each task that can offers one of these, see `tasks.base.Task.comparison`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from botgrpo_cli.judges.pairwise import PairJudge
from botgrpo_cli.recipe.schema import JudgeConfig
from botgrpo_cli.tasks.base import Prompt, Scored, Task

Say = Callable[[str], None]


@dataclass(frozen=True)
class Entry:
    """What a side has for one prompt."""

    source: str | None  # the answer as written, None without one
    language: str
    problem: str  # why it can't be shown, in a sentence; "" when it can

    @property
    def code(self) -> str | None:
        """The answer when it can be shown."""
        return None if self.problem else self.source


class Renderer(Protocol):
    """Draws answers, for a judge that looks at them and for people."""

    def submit(self, code: str, language: str) -> Future[Any]:
        """The page, see `judges.pairwise.Drawn`."""
        ...

    def versions(self) -> dict[str, str]: ...

    def close(self) -> None: ...


class Comparison(ABC):
    """How two answers to one prompt are compared, and what an answer is."""

    shows: tuple[str, ...]
    """What --show takes; the first is what is compared without it."""
    suffixes: tuple[str, ...]
    """Of the files in a folder of answers, each named by the id of its prompt."""
    answers: str = "answers"
    """What a person calls them, in messages."""

    @abstractmethod
    def prompts(self) -> list[Prompt]:
        """Held-out prompts as a judge reads them, in the order in which evaluations take them."""

    def every_prompt(self) -> list[Prompt]:
        """Held-out prompts of every set that the files of a folder may be named after."""
        return self.prompts()

    @abstractmethod
    def checker(self) -> Task:
        """The task that says of an answer whether it can be shown; nobody is asked for its quality."""

    @abstractmethod
    def entry(self, scored: Scored) -> Entry:
        """What there is to show of an answer."""

    def read(self, file: Path, data: bytes) -> bytes:
        """The answer that a file of a folder holds."""
        return data

    @abstractmethod
    def judge(self, config: JudgeConfig, shown: str, say: Say) -> PairJudge:
        """Who compares. Raises InputError when the judge can't be reached, or can't judge such answers."""

    def renderer(self, needed: bool, say: Say) -> Renderer | None:
        """Who draws; None where answers are read. What is not `needed` may be left out where it is not to be had."""
        return None
