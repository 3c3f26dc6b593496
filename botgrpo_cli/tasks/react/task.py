"""The React task: briefs in; completions compiled, linted, drawn and judged, scored, with line-level blame."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from botgrpo_cli.futures import Once, ready, then, worded
from botgrpo_cli.recipe.schema import Recipe
from botgrpo_cli.tasks.base import Clash, Completion, Prompt, Say, Scored, Split, Task
from botgrpo_cli.tasks.needs import Finding, Part
from botgrpo_cli.tasks.react import checks
from botgrpo_cli.tasks.react.content import content_share
from botgrpo_cli.tasks.react.extract import Extracted, extract
from botgrpo_cli.tasks.react.feedback import Feedback
from botgrpo_cli.tasks.react.judges.registry import make_judges
from botgrpo_cli.tasks.react.judges.verdicts import CodeVerdict, ScreenVerdict
from botgrpo_cli.tasks.react.keys import RewardConfig, TaskConfig
from botgrpo_cli.tasks.react.prompts import load_prompts
from botgrpo_cli.tasks.react.score import FACTS, TERMS, score
from botgrpo_cli.tasks.react.toolchain import toolchain_versions
from botgrpo_cli.tasks.react.workers import CheckResult, Diagnostic, ReactChecker

if TYPE_CHECKING:
    from botgrpo_cli.judges.base import Judge, Reply
    from botgrpo_cli.tasks.react.compare import AppComparison
    from botgrpo_cli.tasks.react.render import ReactRenderer, Rendered

RENDERED = ("blank_rate", "hollow_rate")  # metrics of pages
REMEMBERED = 1024  # verdicts; the rollouts of a group often hold the same code
Seen = tuple["Rendered | None", ScreenVerdict | None]


class ReactTask(Task):
    """Installs the toolchain if need be (`progress` gets a sentence or two) and starts the workers at once, so that
    they boot while the policy loads. Judges are probed, and a browser started, only when the recipe wants them. Raises
    InputError when something of that is not possible. Futures of `submit` raise
    RunError when the tools are broken or the judge is out of reach.
    """

    name = "react"
    headline = "compile_rate"
    keys, rewards = TaskConfig, RewardConfig
    free_keys = ("workers",)
    prompt_keys = ("prompts",)

    @classmethod
    def clashes(cls, recipe: Recipe) -> Iterator[Clash]:
        return checks.clashes(recipe)

    @classmethod
    def prompt_set(cls, recipe: Recipe) -> tuple[str, str]:
        return "task.prompts", recipe.task.prompts

    @classmethod
    def counts(cls, recipe: Recipe) -> tuple[int, int]:
        return checks.prompt_counts(recipe.task.prompts)

    @classmethod
    def metrics(cls, recipe: Recipe) -> tuple[str, ...]:
        judged = (f"judge_{name}_score" for name in ("code", "vlm"))
        terms = (f"term_{name}" for name in (*TERMS, "code_judge", "vlm"))
        return (*FACTS, *RENDERED, *judged, *terms)

    @classmethod
    def why_not(cls, recipe: Recipe, metric: str) -> str:
        if metric in RENDERED and not recipe.reward.vlm.rendered:
            return "it is logged only where pages are drawn, which needs reward.vlm.measure: true"
        return ""

    @classmethod
    def needs(cls, recipe: Recipe) -> Iterator[str]:
        yield "Node"
        if recipe.reward.vlm.rendered:
            yield "Chromium"
        if cls.asks(recipe):
            yield f"a judge ({recipe.judge.kind})"

    @classmethod
    def asks(cls, recipe: Recipe) -> dict[str, int]:
        """The screenshot judge is asked only for code that compiles and shows something."""
        vlm, each = recipe.reward.vlm, {}
        if recipe.reward.code_judge.on:
            each["reward.code_judge"] = 1
        if vlm.judged:
            each["reward.vlm"] = 2 if vlm.mode == "local-2turn" else 1
        return each

    @classmethod
    def sample(cls, judge: Judge) -> tuple[Reply, str]:
        from botgrpo_cli.tasks.react.judges.sample import ask_sample

        return ask_sample(judge)

    @classmethod
    def findings(cls) -> Iterator[Finding]:
        from botgrpo_cli.tasks.react.toolchain import findings

        return findings()

    @classmethod
    def parts(cls) -> Iterator[Part]:
        from botgrpo_cli.tasks.react.toolchain import ensure_toolchain

        yield Part("react", "The compiler and the linter of the React task", ensure_toolchain)

    @classmethod
    def comparison(cls, recipe: Recipe) -> AppComparison:
        from botgrpo_cli.tasks.react.compare import AppComparison

        return AppComparison(recipe)

    @classmethod
    def start(cls, recipe: Recipe, say: Say) -> ReactTask:
        say("Starting the compiler and the linter.")
        return cls(recipe, say)

    def __init__(self, recipe: Recipe, progress: Callable[[str], None] | None = None) -> None:
        self._task, self._reward = recipe.task, recipe.reward
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
