"""The React task: briefs in; completions compiled, linted, drawn and judged, scored, with line-level blame."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from botgrpo_cli.errors import InputError
from botgrpo_cli.futures import Once, ready, then, worded
from botgrpo_cli.judges.registry import make_judges
from botgrpo_cli.judges.verdicts import CodeVerdict, ScreenVerdict
from botgrpo_cli.recipe.schema import Recipe
from botgrpo_cli.tasks.base import Completion, Prompt, Scored, Split
from botgrpo_cli.tasks.react.content import content_share
from botgrpo_cli.tasks.react.extract import Extracted, extract
from botgrpo_cli.tasks.react.feedback import Feedback
from botgrpo_cli.tasks.react.prompts import load_prompts
from botgrpo_cli.tasks.react.score import score
from botgrpo_cli.tasks.react.toolchain import toolchain_versions
from botgrpo_cli.tasks.react.workers import CheckResult, Diagnostic, ReactChecker

if TYPE_CHECKING:
    from botgrpo_cli.tasks.react.render import ReactRenderer, Rendered

REMEMBERED = 1024  # verdicts; the rollouts of a group often hold the same code
Seen = tuple["Rendered | None", ScreenVerdict | None]


class ReactTask:
    """Implements `tasks.base.Task`.

    Installs the toolchain if need be (`progress` gets a sentence or two) and starts the workers at once, so that
    they boot while the policy loads. Judges are probed, and a browser started, only when the recipe wants them. Raises
    InputError when something of that is not possible or the instruction has no `{brief}`. Futures of `submit` raise
    RunError when the tools are broken or the judge is out of reach.
    """

    name = "react"
    headline = "compile_rate"

    def __init__(self, recipe: Recipe, progress: Callable[[str], None] | None = None) -> None:
        self._task, self._reward = recipe.task, recipe.reward
        if "{brief}" not in self._task.instruction:
            raise InputError(
                "task.instruction does not contain '{brief}', the place for the text of a prompt: every prompt would "
                "be the same."
            )
        with ExitStack() as opened:  # what is open already is closed again when the next one fails
            self._judges = make_judges(recipe, progress or (lambda _: None))
            opened.callback(self._judges.close)
            self._renderer = self._start_browser(progress) if self._reward.vlm.rendered else None
            if self._renderer:
                opened.callback(self._renderer.close)
            self._checker = ReactChecker(self._task.workers, self._task.timeout, progress)
            opened.callback(self._checker.close)  # the first to be closed: nothing goes on from it then
            self._opened = opened.pop_all()
        self._code_verdicts: Once[CodeVerdict] = Once(REMEMBERED, lambda verdict: verdict.outcome == "ok")
        self._screen_verdicts: Once[ScreenVerdict] = Once(REMEMBERED, lambda verdict: verdict.outcome in ("ok", None))

    def _start_browser(self, progress: Callable[[str], None] | None) -> ReactRenderer:
        from botgrpo_cli.tasks.react.render import ReactRenderer

        return ReactRenderer(pages=max(2, self._task.workers), progress=progress)

    def prompts(self, split: Split) -> Sequence[Prompt]:
        """The prompts of the recipe's set with the instruction around them."""
        # str.replace and not str.format: briefs and instructions may hold braces.
        instruction = self._task.instruction
        briefs = load_prompts(self._task.prompts, split)
        return [replace(brief, text=instruction.replace("{brief}", brief.text)) for brief in briefs]

    def submit(self, completion: Completion) -> Future[Scored]:
        """Scores in the background; completions with the same code are checked, drawn and judged once."""
        found = extract(completion.text)
        if found.code is None:
            scoring = then(ready(CheckResult()), lambda nothing: self._score(completion, found, nothing))
        elif found.refusal is not None:
            refused = CheckResult(errors=(Diagnostic(found.refusal.line, "refused", found.refusal.message),))
            scoring = then(ready(refused), lambda result: self._score(completion, found, result))
        else:
            scoring = self._examine(completion, found, found.code)
        return worded(scoring, "The React task was closed while samples were waiting to be checked.")

    def _examine(self, completion: Completion, found: Extracted, code: str) -> Future[Scored]:
        """What compiles is drawn and judged by its picture, while the code judge reads the source."""
        prompt = completion.prompt

        def checked(result: CheckResult) -> Future[Scored]:
            judging = self._judge_code(prompt, code, result)
            looking = self._look(prompt, code, result)
            return then(looking, lambda seen: then(judging, lambda verdict: scored(result, seen, verdict)))

        def scored(result: CheckResult, seen: Seen, verdict: CodeVerdict | None) -> Scored:
            said = Feedback(verdict, seen[1], seen[0], self._judges.label, self._judges.offline)
            return self._score(completion, found, result, said)

        return then(self._checker.submit(code), checked)

    def _judge_code(self, prompt: Prompt, code: str, result: CheckResult) -> Future[CodeVerdict | None]:
        """The verdict on the source, whether it compiles or not; what crashed the tools counts for nothing."""
        judge = self._judges.code
        if judge is None or result.crashed:
            return ready(None)
        return self._code_verdicts.get((prompt.id, code), lambda: judge.submit(prompt, code, result))

    def _look(self, prompt: Prompt, code: str, result: CheckResult) -> Future[Seen]:
        """The page and the verdict on it; code that does not compile has neither."""
        if self._renderer is None or not result.compiled:
            return ready((None, None))
        judge = self._judges.screen

        def drawn(page: Rendered) -> Seen | Future[Seen]:
            if judge is None:
                return page, None
            judging = self._screen_verdicts.get((prompt.id, code), lambda: judge.submit(prompt, code, page))
            return then(judging, lambda verdict: (page, verdict))

        return then(self._renderer.submit(code, result.language), drawn)

    def _score(
        self, completion: Completion, found: Extracted, result: CheckResult, said: Feedback | None = None
    ) -> Scored:
        share = 0.0
        if result.compiled and found.code and completion.prompt.asks:
            share = content_share(found.code, completion.prompt.asks)
        said = said or Feedback(label=self._judges.label, offline=self._judges.offline)
        return score(completion, found, result, self._reward, share, said)

    def versions(self) -> dict[str, str]:
        return toolchain_versions() | (self._renderer.versions() if self._renderer else {})

    def counters(self) -> dict[str, float | None]:
        """The judges' counters as `judge_calls`, `judge_ok` and so on; nothing without a judge."""
        return {f"judge_{name}": value for name, value in self._judges.counters().items()}

    def provenance(self) -> dict[str, Any]:
        heuristic = ["reward.content"] if self._reward.content.weight else []
        heuristic += self._judges.heuristic
        heuristic += ["hollow_rate"] if self._reward.vlm.rendered else []
        found = {"heuristic": heuristic, "simulated": self._judges.simulated}
        return found | ({"judge": self._judges.describe()} if self._judges.label else {})

    def close(self) -> None:
        """Ends workers, browser and judges; samples still waiting raise RunError. Safe to call twice."""
        self._opened.close()

    def __enter__(self) -> ReactTask:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
