"""Lines that a judge names, whoever the judge is, and the whole numbers that models give.

Impacts lie in [0, 1]. A malformed entry gives no penalty and does not spoil the others (paper).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

MAX_LINES = 3  # lines that a judge may blame (paper)
TOP = 10  # judges give whole numbers from 0 to 10; impacts are divided by 10 in the paper, and scores are here


@dataclass(frozen=True)
class LineBlame:
    """A line that makes the app worse."""

    line: int  # 0-based line of the code
    impact: float  # in [0, 1]
    why: str


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
