"""The reward stack: named terms in [0, 1], weighted in the recipe, summed into one number a rollout."""

from __future__ import annotations

import math
from collections.abc import Mapping


def weighted_sum(terms: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """Sum of weight * term. Both must name the same terms, so that none is scored but forgotten, or the reverse.

    A NaN term stands for "could not be scored" and makes the reward NaN (unless its weight is 0: it is only logged).
    Raises ValueError for a term outside [0, 1], and for names that differ.

    >>> weighted_sum({"format": 1.0, "compile": 0.5}, {"format": 0.2, "compile": 1.0})
    0.7
    """
    if terms.keys() != weights.keys():
        different = ", ".join(sorted(terms.keys() ^ weights.keys()))
        raise ValueError(f"terms and weights of the reward stack differ in: {different}")
    for name, value in terms.items():
        if not (math.isnan(value) or 0.0 <= value <= 1.0):
            raise ValueError(f"reward term '{name}' is {value}, outside [0, 1]")
    return math.fsum(weights[name] * value for name, value in terms.items() if weights[name] != 0.0)
