"""Answers of two sides, drawn and judged pair by pair."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, as_completed
from dataclasses import dataclass
from typing import Any

from botgrpo_cli.futures import ready, then
from botgrpo_cli.judges.pairwise import App, Drawn, PairJudge, PairResult, submit_pair
from botgrpo_cli.tasks.base import Prompt
from botgrpo_cli.winrate.contender import Entry, Renderer


@dataclass(frozen=True)
class Pair:
    """One prompt: what both sides wrote, what it looks like, and what the judge said."""

    prompt: Prompt
    entries: tuple[Entry, Entry]
    apps: tuple[App, App]
    result: PairResult


def compare(
    prompts: Sequence[Prompt],
    a: Mapping[str, Entry],
    b: Mapping[str, Entry],
    judge: PairJudge,
    renderer: Renderer | None,
    *,
    done: Callable[[PairResult], None] = lambda _: None,
) -> list[Pair]:
    """Draws what compiles (when there is a `renderer`) and has the judge compare; in the order of `prompts`.

    Drawing and judging overlap, over all pairs; `done` hears of each pair as it is decided. Raises RunError when the
    judge is out of reach or the browser does not start.
    """

    def judged(prompt: Prompt) -> Future[Pair]:
        entries = (a[prompt.id], b[prompt.id])
        pages = [_draw(entry, renderer) for entry in entries]

        def drawn(first: Drawn | None, second: Drawn | None) -> Future[Pair]:
            apps = (App(entries[0].code, first), App(entries[1].code, second))
            return then(submit_pair(judge, prompt, *apps), lambda result: Pair(prompt, entries, apps, result))

        return then(pages[0], lambda first: then(pages[1], lambda second: drawn(first, second)))

    futures = [judged(prompt) for prompt in prompts]
    for future in as_completed(set(futures)):
        done(future.result().result)
    return [future.result() for future in futures]


def _draw(entry: Entry, renderer: Renderer | None) -> Future[Any]:
    if renderer is None or entry.code is None:
        return ready(None)
    return renderer.submit(entry.code, entry.language)


def state(entry: Entry, app: App) -> str:
    """What became of one app, in a sentence for people; "" when it is shown."""
    if entry.problem:
        return entry.problem
    if app.rendered is None or app.rendered.outcome == "drawn":
        return ""
    words = {"blank": "The page is blank", "error": "It throws", "timeout": "It hangs", "crashed": "It crashes"}
    return f"{words[app.rendered.outcome]}: {app.rendered.why}".rstrip(": ")
