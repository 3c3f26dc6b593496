"""What judges and the browser said of one completion, as reward terms, line penalties, metrics and details."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from botgrpo_cli.judges.blames import LineBlame
from botgrpo_cli.tasks.base import Attachment
from botgrpo_cli.tasks.react.judges.verdicts import CodeVerdict, ScreenVerdict
from botgrpo_cli.tasks.react.keys import RewardConfig

if TYPE_CHECKING:
    from botgrpo_cli.tasks.react.render import Rendered

HOLLOW = 0.2
"""A page is hollow when it compiles but shows nothing, or when less than this share of what the brief asks for stands
in the source (`content.content_share`; a brief without asks counts by the page alone). Our choice."""
TEXT = 2000  # characters of a judge's words that a sample keeps


@dataclass(frozen=True)
class Feedback:
    """Each part is None when it is off, or when there was nothing to look at."""

    code: CodeVerdict | None = None
    screen: ScreenVerdict | None = None
    rendered: Rendered | None = None
    label: str = ""  # of the judge
    offline: bool = False  # the judge is a heuristic, with simulated errors or without


def judge_terms(said: Feedback, reward: RewardConfig) -> dict[str, float]:
    """The terms of the judges that are on; 0 where nobody could say anything (paper)."""
    terms = {}
    if reward.code_judge.on:
        terms["code_judge"] = said.code.score if said.code else 0.0
    if reward.vlm.judged:
        terms["vlm"] = said.screen.score if said.screen else 0.0
    return terms


def judge_blames(said: Feedback, reward: RewardConfig) -> Iterator[tuple[LineBlame, float]]:
    """Each blamed line with the weight of its impact; those that are only measured are left out."""
    if said.code and reward.code_judge.lines:
        for blame in said.code.lines:
            yield blame, reward.code_judge.line_weight
    if said.screen and reward.vlm.local:
        for blame in said.screen.lines:
            yield blame, reward.vlm.local_weight


def judge_metrics(said: Feedback, reward: RewardConfig, *, compiled: bool, share: float | None) -> dict[str, float]:
    """Facts of one completion; NaN where there is none, so that a mean is over those that have one.

    A failed call has no score: `judge_code_score` and `judge_vlm_score` are means of what judges said, while the terms
    count failures as 0. Blank and hollow rates are shares of the code that compiles. `share` is the content share, None
    for a brief without asks.
    """
    found: dict[str, float] = {}
    if reward.code_judge.on:
        ok = said.code is not None and said.code.outcome == "ok"
        found["judge_code_score"] = said.code.score if ok else math.nan
        found["judge_not_react"] = float(said.code.not_react) if ok else math.nan
    if reward.vlm.judged:
        ok = said.screen is not None and said.screen.outcome in ("ok", None)
        found["judge_vlm_score"] = said.screen.score if ok else math.nan
    if found:
        verdicts = [verdict for verdict in (said.code, said.screen) if verdict]
        found["judge_lines"] = float(sum(len(verdict.lines) for verdict in verdicts))
        found["judge_lines_dropped"] = float(sum(verdict.dropped for verdict in verdicts))
        found["judge_heuristic"] = float(said.offline)
    if reward.vlm.rendered:
        drawn = said.rendered is not None and said.rendered.outcome == "drawn"
        hollow = not drawn or (share is not None and share < HOLLOW)
        lost = said.rendered is not None and said.rendered.outcome in ("timeout", "crashed")
        found["blank_rate"] = float(not drawn) if compiled else math.nan
        found["hollow_rate"] = float(hollow) if compiled else math.nan
        found["render_failed"] = float(lost) if compiled else math.nan  # counted as blank as well
    return found


def judge_detail(said: Feedback, first_line: int) -> dict[str, Any]:
    """For samples.jsonl; lines are those of the completion."""
    found: dict[str, Any] = {}
    if said.code or said.screen:
        found["judge"] = said.label
    if said.code:
        code = said.code
        found["judge_code"] = {"score": code.score, "parts": code.parts, "not_react": code.not_react}
        found["judge_code"] |= _common(code, first_line)
    if said.screen:
        found["judge_vlm"] = {"score": said.screen.score, "lines_outcome": said.screen.lines_outcome}
        found["judge_vlm"] |= _common(said.screen, first_line)
    if said.rendered:
        page = said.rendered
        found["render"] = {"outcome": page.outcome, "why": page.why, "errors": page.errors, "console": page.console}
        if page.screenshot is not None:
            found["screenshot"] = Attachment(page.screenshot, "screenshots", ".png")
    return found


def _common(verdict: CodeVerdict | ScreenVerdict, first_line: int) -> dict[str, Any]:
    return {
        "outcome": verdict.outcome,
        "lines": [{"line": b.line + first_line, "impact": b.impact, "why": b.why} for b in verdict.lines],
        "dropped": verdict.dropped,
        "text": verdict.text[:TEXT],
    }
