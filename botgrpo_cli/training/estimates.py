"""From scored completions to rates with intervals over prompts, Pass@k, and one row a problem."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from botgrpo_cli.rewards.spans import TokenBytes
from botgrpo_cli.stats import bootstrap_ci, mean_pass_at_k, pass_at_k
from botgrpo_cli.tasks.base import Prompt, Scored
from botgrpo_cli.training.rollouts import Batch, facts

KS = (1, 2, 4)  # k of the paper


@dataclass(frozen=True)
class Answer:
    """One scored completion. `tokens` is None where nobody counted, `text` empty where nobody asked for it."""

    prompt: Prompt
    scored: Scored
    tokens: int | None
    finished: bool
    text: str = ""


@dataclass(frozen=True)
class Estimate:
    """A mean over problems with its 95 % interval; None where there is none."""

    metric: str
    value: float | None
    low: float | None
    high: float | None


def answers_of(batch: Batch, token_bytes: TokenBytes | None = None) -> list[Answer]:
    """With `token_bytes`, those of the policy, also their texts."""
    rows = zip(batch.prompts, batch.scored, batch.rollouts, strict=True)
    return [
        Answer(prompt, scored, len(rollout.ids), rollout.finished, _text(rollout.ids, token_bytes))
        for prompt, scored, rollout in rows
    ]


def _text(ids: Sequence[int], token_bytes: TokenBytes | None) -> str:
    return b"".join(token_bytes.pieces(ids)).decode("utf-8", "replace") if token_bytes else ""


def by_problem(answers: Sequence[Answer]) -> dict[str, list[Answer]]:
    """The answers to each problem, in the order in which they came."""
    groups: dict[str, list[Answer]] = {}
    for answer in answers:
        groups.setdefault(answer.prompt.id, []).append(answer)
    return groups


def prompt_means(answers: Sequence[Answer], metric: str) -> list[tuple[str, int, float]]:
    """(prompt id, samples, mean of a metric over them) of each prompt, in order."""
    return [
        (name, len(group), sum(facts(answer.scored)[metric] for answer in group) / len(group))
        for name, group in by_problem(answers).items()
    ]


def counts(answers: Sequence[Answer], headline: str) -> dict[str, tuple[int, int]]:
    """(samples, right ones) of each problem; right is a headline metric of 1."""
    return {
        name: (len(group), sum(facts(answer.scored).get(headline) == 1.0 for answer in group))
        for name, group in by_problem(answers).items()
    }


def pass_rates(answers: Sequence[Answer], headline: str, ks: Sequence[int] = KS) -> dict[str, float]:
    """Unbiased `pass@k` for those k that every problem has samples for."""
    found = list(counts(answers, headline).values())
    rates = {f"pass@{k}": mean_pass_at_k(found, k) for k in ks}
    return {name: rate for name, rate in rates.items() if rate is not None}


def estimate(answers: Sequence[Answer], headline: str, ks: Sequence[int]) -> list[Estimate]:
    """Pass@k of the headline metric, then the mean of each fact and term, each with a 95 % bootstrap interval over
    problems. A k that some problem has too few samples for has no value (never 1); a fact that only some completions
    have is a mean over these."""
    samples = counts(answers, headline)
    rows = []
    for k in ks:
        chances = [pass_at_k(n, c, k) for n, c in samples.values()]
        rows.append(_interval(f"pass@{k}", [] if None in chances else chances, list(samples)))
    columns: dict[str, tuple[list[float], list[str]]] = {}
    for answer in answers:
        for name, value in facts(answer.scored).items():
            values, problems = columns.setdefault(name, ([], []))
            if not math.isnan(value):
                values.append(value)
                problems.append(answer.prompt.id)
    return rows + [_interval(name, values, problems) for name, (values, problems) in columns.items()]


def problem_rows(answers: Sequence[Answer], headline: str) -> Iterator[dict[str, Any]]:
    """One row a problem: id, level, samples `n`, right ones `c`, lengths in tokens (null: not counted), how many were
    truncated, and how often each parse status came, where the task has one."""
    samples = counts(answers, headline)
    for name, group in by_problem(answers).items():
        n, c = samples[name]
        row: dict[str, Any] = {"id": name, "level": group[0].prompt.level, "n": n, "c": c}
        statuses = Counter(a.scored.detail["status"] for a in group if "status" in a.scored.detail)
        if statuses:
            row["statuses"] = dict(sorted(statuses.items()))
        row["lengths"] = [a.tokens for a in group]
        row["truncated"] = sum(not a.finished for a in group)
        yield row


def _interval(metric: str, values: Sequence[float | None], clusters: Sequence[str]) -> Estimate:
    if not values:
        return Estimate(metric, None, None, None)
    found = bootstrap_ci(values, clusters)
    return Estimate(metric, found.mean, found.low, found.high)
