"""The statistics that tables and figures report, each defined once.

Missing values are None (or NaN) and results that don't exist are None, never NaN. Every random draw comes from a
fixed seed, so a table made twice is the same table.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

DRAWS = 10_000
WINDOW = 5  # logged points in a trailing mean, and trailing means that must hold a threshold
_CHUNK = 1_000  # draws at a time: bounds memory at chunk * clusters


# --- accuracy of repeated samples ------------------------------------------------------------------------------------
def pass_at_k(n: int, c: int, k: int) -> float | None:
    """Chance that at least one of k samples is right, from n samples with c right ones: 1 - C(n-c, k) / C(n, k).

    None when there are fewer than k samples. ValueError unless 0 <= c <= n and k >= 1. (Chen et al., 2021)

    >>> pass_at_k(8, 2, 1), pass_at_k(4, 1, 2), pass_at_k(4, 4, 4), pass_at_k(2, 2, 4)
    (0.25, 0.5, 1.0, None)
    """
    if not 0 <= c <= n or k < 1:
        raise ValueError(f"pass@{k} of {c} right among {n} samples: expected 0 <= right <= samples and k >= 1.")
    return None if n < k else 1.0 - math.comb(n - c, k) / math.comb(n, k)


def mean_pass_at_k(counts: Sequence[tuple[int, int]], k: int) -> float | None:
    """Mean of pass@k over problems, each given as (samples, right ones).

    None when there is no problem, or when one has fewer than k samples: leaving it out would compare different k on
    different problems, and the mean could fall as k grows.

    >>> mean_pass_at_k([(4, 1), (4, 4)], 2), mean_pass_at_k([(4, 1), (1, 1)], 2)
    (0.75, None)
    """
    values = [pass_at_k(n, c, k) for n, c in counts]
    return None if not values or None in values else sum(values) / len(values)


# --- curves ----------------------------------------------------------------------------------------------------------
def trailing_means(steps: Sequence[int], values: Sequence[float | None]) -> list[tuple[int, float]]:
    """(step, mean of the last 5 logged points), full windows only; missing points are skipped.

    >>> trailing_means([0, 1, 2, 3, 4, 5, 6], [0, 0, 1, None, 1, 1, 2])
    [(5, 0.6), (6, 1.0)]
    """
    points = [(step, value) for step, value in zip(steps, values, strict=True) if _present(value)]
    windows = (points[i : i + WINDOW] for i in range(len(points) - WINDOW + 1))
    return [(window[-1][0], math.fsum(value for _, value in window) / WINDOW) for window in windows]


def steps_to_threshold(steps: Sequence[int], values: Sequence[float | None], threshold: float) -> int | None:
    """The first step from which 5 trailing means in a row are at or above the threshold; None when censored.

    >>> steps_to_threshold(range(0, 60, 5), [0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1], 0.5)
    25
    >>> steps_to_threshold(range(0, 40, 5), [0, 0, 0, 1, 1, 1, 1, 1], 0.5) is None
    True
    """
    means = trailing_means(steps, values)
    for i in range(len(means) - WINDOW + 1):
        if all(mean >= threshold for _, mean in means[i : i + WINDOW]):
            return means[i][0]
    return None


def peak_to_final_drop(values: Sequence[float | None]) -> float | None:
    """Highest trailing mean minus the mean of the last 5 points; None with fewer than 5 points.

    >>> peak_to_final_drop([0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 0.5, 0.5, 0.5, 0.5, 0.5])
    0.5
    """
    means = [mean for _, mean in trailing_means(range(len(values)), values)]
    return max(means) - means[-1] if means else None


@dataclass(frozen=True)
class SpeedUp:
    """How many times fewer steps; `at_least` when the baseline never got there."""

    ratio: float
    at_least: bool

    def __str__(self) -> str:
        return f"{'≥' if self.at_least else ''}{self.ratio:.1f}×"


def speed_up(baseline: Sequence[int | None], method: Sequence[int | None], last_step: int) -> SpeedUp | None:
    """Ratio of the median steps to a threshold over seeds; None in a list is a seed that never got there.

    A censored median of the baseline gives "at least last_step / method"; one of the method gives no number, and so
    does a method that was there at step 0. An even number of seeds takes the mean of the middle two, which is
    censored when one of them is. ValueError for no seeds.

    >>> str(speed_up([40, 60, None], [30, 30, 20], 100)), str(speed_up([None, None, 60], [25, 20, 30], 100))
    ('2.0×', '≥4.0×')
    >>> speed_up([40], [None], 100) is None
    True
    """
    slow, fast = _median(baseline), _median(method)
    if math.isinf(fast) or fast == 0:
        return None
    return SpeedUp(last_step / fast, True) if math.isinf(slow) else SpeedUp(slow / fast, False)


# --- intervals and comparisons ---------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Interval:
    """A mean and its 95 % interval; `low` and `high` are None where one cluster alone can't give an interval."""

    mean: float
    low: float | None
    high: float | None


