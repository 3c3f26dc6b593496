"""The code judge over a model: validity, task and aesthetic intent from the source alone (paper, reward design).

With `lines` the same call also names up to three lines with their impact (paper). Prompts, scale and the shares of the
three parts are our choice.
"""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING

from botgrpo_cli.futures import then
from botgrpo_cli.judges import schemas
from botgrpo_cli.judges.base import Ask, Judge, Reply
from botgrpo_cli.judges.blames import TOP, line_blames, require_whole, whole
from botgrpo_cli.judges.prompting import fenced, numbered, template
from botgrpo_cli.tasks.base import Prompt
from botgrpo_cli.tasks.react.judges.verdicts import PART_SHARES, CodeVerdict, code_score

if TYPE_CHECKING:
    from botgrpo_cli.tasks.react.workers import CheckResult


class ModelCodeJudge:
    """Implements `verdicts.CodeJudge`: one call a sample."""

    def __init__(self, judge: Judge, *, lines: bool) -> None:
        self._judge, self._lines = judge, lines

    def submit(self, prompt: Prompt, code: str, checked: CheckResult | None = None) -> Future[CodeVerdict]:
        return then(self._judge.submit(code_ask(prompt, code, lines=self._lines)), lambda r: code_verdict(r, code))


def code_ask(prompt: Prompt, code: str, *, lines: bool) -> Ask:
    """The call about one source; with `lines` it is numbered and the reply may blame lines."""
    words = template("code-lines" if lines else "code")
    source = fenced(numbered(code) if lines else code, "SOURCE")
    return Ask(
        system=words.system,
        parts=words.parts(request=prompt.text, source=source),
        schema=schemas.CODE_LINES if lines else schemas.CODE,
        template=words.name,
        check=check_code,
    )


def check_code(value: dict) -> None:
    """Raises ValueError for what makes a verdict malformed. Attribution entries are not among it: each stands alone."""
    require_whole(value, *PART_SHARES)
    if not isinstance(value.get("not_react"), bool):
        raise ValueError(f"'not_react' is {value.get('not_react')!r:.60}; expected true or false.")


def code_verdict(reply: Reply, code: str) -> CodeVerdict:
    """From the reply's keys to a verdict; score 0 and no lines for a failed call (paper)."""
    if reply.outcome != "ok" or reply.value is None:
        return CodeVerdict(0.0, reply.outcome, text=reply.text)
    value = reply.value
    parts = {name: whole(value[name]) / TOP for name in PART_SHARES}
    lines, dropped = line_blames(value.get("lines"), code.count("\n") + 1)
    return CodeVerdict(
        score=code_score(parts, value["not_react"]),
        outcome="ok",
        parts=parts,
        not_react=value["not_react"],
        lines=lines,
        dropped=dropped,
        text=reply.text,
    )
