"""From a graded completion and verdicts on its steps to reward terms and the token-level signal. Pure: no I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, get_args

from botgrpo_cli.rewards.stack import weighted_sum
from botgrpo_cli.rewards.steps import Steps
from botgrpo_cli.tasks.aime.answer import Grade, Status, last_box
from botgrpo_cli.tasks.aime.keys import RewardConfig
from botgrpo_cli.tasks.aime.verdicts import Judged, Verdict
from botgrpo_cli.tasks.base import Completion, Scored

SHOWN = 300  # characters of a step in samples.jsonl


@dataclass(frozen=True)
class Facts:
    """What is known of a completion before it is scored. Shapes: `steps.of_token` [T], `texts` [S]."""

    grade: Grade
    steps: Steps
    texts: Sequence[str]  # of the steps
    golds: frozenset[int]
    complete: bool = True  # whether every step is there, where the problem says which there must be
    length: int | None = None  # steps that a whole solution has, where that is known
    judged: Judged | None = None  # None: nobody was asked
    label: str = ""  # who judged


def score(completion: Completion, facts: Facts, reward: RewardConfig) -> Scored:
    """Terms, metrics, token-level signal and details of one completion.

    Global terms (paper): outcome, 1 when the box holds a gold; format, 1 when the answer is finished and has exactly
    one closed box with an integer, after the reasoning, in the last step, and all steps are there where the problem
    says which (ours). Local (paper: step verdicts; the form is ours): a token takes the score of its step minus 1. The
    end token is in no step: it takes 0 where a box was closed, else -1, because to stop there was the error. With 0
    everywhere the end token was the best one to write for a policy whose steps are mostly wrong: SmolLM2-135M had
    learnt to answer nothing at all after 7 updates. A finished answer with wrong steps loses at most
    `method.local_weight`, and a format weight of at least that keeps any unfinished one below it.

    Shapes: `Scored.local` [T] in [-1, 0] and `Scored.steps` [T], T = len(completion.pieces).
    """
    terms = {"outcome": float(facts.grade.correct), "format": float(_well_formed(completion, facts))}
    of_token = facts.steps.of_token  # [T]
    scores = facts.judged.scores if facts.judged else None  # [S]
    local = [0.0] * len(of_token)
    if scores is not None:
        end = 0.0 if facts.grade.status in ("ok", "multi", "not_int") else -1.0
        local = [scores[step] - 1.0 if step >= 0 else end for step in of_token]
    return Scored(
        reward=weighted_sum(terms, {"outcome": reward.outcome.weight, "format": reward.format.weight}),
        local=local,
        terms=terms,
        metrics=_metrics(completion, terms, facts),
        detail=_detail(completion, facts),
        steps=of_token,
    )


def first_error(verdicts: Sequence[Verdict | None], length: int | None = None) -> float:
    """Share of the steps before the first incorrect one: of those that there are, or of the `length` that there must
    be, so that a right beginning is no whole solution. 0 without steps.

    >>> first_error(["correct", "incorrect", None, None]), first_error(["correct"] * 2, 8), first_error([])
    (0.25, 0.25, 0.0)
    """
    right = verdicts.index("incorrect") if "incorrect" in verdicts else len(verdicts)
    whole = length or len(verdicts)
    return min(right, whole) / whole if whole else 0.0


def _well_formed(completion: Completion, facts: Facts) -> bool:
    if not (completion.finished and facts.complete and facts.grade.status == "ok" and facts.texts):
        return False
    return last_box(facts.texts[-1])[1] > 0


def _metrics(completion: Completion, terms: dict[str, float], facts: Facts) -> dict[str, float]:
    status = facts.grade.status
    metrics = {
        "solved": terms["outcome"],
        "format_rate": terms["format"],
        "parsed_rate": float(status == "ok"),
        **{f"status_{name}": float(status == name) for name in get_args(Status) if name != "ok"},
        "steps": float(len(facts.texts)),
        "truncated": float(not completion.finished),
        "length": float(len(completion.pieces)),
    }
    if facts.judged:
        judged = facts.judged
        metrics |= {
            "step_score": sum(judged.scores) / len(judged.scores) if judged.scores else 0.0,
            "first_error": first_error(judged.verdicts, facts.length),
            "step_calls": float(judged.calls),
            "step_malformed": float(judged.malformed),
            "step_extra": float(judged.extra + judged.repeated),
        }
    return metrics


def _detail(completion: Completion, facts: Facts) -> dict[str, Any]:
    detail: dict[str, Any] = {
        "text": completion.text,
        "golds": sorted(facts.golds),
        "extracted": facts.grade.extracted,
        "status": facts.grade.status,
    }
    if facts.judged:
        judged = facts.judged
        rows = zip(facts.texts, judged.verdicts, judged.scores, strict=True)
        detail["judge"] = facts.label
        detail["judge_outcomes"] = dict(judged.outcomes)
        detail["judged_steps"] = [
            {"id": number, "verdict": verdict, "score": value, "text": text[:SHOWN]}
            for number, (text, verdict, value) in enumerate(rows, start=1)
        ]
        if facts.label not in ("exact", "simulated"):
            detail["judge_replies"] = list(judged.texts)
    return detail
