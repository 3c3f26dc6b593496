"""The offline screenshot judge: a score from what the browser saw of a page, lines from the faults of its source.

The probe of the renderer (visible text, controls, contrast, alignment) and its pixel counts (filled area, dominant
colour) are all it looks at. Of what was asked for it can tell words, controls, handlers and pictures; the rest is left
to the code judge.
"""

from __future__ import annotations

import re
from concurrent.futures import Executor, Future
from typing import TYPE_CHECKING

from botgrpo_cli.judges.blames import MAX_LINES
from botgrpo_cli.judges.simulate import EXACT, Errors
from botgrpo_cli.tasks.base import Prompt
from botgrpo_cli.tasks.react.judges.heuristic import blamed
from botgrpo_cli.tasks.react.judges.heuristic_faults import echo_free, faults
from botgrpo_cli.tasks.react.judges.heuristic_source import Fault, Reading
from botgrpo_cli.tasks.react.judges.screenshot import Mode
from botgrpo_cli.tasks.react.judges.verdicts import ScreenVerdict, shows_nothing
from botgrpo_cli.tasks.react.prompts import normalise

if TYPE_CHECKING:
    from botgrpo_cli.tasks.react.render import Probe, Rendered

_WORD = re.compile(r"[^\W_]+")
_CONTROL_ASKS = frozenset(
    {"form", "select", "checkbox", "radio", "slider", "password", "date-input", "color-input"}
    | {f"element:{name}" for name in ("button", "input", "textarea", "link")}
)
_PICTURE_ASKS = frozenset({"element:img", "element:svg"})
_FILLED = 0.02  # share of the viewport that a few lines of plain text and a button cover
_SEEN = frozenset({"dead", "hidden", "contrast", "repeat", "echo", "address", "garbled", "placeholder"})
"""Faults whose effect can be seen in a picture."""


class HeuristicScreenJudge:
    """Implements `verdicts.ScreenJudge`. The work is done in `executor`, beside the sampling."""

    def __init__(self, executor: Executor, errors: Errors, mode: Mode) -> None:
        self._executor, self._errors, self._mode = executor, errors, mode

    def submit(self, prompt: Prompt, code: str, rendered: Rendered) -> Future[ScreenVerdict]:
        return self._executor.submit(judge_screen, prompt, code, rendered, mode=self._mode, errors=self._errors)


def judge_screen(
    prompt: Prompt, code: str, rendered: Rendered, *, mode: Mode = "global", errors: Errors = EXACT
) -> ScreenVerdict:
    """The verdict on one page. The two local modes differ in calls only, so here they give the same."""
    if nothing := shows_nothing(rendered):
        return nothing
    key = ("screen", prompt.id, code)
    score = errors.score(page_score(prompt, rendered.probe), *key)
    found: list[Fault] = []
    if mode != "global":
        seen = _SEEN - {"dead"} if rendered.probe.live_controls == rendered.probe.controls else _SEEN
        found = [fault for fault in faults(Reading(code), prompt) if fault.kind in seen]
    said = "; ".join(f"line {fault.line + 1}: {fault.why}" for fault in found[:MAX_LINES])
    lines = errors.lines(blamed(found), code, *key)
    return ScreenVerdict(
        score=score,
        outcome="ok",
        lines=errors.with_spurious(lines, code, *key) if mode != "global" else lines,
        lines_outcome="ok" if mode == "local-2turn" else None,
        text=f"heuristic: {said}" if said else "heuristic",
    )


def page_score(prompt: Prompt, probe: Probe) -> float:
    """In [0, 1]: what can be seen of what was asked for, times how well it works and looks.

    The product, and not a sum: a tidy page of something else is worth nothing.
    """
    live = probe.live_controls / probe.controls if probe.controls else float(not _wants_controls(prompt))
    craft = (
        probe.contrast,
        min(1.0, probe.filled / _FILLED),
        probe.aligned,
        1.0 - probe.overflow,
    )
    works = 0.5 + 0.2 * live + 0.3 * sum(craft) / len(craft)
    return round(min(1.0, max(0.0, seen_share(prompt, probe) * works)), 6)


def seen_share(prompt: Prompt, probe: Probe) -> float:
    """Share of the asks that can be seen, in [0, 1], words counting as one half and the rest as the other."""
    text = echo_free(probe.text, prompt)
    words = {word.casefold() for word in _WORD.findall(text)}
    wanted = {ask.removeprefix("text:") for ask in prompt.asks if ask.startswith("text:")}
    if not prompt.asks:
        wanted = set(normalise(prompt.text).split())
    shares = []
    if wanted:
        enough = len(wanted) if prompt.asks else min(3, len(wanted))
        # The root: many words of a good app wait for a click, so the first ones count more than the last.
        shares.append(min(1.0, len(wanted & words) / max(1, enough)) ** 0.5)
    if _wants_controls(prompt):
        shares.append(probe.live_controls / probe.controls if probe.controls else 0.0)
    if not _PICTURE_ASKS.isdisjoint(prompt.asks):
        shares.append(float(probe.images > 0))
    if not shares:  # nothing of it can be seen by a probe: some text has to do
        shares.append(min(1.0, len(words) / 4))
    return sum(shares) / len(shares)


def _wants_controls(prompt: Prompt) -> bool:
    return any(ask in _CONTROL_ASKS or ask.startswith("event:") for ask in prompt.asks)
