"""Softening a line's penalty over its neighbours: the line a tool blames is often next to the one that is wrong."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

NEGLIGIBLE = 0.01  # a share of a penalty below this is dropped, so that a far-away line stays at exactly 0


def spread(
    penalties: Sequence[float], *, kind: Literal["exponential", "linear", "none"], half_life: float
) -> list[float]:
    """Penalties of lines after softening; each line takes the largest share that reaches it.

    At a distance of d lines a penalty p counts p * 0.5 ** (d / half_life) (exponential), p * (1 - d / (2 *
    half_life)) (linear), or nothing unless d = 0 (none). Shares below 1 % of p are dropped. The largest share is
    taken and not the sum: a line near five warnings is not as wrong as one that does not compile, and no line can
    leave [0, 1]. Paper: "spatial decay"; the form and the combination are our choice.

    Shapes: penalties [L] in [0, 1], result [L]. Raises ValueError for a penalty outside [0, 1] or NaN.

    >>> spread([0, 0, 1.0, 0, 0.2], kind="exponential", half_life=1)
    [0.25, 0.5, 1.0, 0.5, 0.25]
    >>> spread([0, 0, 1.0, 0, 0.2], kind="linear", half_life=1)
    [0.0, 0.5, 1.0, 0.5, 0.2]
    >>> spread([0, 0, 1.0, 0, 0.2], kind="none", half_life=1)
    [0.0, 0.0, 1.0, 0.0, 0.2]
    """
    softened = [0.0] * len(penalties)
    shares = _shares(kind, half_life, len(penalties))
    for line, penalty in enumerate(penalties):
        if not 0.0 <= penalty <= 1.0:
            raise ValueError(f"the penalty of line {line} is {penalty}, outside [0, 1]")
        if penalty == 0.0:
            continue
        for distance, share in enumerate(shares):
            for near in {line - distance, line + distance}:
                if 0 <= near < len(softened):
                    softened[near] = max(softened[near], penalty * share)
    return softened


def _shares(kind: str, half_life: float, lines: int) -> list[float]:
    """Share of a penalty at distance 0, 1, …, as far as it is worth anything and there are lines."""
    if kind == "none":
        return [1.0]
    if kind == "exponential":
        reach = half_life * math.log2(1 / NEGLIGIBLE)
        return [0.5 ** (d / half_life) for d in range(min(lines, int(reach) + 1))]
    if kind == "linear":
        shares = [1.0 - d / (2 * half_life) for d in range(min(lines, math.ceil(2 * half_life)))]
        return [share for share in shares if share >= NEGLIGIBLE]
    raise ValueError(f"spread kind {kind!r} is unknown; expected exponential, linear or none")
