"""A kept rollout as lines of tokens with a value each, and the colour that stands for a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from botgrpo_cli.errors import InputError

Value = Literal["advantages", "local"]
BLUE, ORANGE = (0, 114, 178), (213, 94, 0)  # above and below zero; everyone can tell them apart
STRONGEST = 0.62  # share of the colour in the strongest tint, so that black text stays readable
QUANTILE = 0.95  # of the sizes of a rollout's values: where the scale ends, so that one token does not fade the rest
NEW_LINE, END = "\u21b5", "\u25a0"  # how a line break and a token without text (the end) are shown


@dataclass(frozen=True)
class Token:
    """One token as it is shown on one line; a token with line breaks is on several."""

    text: str
    value: float


@dataclass(frozen=True)
class Line:
    number: int  # 0-based, as in diagnostics
    tokens: tuple[Token, ...]

    @property
    def mean(self) -> float | None:
        """Mean value of its tokens."""
        return float(np.mean([token.value for token in self.tokens])) if self.tokens else None


def lines_of(row: Mapping[str, Any], value: Value = "advantages") -> list[Line]:
    """The tokens of one training row of samples.jsonl, by line.

    Raises InputError when the row has no tokens: held-out rollouts have no advantages.
    """
    if "pieces" not in row or value not in row:
        raise InputError(
            f"The rollout {row.get('rollout')} of step {row.get('step')} ({row.get('split')}) was kept without tokens; "
            "training rollouts have them, if the run was made by this version."
        )
    lines: list[list[Token]] = [[]]
    for text, number in zip(row["pieces"], row[value], strict=True):
        number = 0.0 if number is None else float(number)
        first, *others = text.split("\n")
        if text == "":
            first = END
        if others:
            first += NEW_LINE
        lines[-1].append(Token(first, number))
        for place, other in enumerate(others, start=1):
            shown = other + (NEW_LINE if place < len(others) else "")
            lines.append([Token(shown, number)] if shown else [])
    return [Line(number, tuple(tokens)) for number, tokens in enumerate(lines)]


def scale_of(row: Mapping[str, Any], value: Value = "advantages") -> float:
    """The size of a value that gets the strongest tint; 1 where all are zero."""
    sizes = np.abs([number or 0.0 for number in row[value]])
    return float(np.quantile(sizes, QUANTILE)) or float(sizes.max(initial=0.0)) or 1.0


def tint(value: float, scale: float) -> tuple[int, int, int]:
    """Background colour: white for 0, towards blue above and orange below.

    >>> tint(0.0, 1.0), tint(1.0, 1.0), tint(-9.0, 1.0)
    ((255, 255, 255), (97, 168, 207), (229, 155, 97))
    """
    share = STRONGEST * min(abs(value) / scale, 1.0)
    colour = BLUE if value > 0 else ORANGE
    return tuple(round(255 + (part - 255) * share) for part in colour)


def remarks_of(row: Mapping[str, Any]) -> dict[int, list[str]]:
    """What tools and judges said of single lines, by 0-based line."""
    found: dict[int, list[str]] = {}
    for said in row.get("diagnostics") or ():
        if isinstance(said.get("line"), int):
            found.setdefault(said["line"], []).append(f"{said['tool']}: {said['message']}")
    for said in row.get("judge_lines") or ():
        if isinstance(said, Mapping) and isinstance(said.get("line"), int):
            found.setdefault(said["line"], []).append(f"judge: {said.get('why', '')} ({said.get('impact')})")
    return found


def terms_of(row: Mapping[str, Any]) -> str:
    """`reward 1.42: format 1, compile 0, ...`"""
    reward = "none" if row.get("reward") is None else f"{row['reward']:.2f}"
    terms = ", ".join(f"{name} {value:.2g}" for name, value in (row.get("terms") or {}).items())
    return f"reward {reward}: {terms}" if terms else f"reward {reward}"
