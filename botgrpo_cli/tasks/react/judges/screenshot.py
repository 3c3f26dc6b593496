"""The screenshot judge over a vision model, in the paper's three protocols.

- `global`: request and screenshot, no source; a score.
- `local-1turn`: screenshot and numbered source in one call; score and up to three lines.
- `local-2turn`: the call of `global` fixes the score, a second one gets the source and names lines. The second can't
  change the score, for its schema has none.
"""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from botgrpo_cli.futures import ready, then
from botgrpo_cli.judges import schemas
from botgrpo_cli.judges.base import Ask, Image, Judge, Reply
from botgrpo_cli.judges.blames import TOP, line_blames, require_whole, whole
from botgrpo_cli.judges.prompting import fenced, numbered, template
from botgrpo_cli.tasks.base import Prompt
from botgrpo_cli.tasks.react.judges.verdicts import ScreenVerdict, shows_nothing

if TYPE_CHECKING:
    from botgrpo_cli.tasks.react.render import Rendered

Mode = Literal["global", "local-1turn", "local-2turn"]


class ModelScreenJudge:
    """Implements `verdicts.ScreenJudge`: one call a sample, two with `local-2turn`."""

    def __init__(self, judge: Judge, mode: Mode) -> None:
        self._judge, self._mode = judge, mode

    def submit(self, prompt: Prompt, code: str, rendered: Rendered) -> Future[ScreenVerdict]:
        if nothing := shows_nothing(rendered):
            return ready(nothing)
        picture = Image(rendered.screenshot)
        if self._mode == "local-1turn":
            asking = self._judge.submit(both_ask(prompt, code, picture))
            return then(asking, lambda reply: screen_verdict(reply, code))
        asking = self._judge.submit(score_ask(prompt, picture))
        if self._mode == "global":
            return then(asking, lambda reply: screen_verdict(reply, code))

        def second_turn(reply: Reply) -> ScreenVerdict | Future[ScreenVerdict]:
            locked = screen_verdict(reply, code)
            if locked.outcome != "ok":  # no score, so nothing to attribute
                return locked
            return then(
                self._judge.submit(blame_ask(prompt, code, picture, reply.value)),
                lambda blame: with_blame(locked, blame, code),
            )

        return then(asking, second_turn)


def score_ask(prompt: Prompt, picture: Image) -> Ask:
    """The global protocol, and the first of two turns: no source."""
    words = template("screenshot")
    parts = words.parts(request=prompt.text, screenshot=picture)
    return Ask(words.system, parts, schemas.SCREEN, words.name, check=check_score)


def both_ask(prompt: Prompt, code: str, picture: Image) -> Ask:
    """The one-turn protocol: screenshot and source."""
    words = template("screenshot-lines")
    parts = words.parts(request=prompt.text, screenshot=picture, source=fenced(numbered(code), "SOURCE"))
    return Ask(words.system, parts, schemas.SCREEN_LINES, words.name, check=check_score)


def blame_ask(prompt: Prompt, code: str, picture: Image, first: dict) -> Ask:
    """The second of two turns: what the first one said stands in the message, because a call has one message."""
    words = template("screenshot-blame")
    parts = words.parts(
        request=prompt.text,
        screenshot=picture,
        score=str(whole(first["score"])),
        why=fenced(str(first.get("why") or ""), "REASON"),
        source=fenced(numbered(code), "SOURCE"),
    )
    return Ask(words.system, parts, schemas.BLAME, words.name)


def check_score(value: dict) -> None:
    """Raises ValueError when there is no score from 0 to 10."""
    require_whole(value, "score")


def screen_verdict(reply: Reply, code: str) -> ScreenVerdict:
    """Score 0 and no lines for a failed call (paper)."""
    if reply.outcome != "ok" or reply.value is None:
        return ScreenVerdict(0.0, reply.outcome, text=reply.text)
    lines, dropped = line_blames(reply.value.get("lines"), code.count("\n") + 1)
    return ScreenVerdict(whole(reply.value["score"]) / TOP, "ok", lines, dropped, text=reply.text)


def with_blame(locked: ScreenVerdict, blame: Reply, code: str) -> ScreenVerdict:
    """The second turn adds lines and nothing else; when it failed the score stays and no line is blamed."""
    lines, dropped = (), 0
    if blame.outcome == "ok" and blame.value is not None:
        lines, dropped = line_blames(blame.value.get("lines"), code.count("\n") + 1)
    text = f"{locked.text}\n{blame.text}"
    return replace(locked, lines=lines, dropped=dropped, lines_outcome=blame.outcome, text=text)