def bootstrap_ci(
    values: Sequence[float],
    clusters: Sequence[Hashable] | None = None,
    seeds: Sequence[Hashable] | None = None,
    *,
    draws: int = DRAWS,
    seed: int = 0,
) -> Interval:
    """Mean over problems with a percentile bootstrap interval (95 %) over problems.

    `clusters[i]` is the problem of `values[i]` (default: each its own); a problem's values are averaged first, so
    problems count equally. With `seeds[i]`, the training seed, there are two levels: each draw takes seeds and
    problems anew, the same problems for every seed of the draw, because all seeds were measured on them.

    ValueError when there is no value, when one is missing, or when a seed lacks a problem.

    >>> bootstrap_ci([1.0, 1.0, 0.0, 0.0], ["a", "a", "b", "b"])
    Interval(mean=0.5, low=0.0, high=1.0)
    >>> bootstrap_ci([1.0, 0.5], ["a", "a"])
    Interval(mean=0.75, low=None, high=None)
    """
    table = _table(
        values, range(len(values)) if clusters is None else clusters, [0] * len(values) if seeds is None else seeds
    )
    mean = float(table.mean())
    if table.shape[1] < 2:
        return Interval(mean, None, None)
    generator = np.random.default_rng(seed)
    drawn = []
    for size in _chunks(draws):
        problems = _shares(generator, size, table.shape[1])  # [D, P]
        training = _shares(generator, size, table.shape[0])  # [D, S]
        drawn.append(np.einsum("ds,sp,dp->d", training, table, problems, optimize=True))
    low, high = np.percentile(np.concatenate(drawn), [2.5, 97.5])
    return Interval(mean, float(low), float(high))


@dataclass(frozen=True)
class Comparison:
    """Mean paired difference (first minus second), its 95 % interval over prompts, and the sign-flip p."""

    difference: float
    low: float | None
    high: float | None
    p: float


def paired_difference(
    first: Mapping[str, Sequence[float]],
    second: Mapping[str, Sequence[float]],
    *,
    draws: int = DRAWS,
    seed: int = 0,
) -> Comparison:
    """Compare two methods on the same prompts: prompt -> its values, one a seed (or a seed and sample).

    The values of a prompt are averaged within each method, then subtracted; the interval and the test are over
    prompts. ValueError when the prompts differ, when there are none, or when a value is missing.

    >>> result = paired_difference({"a": [1.0, 1.0], "b": [0.5, 0.5]}, {"a": [0.0, 1.0], "b": [0.0, 0.0]})
    >>> result.difference, result.p
    (0.5, 0.5)
    """
    if first.keys() != second.keys():
        odd = sorted(first.keys() ^ second.keys())
        raise ValueError(
            f"A paired comparison needs the same prompts on both sides; {len(odd)} differ, such as {odd[0]!r}."
        )
    differences = [_mean(first[prompt]) - _mean(second[prompt]) for prompt in sorted(first)]
    interval = bootstrap_ci(differences, draws=draws, seed=seed)
    return Comparison(interval.mean, interval.low, interval.high, sign_flip_p(differences, draws=draws, seed=seed))


