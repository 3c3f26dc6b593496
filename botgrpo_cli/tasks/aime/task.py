"""The AIME task: problems in; completions graded, their steps judged, scored, with step-level blame."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import cached_property
from typing import Any

from botgrpo_cli.futures import ready, then, worded
from botgrpo_cli.recipe.checks import check_counts
from botgrpo_cli.recipe.schema import Recipe
from botgrpo_cli.tasks.aime.answer import grade
from botgrpo_cli.tasks.aime.judge import make_step_judge
from botgrpo_cli.tasks.aime.score import Facts, score
from botgrpo_cli.tasks.aime.sources import GENERATED, ProblemSet, load_set
from botgrpo_cli.rewards.steps import step_texts, steps_and_tokens
from botgrpo_cli.tasks.aime.verdicts import Judged, judge_steps
from botgrpo_cli.tasks.base import Completion, Prompt, Scored, Split
from botgrpo_cli.tiny.chains import Chain


class AimeTask:
    """Implements `tasks.base.Task`.

    Probes the step judge at once and raises InputError when it can't be called; problems are loaded when they are asked
    for first. Grading and exact judging take about a tenth of a millisecond a step and are done in the thread that
    submits; a model judge is waited for elsewhere. Futures of `submit` raise RunError when the judge is out of reach.
    """

    name = "aime"
    headline = "solved"

    def __init__(self, recipe: Recipe, progress: Callable[[str], None] | None = None) -> None:
        self._say = progress or (lambda _: None)
        self._recipe, self._reward = recipe, recipe.reward
        self._generated = GENERATED.get(recipe.task.problems.source)
        steps = recipe.reward.steps
        self._values = {"correct": steps.correct, "uncertain": steps.uncertain, "incorrect": steps.incorrect}
        with ExitStack() as opened:
            self._judge = make_step_judge(recipe, self._say)
            if self._judge:
                opened.callback(self._judge.close)
            self._opened = opened.pop_all()

    @property
    def _loaded(self) -> bool:
        """A file of completions may bring its own problems, so that those of the recipe are never read."""
        return "_set" in self.__dict__

    @cached_property
    def _set(self) -> ProblemSet:
        self._say(f"Loading the problems of {self._recipe.task.problems.source}.")
        return load_set(self._recipe.task.problems)

    @cached_property
    def _prompts(self) -> dict[Split, list[Prompt]]:
        found = {split: self._instructed(prompts) for split, prompts in self._set.prompts.items()}
        check_counts(self._recipe, train=len(found["train"]), held_out=len(found["held-out"]))
        return found

    @cached_property
    def _held_out(self) -> set[str]:
        return {prompt.id for prompt in self._prompts["held-out"]}

    def _instructed(self, problems: Sequence[Prompt]) -> list[Prompt]:
        # str.replace and not str.format: problems are full of braces.
        instruction = self._recipe.task.instruction
        return [replace(problem, text=instruction.replace("{problem}", problem.text)) for problem in problems]

    def prompts(self, split: Split) -> Sequence[Prompt]:
        """The problems of a split with the instruction around them; `asks` are the golds.

        Raises InputError: they can't be read, or are fewer than the recipe takes.
        """
        return self._prompts[split]

    def submit(self, completion: Completion) -> Future[Scored]:
        """Grades at once, has the steps judged, then scores. ValueError for a prompt without golds."""
        pieces = completion.pieces
        steps = steps_and_tokens(pieces, at=self._reward.steps.boundary)
        golds = frozenset(int(gold) for gold in completion.prompt.asks)
        facts = Facts(grade(completion.text, golds), steps, step_texts(pieces, steps.spans), golds)
        if chain := self._chain(completion.prompt):
            whole = self._generated.complete(chain, completion.text)
            facts = replace(facts, complete=whole, length=len(chain.operations) + 1)
        return then(
            self._judged(completion.prompt, facts.texts),
            lambda judged: self._score(completion, facts, judged),
        )

    def _chain(self, prompt: Prompt) -> Chain | None:
        """What a generated problem calculates; None for any other, such as one of a file of completions."""
        if self._generated:
            with suppress(ValueError):
                return self._generated.read(prompt.text)
        return None

    def _judged(self, prompt: Prompt, texts: Sequence[str]) -> Future[Judged | None]:
        """Verdicts on the steps; None where nobody is asked."""
        judge, steps = self._judge, self._reward.steps
        if judge is None or (judge.exact and not self._chain(prompt)):
            return ready(None)
        if not judge.exact and not steps.measure and prompt.id in self._held_out:
            return ready(None)
        judging = judge_steps(
            texts, judge.about(prompt.text), window=steps.window, strategy=steps.strategy, values=self._values
        )
        return worded(judging, "The AIME task was closed while steps were waiting to be judged.")

    def _score(self, completion: Completion, facts: Facts, judged: Judged | None) -> Scored:
        label = self._judge.label if self._judge else ""
        return score(completion, replace(facts, judged=judged, label=label), self._reward)

    def versions(self) -> dict[str, str]:
        return self._set.versions if self._loaded else {}

    def counters(self) -> dict[str, float | None]:
        """A model judge's counters as `judge_calls`, `judge_ok` and so on; nothing without one."""
        return {f"judge_{name}": value for name, value in self._judge.counters().items()} if self._judge else {}

    def provenance(self) -> dict[str, Any]:
        """Also `problems`: the source, and what became of its rows."""
        found = {"heuristic": [], "simulated": self._judge.simulated if self._judge else []}
        found |= {"problems": self._set.counts} if self._loaded else {}
        return found | ({"judge": self._judge.describe()} if self._judge else {})

    def close(self) -> None:
        """Ends the judge; samples still waiting raise RunError. Safe to call twice."""
        self._opened.close()

    def __enter__(self) -> AimeTask:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
