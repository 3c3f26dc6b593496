"""The offline code judge: the verdict of `code.py` from the parsed source, deterministic, without a model.

It stands in for a judge where there is none, and every record made with it says `heuristic`. What it can't see (code
that looks right and is not) it does not punish; a model does better.
"""

from __future__ import annotations

import re
from concurrent.futures import Executor, Future
from typing import TYPE_CHECKING

from botgrpo_cli.judges.blames import MAX_LINES, TOP, LineBlame
from botgrpo_cli.judges.simulate import EXACT, Errors
from botgrpo_cli.tasks.base import Prompt
from botgrpo_cli.tasks.react.content import content_share
from botgrpo_cli.tasks.react.jsx import scan
from botgrpo_cli.tasks.react.judges.heuristic_faults import FATAL, faults, visible_code
from botgrpo_cli.tasks.react.judges.heuristic_source import HEADINGS, Fault, Reading
from botgrpo_cli.tasks.react.judges.verdicts import CodeVerdict, code_score
from botgrpo_cli.tasks.react.prompts import normalise

if TYPE_CHECKING:
    from botgrpo_cli.tasks.react.workers import CheckResult

# What each kind of fault leaves of the three parts. Faults that show nothing leave nothing.
_LEFT = {
    "undefined": {"validity": 0.2, "task": 0.4, "aesthetic": 0.4},
    "garbled": {"validity": 0.5, "task": 0.7, "aesthetic": 0.0},
    "repeat": {"validity": 1.0, "task": 0.7, "aesthetic": 0.3},
    "echo": {"validity": 1.0, "task": 0.8, "aesthetic": 0.5},
    "address": {"validity": 0.5, "task": 0.5, "aesthetic": 0.5},
    "directive": {"validity": 0.3, "task": 0.8, "aesthetic": 1.0},
    "placeholder": {"validity": 1.0, "task": 0.9, "aesthetic": 0.7},
    "hidden": {"validity": 1.0, "task": 1.0, "aesthetic": 0.5},
    "contrast": {"validity": 1.0, "task": 1.0, "aesthetic": 0.7},
}
# What intent is worth in code that does not compile. Reading broken code is guesswork: with 0.5, and lines blamed in it
# too, the judge's scatter drowned the compiler: after 24 steps 3 % of a tiny policy's answers compiled, so it is 34 %.
PROMISE = 0.2
_NEEDS_CONTROLS = re.compile(r"event:|element:(?:button|input|textarea|link)\Z|(?:select|checkbox|radio|slider|form)\Z")
_PAIRS = {")": "(", "]": "[", "}": "{"}


class HeuristicCodeJudge:
    """Implements `verdicts.CodeJudge`. The work is done in `executor`, beside the sampling."""

    def __init__(self, executor: Executor, errors: Errors, *, lines: bool) -> None:
        self._executor, self._errors, self._lines = executor, errors, lines

    def submit(self, prompt: Prompt, code: str, checked: CheckResult | None = None) -> Future[CodeVerdict]:
        return self._executor.submit(judge_code, prompt, code, checked, errors=self._errors, lines=self._lines)


def judge_code(
    prompt: Prompt, code: str, checked: CheckResult | None = None, *, errors: Errors = EXACT, lines: bool = True
) -> CodeVerdict:
    """The verdict on one source; `errors` are added last. When nobody checked it, brackets and tags that are not
    closed tell that it does not compile."""
    reading = Reading(code)
    found = faults(reading, prompt, undefined_lines(checked))
    component = reading.component
    markup = bool(reading.source.elements) or "createElement" in reading.masked
    not_react = not markup or (component is not None and component.literal)
    compiles = _whole(reading) if checked is None else checked.compiled
    parts = _parts(reading, prompt, found, compiles)
    key = ("code", prompt.id, code)
    blames = errors.lines(blamed(found), code, *key) if lines and compiles else ()
    return CodeVerdict(
        score=0.0 if not_react else errors.score(code_score(parts, not_react), *key),
        outcome="ok",
        parts=parts,
        not_react=not_react,
        lines=blames,
        text="heuristic: " + ("; ".join(f"line {f.line + 1}: {f.why}" for f in found[:MAX_LINES]) or "no fault found"),
    )


def undefined_lines(checked: CheckResult | None) -> list[int]:
    """Lines with a name that is defined nowhere: they compile, and throw when they are reached."""
    findings = checked.findings if checked else ()
    return [finding.line for finding in findings if finding.rule == "no-undef" and finding.line is not None]


def blamed(found: list[Fault]) -> tuple[LineBlame, ...]:
    """The worst faults as a judge's attribution."""
    return tuple(LineBlame(fault.line, fault.impact / TOP, fault.why) for fault in found[:MAX_LINES])


def _parts(reading: Reading, prompt: Prompt, found: list[Fault], compiles: bool) -> dict[str, float]:
    kinds = {fault.kind for fault in found}
    if kinds & FATAL:
        return {"validity": 0.0, "task": 0.0, "aesthetic": 0.0}
    visible, promise = visible_code(reading, prompt), 1.0 if compiles else PROMISE
    parts = {
        "validity": float(compiles) * (1.0 if reading.component else 0.5),
        "task": task_share(reading, prompt, visible) * promise,
        "aesthetic": _aesthetic(reading, prompt, visible) * promise,
    }
    for kind in sorted(kinds & _LEFT.keys()):
        parts = {name: value * _LEFT[kind][name] for name, value in parts.items()}
    return {name: round(value, 6) for name, value in parts.items()}


def _whole(reading: Reading) -> bool:
    """Whether brackets and elements are all closed."""
    open_brackets: list[str] = []
    for bracket in re.findall(r"[()\[\]{}]", reading.masked):
        if bracket in "([{":
            open_brackets.append(bracket)
        elif not open_brackets or open_brackets.pop() != _PAIRS[bracket]:
            return False
    return not open_brackets and all(element.closed for element in reading.source.elements)


def task_share(reading: Reading, prompt: Prompt, visible: str) -> float:
    """Share of what was asked for that the visible part of the source holds; controls that do nothing count little."""
    share = content_share(visible, prompt.asks) if prompt.asks else _words_share(visible, prompt)
    controls = [live for _, live in reading.controls]
    return share * (0.4 + 0.6 * sum(controls) / len(controls)) if controls else share


def _words_share(visible: str, prompt: Prompt) -> float:
    """For a request without asks: how many of its words can be read, three of them being enough."""
    wanted = set(normalise(prompt.text).split())
    return min(1.0, len(wanted & scan(visible).words) / max(1, min(3, len(wanted))))


def _aesthetic(reading: Reading, prompt: Prompt, visible: str) -> float:
    """Mean of five signs that an interface was meant: a heading, structure, text, style, controls that work."""
    shown = reading.shown
    controls = [live for _, live in reading.controls]
    wants_controls = any(_NEEDS_CONTROLS.match(ask) for ask in prompt.asks)
    styled = {element.start for element, look in reading.looks if look.styled}
    signs = (
        float(any(element.name in HEADINGS for element in shown)),
        min(1.0, len(shown) / 4),
        min(1.0, len(scan(visible).words) / 4),
        min(1.0, 3 * sum(element.start in styled for element in shown) / max(1, len(shown))),
        sum(controls) / len(controls) if controls else float(not wants_controls),
    )
    return sum(signs) / len(signs)
