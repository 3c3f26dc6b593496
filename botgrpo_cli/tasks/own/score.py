"""From what functions said of a completion to reward, token-level signal and metrics. Pure: no I/O, no state."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from botgrpo_cli.recipe.section import SpreadConfig
from botgrpo_cli.rewards.spans import line_of_token
from botgrpo_cli.rewards.steps import step_texts, steps_and_tokens
from botgrpo_cli.tasks.base import UNSCORED, Completion, Scored
from botgrpo_cli.tasks.own.functions import Answer, Failure, Function
from botgrpo_cli.tasks.own.tokens import on_tokens, on_units, softened


@dataclass(frozen=True)
class Steps:
    """The steps of a completion. Shapes: `texts` [S], `of_token` [T] (-1: in none)."""

    texts: list[str]
    of_token: list[int]


def find_steps(pieces: Sequence[bytes], kind: str) -> Steps:
    """By `task.steps`. Shape: pieces [T]."""
    if kind == "lines":
        return Steps(b"".join(pieces).decode("utf-8", "replace").split("\n"), line_of_token(pieces))
    found = steps_and_tokens(pieces, at=kind)
    return Steps(step_texts(pieces, found.spans), found.of_token)


def score(
    completion: Completion,
    answers: Mapping[str, Answer],
    functions: Mapping[str, Function],
    weights: Mapping[str, float],
    steps: Steps | None,
    spread: SpreadConfig,
) -> Scored:
    """The reward is the sum of weight * term, the signal of a token the sum of weight * signal, kept in [-1, 1] (ours).

    A term or signal that gave None does not apply to this completion: it adds nothing, and has no value in the means.
    Where one failed the rollout is unscored: its reward is NaN, `detail["unscored"]` says why. A metric that failed
    costs nothing but its value.

    `steps` are None where nobody asks for them. Shapes: `Scored.local` [T] and `Scored.steps` [T], T =
    len(completion.pieces).
    """
    failed = {name: answer.reason for name, answer in answers.items() if isinstance(answer, Failure)}
    values = {
        name: float("nan") if answer is None or name in failed else float(answer)
        for name, answer in answers.items()
        if functions[name].kind != "signal"
    }
    terms = {name: value for name, value in values.items() if functions[name].kind == "term"}
    unscored = [reason for name, reason in failed.items() if functions[name].kind != "metric"]
    paid = math.fsum(weights[name] * value for name, value in terms.items() if not math.isnan(value))
    local = [0.0] * len(completion.pieces)
    for name, answer in answers.items():
        if functions[name].kind == "signal" and answer is not None and name not in failed and weights[name]:
            signal = _signal(functions[name], answer, completion.pieces, steps, spread)  # [T]
            local = [sum_ + weights[name] * value for sum_, value in zip(local, signal, strict=True)]
    detail: dict[str, Any] = {"text": completion.text}
    if signals := {name: _shown(answer) for name, answer in answers.items() if functions[name].kind == "signal"}:
        detail["signals"] = signals
    if failed:
        detail["failed"] = failed
    if unscored:
        detail[UNSCORED] = unscored
    return Scored(
        reward=float("nan") if unscored else paid,
        local=[min(1.0, max(-1.0, value)) for value in local],
        terms=terms,
        metrics={
            **values,
            "unscored_rate": float(bool(unscored)),
            "truncated": float(not completion.finished),
            "length": float(len(completion.pieces)),
        },
        detail=detail,
        steps=steps.of_token if steps else None,
    )


def _signal(
    function: Function, answer: Any, pieces: Sequence[bytes], steps: Steps | None, spread: SpreadConfig
) -> list[float]:
    if function.unit == "lines" and spread.kind != "none":
        lines = b"".join(pieces).count(b"\n") + 1
        answer = softened(on_units(answer, lines), spread.kind, spread.half_life)
    return on_tokens(answer, function.unit, pieces, steps.of_token if steps else None)


def _shown(answer: Answer) -> Any:
    return [list(part) if isinstance(part, tuple) else part for part in answer] if isinstance(answer, list) else None
