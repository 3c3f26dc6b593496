"""What a judge says of a React app, whoever the judge is: a model behind an API or a heuristic.

Scores lie in [0, 1]. A failed call scores 0 and blames nothing (paper), but its outcome says that it is no low score.
"""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from botgrpo_cli.judges.base import Outcome
from botgrpo_cli.judges.blames import LineBlame
from botgrpo_cli.tasks.base import Prompt

if TYPE_CHECKING:
    from botgrpo_cli.tasks.react.render import Rendered
    from botgrpo_cli.tasks.react.workers import CheckResult

# Shares of the code judge's three parts in its score. The paper names the parts and not how they become one number.
PART_SHARES = {"validity": 0.2, "task": 0.5, "aesthetic": 0.3}


@dataclass(frozen=True)
class CodeVerdict:
    """Of the source alone."""

    score: float
    outcome: Outcome
    parts: dict[str, float] = field(default_factory=dict)  # the keys of PART_SHARES, each in [0, 1]
    not_react: bool = False  # the sentinel: score 0
    lines: tuple[LineBlame, ...] = ()
    dropped: int = 0  # malformed entries of the attribution: no penalty for them
    text: str = ""  # what the judge wrote


@dataclass(frozen=True)
class ScreenVerdict:
    """Of the rendered page."""

    score: float
    outcome: Outcome | None  # of the call that gave the score; None: the page shows nothing, so nobody was asked
    lines: tuple[LineBlame, ...] = ()
    dropped: int = 0
    lines_outcome: Outcome | None = None  # of the second call, where there is one
    text: str = ""


class CodeJudge(Protocol):
    def submit(self, prompt: Prompt, code: str, checked: CheckResult | None = None) -> Future[CodeVerdict]:
        """Scores code, whether it compiles or not. The future raises RunError when the judge is out of reach.

        `checked` is for a judge that can't parse as well as a model reads; None: nobody checked it.
        """
        ...


class ScreenJudge(Protocol):
    def submit(self, prompt: Prompt, code: str, rendered: Rendered) -> Future[ScreenVerdict]:
        """Scores what a page shows; a page that shows nothing scores 0 without a call."""
        ...


def code_score(parts: dict[str, float], not_react: bool) -> float:
    """One number from the three parts; 0 for what is no React component.

    >>> code_score({"validity": 1.0, "task": 0.5, "aesthetic": 0.0}, not_react=False)
    0.45
    """
    return 0.0 if not_react else round(sum(share * parts[name] for name, share in PART_SHARES.items()), 6)


def shows_nothing(rendered: Rendered) -> ScreenVerdict | None:
    """The verdict on a page without anything to see, None for one that has to be looked at (our choice: a model that
    is asked about an empty picture can only do worse)."""
    if rendered.outcome == "drawn" and rendered.screenshot is not None:
        return None
    return ScreenVerdict(0.0, None, text=rendered.why)