def sign_flip_p(differences: Sequence[float], *, draws: int = DRAWS, seed: int = 0) -> float:
    """Two-sided p of the mean difference under random signs; exact when 2^n <= draws, else (hits + 1) / (draws + 1).

    ValueError when there is no difference, or when one is missing.

    >>> sign_flip_p([1.0, 2.0, 3.0])
    0.25
    """
    values = _finite(differences)
    n = len(values)
    limit = abs(values.sum()) - 1e-12 * np.abs(values).sum()  # sums that are equal but for rounding count as equal
    if 2**n <= draws:
        signs = 1 - 2 * ((np.arange(2**n)[:, None] >> np.arange(n)) & 1)  # [2^n, n]
        return float(np.mean(np.abs(signs @ values) >= limit))
    generator = np.random.default_rng(seed)
    hits = 0
    for size in _chunks(draws):
        signs = 1 - 2 * generator.integers(0, 2, size=(size, n), dtype=np.int8)
        hits += int(np.sum(np.abs(signs @ values) >= limit))
    return (hits + 1) / (draws + 1)


def smallest_p(n: int) -> float:
    """The smallest p that a two-sided sign-flip test of n differences can give: say so beside a test over few seeds.

    >>> smallest_p(3), smallest_p(5), smallest_p(1)
    (0.25, 0.0625, 1.0)
    """
    return min(1.0, 2.0 / 2**n)


def holm(p_values: Sequence[float]) -> list[float]:
    """p values adjusted for a family of tests (Holm's step-down), in the order given. ValueError outside [0, 1].

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    if any(not 0.0 <= p <= 1.0 for p in p_values):
        raise ValueError(f"Holm's adjustment needs p values from 0 to 1; found {list(p_values)}.")
    adjusted = [0.0] * len(p_values)
    highest = 0.0
    for rank, i in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[i]))
        adjusted[i] = highest
    return adjusted


# --- parts -----------------------------------------------------------------------------------------------------------
def _present(value: float | None) -> bool:
    return value is not None and not math.isnan(value)


def _finite(values: Sequence[float]) -> np.ndarray:
    if not len(values) or not all(_present(value) and math.isfinite(value) for value in values):
        raise ValueError(f"Expected at least one value and none missing; found {list(values)[:10]}.")
    return np.asarray(values, dtype=np.float64)


def _mean(values: Sequence[float]) -> float:
    return float(_finite(values).mean())


def _median(steps: Sequence[int | None]) -> float:
    if not steps:
        raise ValueError("A median over seeds needs at least one seed.")
    return float(np.median([math.inf if step is None else step for step in steps]))


def _table(values: Sequence[float], clusters: Sequence[Hashable], seeds: Sequence[Hashable]) -> np.ndarray:
    """Mean value of each seed on each problem. Shape: [S, P]."""
    numbers = _finite(values)
    columns = {name: n for n, name in enumerate(dict.fromkeys(clusters))}
    rows = {name: n for n, name in enumerate(dict.fromkeys(seeds))}
    total, count = np.zeros((2, len(rows), len(columns)))
    for value, cluster, training in zip(numbers, clusters, seeds, strict=True):
        total[rows[training], columns[cluster]] += value
        count[rows[training], columns[cluster]] += 1
    if (count == 0).any():
        row, column = (int(n) for n in np.argwhere(count == 0)[0])
        raise ValueError(f"Seed {list(rows)[row]!r} has no value for problem {list(columns)[column]!r}.")
    return total / count


def _shares(generator: np.random.Generator, draws: int, n: int) -> np.ndarray:
    """Shares of n items in draws with replacement. Shape: [draws, n]."""
    return generator.multinomial(n, np.full(n, 1.0 / n), size=draws) / n


def _chunks(draws: int) -> Iterator[int]:
    for start in range(0, draws, _CHUNK):
        yield min(_CHUNK, draws - start)
