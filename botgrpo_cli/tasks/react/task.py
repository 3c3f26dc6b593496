"""The React task: briefs in; completions compiled and linted by the real tools, scored, with line-level blame."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import replace

from botgrpo_cli.errors import InputError, RunError
from botgrpo_cli.recipe.schema import Recipe
from botgrpo_cli.tasks.base import Completion, Prompt, Scored, Split
from botgrpo_cli.tasks.react.content import content_share
from botgrpo_cli.tasks.react.extract import Extracted, extract
from botgrpo_cli.tasks.react.prompts import load_prompts
from botgrpo_cli.tasks.react.score import score
from botgrpo_cli.tasks.react.toolchain import toolchain_versions
from botgrpo_cli.tasks.react.workers import CheckResult, Diagnostic, ReactChecker


class ReactTask:
    """Implements `tasks.base.Task`.

    Installs the toolchain if need be (`progress` gets a sentence or two) and starts the workers at once, so that
    they boot while the policy loads. Raises InputError when that is not possible or the instruction has no
    `{brief}`. Futures of `submit` raise RunError when the tools are broken.
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
        self._checker = ReactChecker(self._task.workers, self._task.timeout, progress)

    def prompts(self, split: Split) -> Sequence[Prompt]:
        """The prompts of the recipe's set with the instruction around them."""
        # str.replace and not str.format: briefs and instructions may hold braces.
        instruction = self._task.instruction
        briefs = load_prompts(self._task.prompts, split)
        return [replace(brief, text=instruction.replace("{brief}", brief.text)) for brief in briefs]

    def submit(self, completion: Completion) -> Future[Scored]:
        """Scores in the background; completions with the same code are checked once."""
        answer: Future[Scored] = Future()
        answer.set_running_or_notify_cancel()
        found = extract(completion.text)
        if found.code is None:
            _settle(answer, lambda: self._score(completion, found, CheckResult()))
        elif found.refusal is not None:
            refused = CheckResult(errors=(Diagnostic(found.refusal.line, "refused", found.refusal.message),))
            _settle(answer, lambda: self._score(completion, found, refused))
        else:
            checking = self._checker.submit(found.code)
            checking.add_done_callback(
                lambda done: _settle(answer, lambda: self._score(completion, found, done.result()))
            )
        return answer

    def _score(self, completion: Completion, found: Extracted, result: CheckResult) -> Scored:
        share = 0.0
        if result.compiled and found.code and completion.prompt.asks:
            share = content_share(found.code, completion.prompt.asks)
        return score(completion, found, result, self._reward, share)

    def versions(self) -> dict[str, str]:
        return toolchain_versions()

    def close(self) -> None:
        """Ends the workers; samples still waiting raise RunError."""
        self._checker.close()

    def __enter__(self) -> ReactTask:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _settle(answer: Future[Scored], work: Callable[[], Scored]) -> None:
    """Whatever happens in a callback must reach the waiting caller: executors swallow it otherwise."""
    try:
        answer.set_result(work())
    except CancelledError:
        answer.set_exception(RunError("The React task was closed while samples were waiting to be checked."))
    except BaseException as problem:
        answer.set_exception(problem)
