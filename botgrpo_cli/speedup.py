"""The interval of a speed-up: how sure the ratio of steps to a threshold is, given the prompts and seeds it comes from.

Our choice, in the spirit of the other intervals of `stats`: a bootstrap with two levels. Each draw takes held-out
prompts anew, the same for both methods, and training seeds anew, for each method by itself; the curves of the draw
give steps to the threshold by the same definition, and their medians a ratio.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from botgrpo_cli.stats import DRAWS, WINDOW

_CHUNK = 500  # draws at a time: bounds memory at chunk * seeds * evaluations
_ROUNDING = 1e-9  # a mean over prompts that equals the threshold but for rounding has reached it


@dataclass(frozen=True)
class Curves:
    """One method's held-out values: `values` [S, E, P] of seeds, evaluations and prompts; `steps` [E]."""

    steps: Sequence[int]
    values: np.ndarray


@dataclass(frozen=True)
class RatioInterval:
    """95 % interval of a speed-up. `low` is None when the method often never gets there, `at_least` says that the
    upper end is a lower bound: the baseline often never gets there."""

    low: float | None
    high: float
    at_least: bool


def speed_up_interval(
    baseline: Curves, method: Curves, threshold: float, *, draws: int = DRAWS, seed: int = 0
) -> RatioInterval | None:
    """Percentile interval of the ratio of median steps to the threshold, baseline over method.

    A draw in which the method never gets there counts as the slowest; one in which only the baseline doesn't counts as
    its last step over the method's. None when the method gets there in under half of the draws, or when there is one
    prompt only. ValueError when the prompts differ in number.

    Shapes: `values` [S, E, P], complete; S may differ between the methods, P must not.
    """
    prompts = baseline.values.shape[2]
    if method.values.shape[2] != prompts:
        raise ValueError(f"The methods have {prompts} and {method.values.shape[2]} prompts; expected the same ones.")
    if prompts < 2:
        return None
    generator = np.random.default_rng(seed)
    ratios, bounds = [], []
    for start in range(0, draws, _CHUNK):
        size = min(_CHUNK, draws - start)
        shares = generator.multinomial(prompts, np.full(prompts, 1 / prompts), size=size) / prompts  # [D, P]
        slow, fast = (_median_steps(curves, shares, threshold, generator) for curves in (baseline, method))  # [D]
        reached = np.isfinite(fast)
        bound = reached & ~np.isfinite(slow)
        top = np.where(bound, float(max(baseline.steps)), slow)
        ratios.append(np.divide(top, fast, out=np.zeros(size), where=reached & (fast > 0)))
        bounds.append(bound)
    ratio, bound = np.concatenate(ratios), np.concatenate(bounds)
    if np.mean(ratio > 0) < 0.5:
        return None
    low, high = (float(x) for x in np.percentile(ratio, [2.5, 97.5], method="nearest"))
    return RatioInterval(low if low > 0 else None, high, bool(bound[ratio >= high].any()))


def _median_steps(curves: Curves, shares: np.ndarray, threshold: float, generator: np.random.Generator) -> np.ndarray:
    """Median over drawn seeds of the steps to the threshold, inf where never reached. shares [D, P] -> [D]"""
    seeds = curves.values.shape[0]
    means = np.einsum("sep,dp->dse", curves.values, shares, optimize=True)  # [D, S, E]
    steps = steps_of(means, curves.steps, threshold)  # [D, S]
    chosen = generator.integers(0, seeds, size=steps.shape)  # [D, S]
    return np.median(np.take_along_axis(steps, chosen, axis=1), axis=1)


def steps_of(means: np.ndarray, steps: Sequence[int], threshold: float) -> np.ndarray:
    """`stats.steps_to_threshold` of many curves at once: means [..., E] -> [...], inf where never reached.

    >>> steps_of(np.array([[0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1.0]]), range(0, 60, 5), 0.5)
    array([25.])
    """
    never = np.full(means.shape[:-1], np.inf)
    if means.shape[-1] < 2 * WINDOW - 1:
        return never
    windows = np.lib.stride_tricks.sliding_window_view(means, WINDOW, axis=-1).mean(axis=-1)  # [..., W]
    held = np.lib.stride_tricks.sliding_window_view(windows >= threshold - _ROUNDING, WINDOW, axis=-1).all(axis=-1)
    ends = np.asarray(steps, dtype=float)[WINDOW - 1 :]  # the step at which each window ends
    return np.where(held.any(axis=-1), ends[held.argmax(axis=-1)], never)
