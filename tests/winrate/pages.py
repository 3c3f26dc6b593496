"""Sides and pairs without a policy or a browser."""

from __future__ import annotations

from typing import Any

from botgrpo_cli.judges.pairwise import App, PairResult, Round
from botgrpo_cli.tasks.base import Prompt
from botgrpo_cli.tasks.react.render import Rendered
from botgrpo_cli.winrate.contender import Entry
from botgrpo_cli.winrate.contest import Pair

PICTURE = b"\x89PNG one"


class StandIn:
    """A side whose apps are given."""

    def __init__(self, name: str, steps=(None,), prompts=("p1", "p2", "p3"), files=None, method="", count=None) -> None:
        self.name, self.steps, self.count = name, steps, count
        self.labels = {"method": method, "base_model": "m", "scale": "tiny", "seed": "0"}
        self.judge: dict[str, Any] = {}
        self.run = None
        self._prompts, self._files = prompts, set(prompts if files is None else files)
        self.asked: list[int | None] = []

    def has(self, prompt):
        return prompt in self._files

    def prompts(self):
        return [Prompt(name, f"Brief {name}", "easy") for name in self._prompts]

    def entries(self, prompts, step, tick):
        self.asked.append(step)
        for _ in prompts:
            tick()
        return {prompt.id: Entry(f"code of {self.name} {step} {prompt.id}", "jsx", "") for prompt in prompts}


def pair(share, *, votes="AABB", name="p1", brief="Brief", sources=("a", "b"), problem="") -> Pair:
    """A drawn pair; with a `problem` B has nothing to show and loses by forfeit."""
    rounds = tuple(
        Round(order, vote, "ok", "words") for order, vote in zip(("AB", "BA", "BA", "AB"), votes, strict=True)
    )
    page = Rendered("drawn", screenshot=PICTURE)
    entries = (Entry(sources[0], "jsx", ""), Entry(sources[1], "jsx", problem))
    apps = (App(entries[0].code, page), App(entries[1].code, None if problem else page))
    result = PairResult(name, share, () if problem else rounds, forfeit=bool(problem))
    return Pair(Prompt(name, brief, "easy"), entries, apps, result)
