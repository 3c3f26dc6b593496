"""Problems of a recipe: each knows its place and its key, and all of them are raised at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from botgrpo_cli.errors import InputError

if TYPE_CHECKING:
    from botgrpo_cli.recipe.schema import Recipe


@dataclass(frozen=True)
class Mark:
    """Where something was written: a file and a line, or a command-line option (which has no line)."""

    file: str
    line: int | None = None

    def __str__(self) -> str:
        return self.file if self.line is None else f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong. `key` is dotted, or empty when the file as a whole is meant."""

    mark: Mark
    key: str
    text: str

    def __str__(self) -> str:
        return f"{self.mark}: {self.key}: {self.text}" if self.key else f"{self.mark}: {self.text}"


class RecipeError(InputError):
    """The recipe can't be used. `problems` holds everything that was found, the text one line for each.

    `kind` is what the file was to be: a recipe, or a study of several. `read` is the recipe without the keys that have
    problems, for whoever looks for more; None where there is none.
    """

    def __init__(self, problems: Iterable[Problem], *, kind: str = "recipe", read: Recipe | None = None) -> None:
        self.read = read
        found = list(problems)
        files = list(dict.fromkeys(problem.mark.file for problem in found))
        # File by file in the order met, each from its top; the sort is stable, so options keep their order.
        found.sort(key=lambda problem: (files.index(problem.mark.file), problem.mark.line or 0))
        self.problems: list[Problem] = found
        count = len(self.problems)
        head = f"The {kind} has a problem" if count == 1 else f"The {kind} has {count} problems"
        super().__init__("\n".join([f"{head}; nothing was started.", *map(str, self.problems)]))
