"""What a judge says of a React app, whoever the judge is: a model behind an API or a heuristic.

Scores and impacts lie in [0, 1]. A failed call scores 0 and blames nothing (paper), but its outcome says that it is no
low score.
"""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from botgrpo_cli.judges.base import Outcome
from botgrpo_cli.tasks.base import Prompt

if TYPE_CHECKING:
    from botgrpo_cli.tasks.react.render import Rendered
    from botgrpo_cli.tasks.react.workers import CheckResult

MAX_LINES = 3  # lines that a judge may blame (paper)
TOP = 10  # judges give whole numbers from 0 to 10; impacts are divided by 10 in the paper, and scores are here

# Shares of the code judge's three parts in its score. The paper names the parts and not how they become one number.
PART_SHARES = {"validity": 0.2, "task": 0.5, "aesthetic": 0.3}


@dataclass(frozen=True)
class LineBlame:
    """A line that makes the app worse."""

    line: int  # 0-based line of the code
    impact: float  # in [0, 1]
    why: str


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


def line_blames(entries: object, lines: int) -> tuple[tuple[LineBlame, ...], int]:
    """The well-formed entries of an attribution, at most three, and how many were dropped.

    `entries` should be a list of `{"line": 1-based, "impact": 0 to 10, "why"}`; `lines` is the number of code lines.
    A malformed entry gives no penalty and does not spoil the others (paper).

    >>> line_blames([{"line": 2, "impact": 5, "why": "dead button"}, {"line": 99, "impact": 5, "why": ""}], lines=9)
    ((LineBlame(line=1, impact=0.5, why='dead button'),), 1)
    """
    if not isinstance(entries, list):
        return (), int(entries is not None)
    found, dropped = [], max(0, len(entries) - MAX_LINES)
    for entry in entries[:MAX_LINES]:
        line, impact = (
            (whole(entry.get(key)) for key in ("line", "impact")) if isinstance(entry, dict) else (None, None)
        )
        if line is None or impact is None or not 1 <= line <= lines or not 0 <= impact <= TOP:
            dropped += 1
        elif impact > 0:
            found.append(LineBlame(line - 1, impact / TOP, str(entry.get("why") or "")[:300]))
    return tuple(found), dropped


def whole(value: Any) -> int | None:
    """A JSON number that is whole, else None; true and false are no numbers."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value or value in (1e999, -1e999):
        return None
    return int(value) if value == int(value) else None


def require_whole(value: dict, *names: str) -> None:
    """For `Ask.check`. Raises ValueError that names the first key without a whole number from 0 to 10."""
    for name in names:
        number = whole(value.get(name))
        if number is None or not 0 <= number <= TOP:
            raise ValueError(f"'{name}' is {value.get(name)!r:.60}; expected a whole number from 0 to {TOP}.")
