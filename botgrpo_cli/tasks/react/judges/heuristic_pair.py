"""The offline pairwise judge: the app with the better heuristic score wins, a small difference is a tie."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

from botgrpo_cli.futures import Once, ready
from botgrpo_cli.judges.pairwise import App, Choice
from botgrpo_cli.judges.simulate import EXACT, Errors
from botgrpo_cli.tasks.base import Prompt
from botgrpo_cli.tasks.react.judges.heuristic import judge_code
from botgrpo_cli.tasks.react.judges.heuristic_screen import judge_screen

REMEMBERED = 256  # scores; each app stands in four rounds
MARGIN = 0.02  # differences below this are a tie


class HeuristicPairJudge:
    """Implements `pairwise.PairJudge`: by the screenshot score when it `looks`, else by the code score."""

    def __init__(self, errors: Errors = EXACT, *, looks: bool) -> None:
        self.looks, self._errors = looks, errors
        self.shown = "screenshots" if looks else "sources"
        self.label = "simulated" if errors.named() else "heuristic"
        self._scores: Once[float] = Once(REMEMBERED)

    def submit(self, prompt: Prompt, first: App, second: App, *, round: int) -> Future[Choice]:
        key = (prompt.id, first.code or "", second.code or "", str(round))
        difference = self._errors.difference(self._score(prompt, first) - self._score(prompt, second), *key)
        if abs(difference) < MARGIN:
            return ready(Choice("tie", "ok", "heuristic"))
        wins = (difference > 0) != self._errors.flips(*key)
        return ready(Choice("first" if wins else "second", "ok", f"heuristic: {difference:+.3f}"))

    def counters(self) -> dict[str, float | None]:
        return {}

    def describe(self) -> dict[str, Any]:
        return {"kind": self.label, "errors": self._errors.named()}

    def close(self) -> None:
        pass

    def _score(self, prompt: Prompt, app: App) -> float:
        return self._scores.get((prompt.id, app), lambda: ready(self._fresh_score(prompt, app))).result()

    def _fresh_score(self, prompt: Prompt, app: App) -> float:
        if self.looks:
            return judge_screen(prompt, app.code or "", app.rendered).score
        return judge_code(prompt, app.code or "", lines=False).score
