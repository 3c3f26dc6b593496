"""The AIME task: problems in; completions graded, their steps judged, scored, with step-level blame."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import cached_property
from typing import Any

from botgrpo_cli.futures import ready, then, worded
from botgrpo_cli.recipe.checks import check_counts
from botgrpo_cli.recipe.schema import Recipe
from botgrpo_cli.rewards.steps import MOST_STEPS, step_texts, steps_and_tokens
from botgrpo_cli.tasks.aime import checks
from botgrpo_cli.tasks.aime.answer import grade
from botgrpo_cli.tasks.aime.data import ANSWER_COLUMNS, Problem, text_key
from botgrpo_cli.tasks.aime.gold import parse_gold
from botgrpo_cli.tasks.aime.judge import check_judge, make_step_judge
from botgrpo_cli.tasks.aime.keys import RewardConfig, TaskConfig
from botgrpo_cli.tasks.aime.score import Facts, score
from botgrpo_cli.tasks.aime.sources import GENERATED, ProblemSet, known_counts, load_set
from botgrpo_cli.tasks.aime.verdicts import Judged, judge_steps
from botgrpo_cli.tasks.base import Clash, Completion, Prompt, Say, Scored, Split, Task
from botgrpo_cli.tiny.chains import Chain


class AimeTask(Task):
    """Probes the step judge at once and raises InputError when it can't be called; problems are loaded when they are
    asked for first. Grading and exact judging take about a tenth of a millisecond a step and are done in the thread
    that submits; a model judge is waited for elsewhere. Futures of `submit` raise RunError when the judge is out of
    reach.
    """

    name = "aime"
    headline = "solved"
    keys, rewards = TaskConfig, RewardConfig
    prompt_keys = ("problems",)
    pass_at = (1, 2, 4)  # paper
    answer_columns = ANSWER_COLUMNS

    @classmethod
    def clashes(cls, recipe: Recipe) -> Iterator[Clash]:
        return checks.clashes(recipe)

    @classmethod
    def prompt_set(cls, recipe: Recipe) -> tuple[str, str]:
        return "task.problems.source", recipe.task.problems.source

    @classmethod
    def counts(cls, recipe: Recipe) -> tuple[int, int] | None:
        return known_counts(recipe.task.problems)

    @classmethod
    def require(cls, recipe: Recipe) -> None:
        check_judge(recipe)

    @classmethod
    def for_evaluation(cls, recipe: Recipe) -> Recipe:
        """Without a model that judges steps, unless it is to measure them: so an evaluation needs no server."""
        steps = recipe.reward.steps
        if recipe.judge.kind == "exact" or steps.measure:
            return recipe
        reward = recipe.reward.model_copy(update={"steps": steps.model_copy(update={"strategy": "none"})})
        return recipe.model_copy(update={"reward": reward})

    @classmethod
    def metrics(cls, recipe: Recipe) -> tuple[str, ...]:
        statuses = (f"status_{name}" for name in ("no_box", "unclosed", "not_int", "multi"))
        passed = (f"pass@{k}" for k in (1, 2, 4, 8))
        terms = (f"term_{name}" for name in ("outcome", "format", "steps"))
        return ("solved", "parsed_rate", *statuses, "step_score", "first_error", "steps", *passed, *terms)

    @classmethod
    def needs(cls, recipe: Recipe) -> Iterator[str]:
        if recipe.reward.steps.on:
            yield f"a step judge ({recipe.judge.kind})"

    @classmethod
    def asks(cls, recipe: Recipe) -> dict[str, int]:
        """About as many windows as a solution has, under error propagation up to the first error."""
        steps = recipe.reward.steps
        return {"reward.steps": -(-MOST_STEPS // steps.window)} if steps.on else {}

    @classmethod
    def asks_held_out(cls, recipe: Recipe) -> bool:
        return recipe.reward.steps.measure

    @classmethod
    def own_prompt(cls, text: str, answer: str) -> Prompt:
        """Its id is that of the same problem in a data set."""
        return Problem(text_key(text), "", text, parse_gold(answer), "medium").prompt

    @classmethod
    def same_text(cls, text: str) -> str:
        return text_key(text)

    @classmethod
    def start(cls, recipe: Recipe, say: Say) -> AimeTask:
        return cls(recipe, say)

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
