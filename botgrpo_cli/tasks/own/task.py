"""The task of a person's own file, of a verifiers environment or of a reasoning-gym data set."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from botgrpo_cli.errors import InputError, RunError, nearest
from botgrpo_cli.futures import then
from botgrpo_cli.methods.registry import resolve
from botgrpo_cli.recipe.checks import check_counts
from botgrpo_cli.recipe.schema import Recipe
from botgrpo_cli.rewards.spans import readable
from botgrpo_cli.tasks.base import SPLITS, Clash, Completion, Prompt, Say, Scored, Split, Task
from botgrpo_cli.tasks.own.arguments import empty_parameters
from botgrpo_cli.tasks.own.data import DataSet, Item, load_data, load_rows, say_counts
from botgrpo_cli.tasks.own.functions import Answer, Call
from botgrpo_cli.tasks.own.keys import TaskConfig
from botgrpo_cli.tasks.own.messages import Description
from botgrpo_cli.tasks.own.pool import FunctionPool
from botgrpo_cli.tasks.own.process import is_file
from botgrpo_cli.tasks.own.score import Steps, find_steps, score

if TYPE_CHECKING:
    from botgrpo_cli.winrate.contender import Comparison

Waiting = tuple[Call, Future[dict[str, Answer]]]


class OwnTask(Task):
    """Calls the functions of `spec` in processes of their own: they may hang, crash or print.

    Functions of one completion are called as soon as it is there; those that want all of a batch, and async ones,
    when it is complete. `find.py` makes the class of one source.
    """

    keys = TaskConfig
    free_keys = ("workers", "timeout")
    headline = "reward"  # an instance has that of its recipe
    rehearsed = True
    spec: ClassVar[str]
    about: ClassVar[Description]

    # -- what is said before anything starts -----------------------------------------------------------------------
    @classmethod
    def clashes(cls, recipe: Recipe) -> Iterator[Clash]:
        weights = cls.weights(recipe)
        if not any(weights.values()):
            known = [name for name in cls.rewards.model_fields if name != "spread"]
            functions = ", ".join(known) or "none"
            text = f"No function has a weight, so nothing can be learnt; expected some of {functions}, as in "
            yield ("reward", "task.name"), f"{text}reward: {{{known[0] if known else 'NAME'}: 1.0}}."
        if recipe.task.data is None and not cls.brings_prompts():
            text = "Found no prompts; expected a jsonl, json, csv or parquet file, or a hub id."
            yield ("task.data", "task.name"), text
        named = recipe.task.headline
        if named is not None and named not in (known := cls.metrics(recipe)):
            yield ("task.headline",), f"Found {named!r}; expected one of {', '.join(known)}.{nearest(named, known)}"

    @classmethod
    def brings_prompts(cls) -> bool:
        """Whether the source has prompts of its own; a file never does."""
        return not is_file(cls.spec)

    @classmethod
    def prompt_set(cls, recipe: Recipe) -> tuple[str, str]:
        return ("task.data", recipe.task.data) if recipe.task.data else ("task.name", cls.name)

    @classmethod
    def weights(cls, recipe: Recipe) -> dict[str, float]:
        """Of the functions that the recipe names, in the order of their file."""
        given = {name: getattr(recipe.reward, name) for name in cls.rewards.model_fields if name != "spread"}
        return {name: weight for name, weight in given.items() if weight is not None}

    @classmethod
    def metrics(cls, recipe: Recipe) -> tuple[str, ...]:
        passed = (f"pass@{k}" for k in (1, 2, 4, 8))
        return (*cls.about.functions, *(f"term_{name}" for name in cls.about.functions), "unscored_rate", *passed)

    @classmethod
    def needs(cls, recipe: Recipe) -> Iterator[str]:
        yield cls.spec if cls.brings_prompts() else Path(cls.spec).name

    @classmethod
    def files(cls, recipe: Recipe) -> dict[str, Path]:
        found = {} if cls.brings_prompts() else {"task.name": Path(cls.spec)}
        for key in ("data", "held_out"):
            if (name := getattr(recipe.task, key)) and Path(name).is_file():
                found[f"task.{key}"] = Path(name)
        return found | {f"import {Path(name).name}": Path(name) for name in cls.about.files}

    @classmethod
    def comparison(cls, recipe: Recipe) -> Comparison:
        from botgrpo_cli.tasks.own.compare import AnswerComparison

        if recipe.task.compare is None:
            raise InputError(
                f"Nothing says which of two answers of the task '{cls.name}' is the better one; expected task.compare, "
                "what a model that judges is to look for. `botgrpo evaluate` gives rates and Pass@k with intervals."
            )
        return AnswerComparison(cls, recipe)

    # -- an instance -----------------------------------------------------------------------------------------------
    @classmethod
    def start(cls, recipe: Recipe, say: Say) -> OwnTask:
        return cls(recipe, say)

    def __init__(self, recipe: Recipe, say: Say) -> None:
        self._recipe, self._say = recipe, say
        self._weights = self.weights(recipe)
        measures = [function.name for function in self.about.functions.values() if function.kind == "metric"]
        called = [*self._weights, *measures]
        late = {name for name in called if self._is_late(name)}
        self._early, self._late = [n for n in called if n not in late], [n for n in called if n in late]
        self.headline = recipe.task.headline or self._first_term()
        self._asked = {name for function in called for name in self.about.asked.get(function, ())}
        stepwise = any(self.about.functions[name].unit == "steps" for name in called)
        self._steps = stepwise or "steps" in self._asked or "steps" in resolve(recipe.method).needs
        self._lock = threading.Lock()  # of the following: the pool's threads ask on
        self._asking = False
        self._fresh: list[Waiting] = []  # for functions of one completion
        self._waiting: list[Waiting] = []  # for those of all
        self._step = 0  # the last training step
        say(f"Starting the functions of {self.name}.")
        options = recipe.task.options
        self._pool = FunctionPool(self.spec, options=options, workers=recipe.task.workers, timeout=recipe.task.timeout)
        try:
            columns = dict.fromkeys(name for item in self._data.items["train"] for name in item.columns)
            if missing := empty_parameters(self._pool.describe(), called, columns):
                raise InputError("\n".join(missing))
        except BaseException:
            self._pool.close()
            raise

    def _is_late(self, name: str) -> bool:
        return self.about.functions[name].batch or name in self.about.concurrent

    def _first_term(self) -> str:
        terms = [name for name in self._weights if self.about.functions[name].kind == "term"]
        weighted = [name for name in terms if self._weights[name]]
        return next(iter([*weighted, *terms]), "reward")

    @cached_property
    def _data(self) -> DataSet:
        task = self._recipe.task
        if self.brings_prompts() and task.data is None:
            found = load_rows(self._pool.rows() or {}, task, self.spec)
        else:
            found = load_data(task)
        self._say(say_counts(found))
        return found

    @cached_property
    def _given(self) -> dict[str, Any]:
        """Prompts as the data has them: a system message of the recipe makes no chat of a text for the functions."""
        return {item.id: item.given for split in SPLITS for item in self._data.items[split]}

    @cached_property
    def _prompts(self) -> dict[Split, list[Prompt]]:
        found = {split: [_prompt(item) for item in self._data.items[split]] for split in SPLITS}
        # Fewer held-out prompts than asked for are all evaluated.
        enough = max(len(found["held-out"]), self._recipe.evaluation.prompts)
        check_counts(self._recipe, train=len(found["train"]), held_out=enough)
        return found

    def prompts(self, split: Split) -> Sequence[Prompt]:
        """Raises InputError: the data can't be read, or holds too few prompts."""
        return self._prompts[split]

    def submit(self, completion: Completion) -> Future[Scored]:
        prompt, pieces = completion.prompt, completion.pieces
        steps = find_steps(pieces, self._recipe.task.steps) if self._steps else None
        call = Call(
            prompt_id=prompt.id,
            prompt=self._given.get(prompt.id, prompt.text),
            text=completion.text,
            columns=dict(prompt.columns),
            tokens=tuple(readable(pieces)) if "tokens" in self._asked else (),
            token_ids=completion.ids,
            steps=tuple(steps.texts) if steps else (),
            finished=completion.finished,
        )
        early: Future[dict[str, Answer]] = Future()
        late: Future[dict[str, Answer]] = Future()
        with self._lock:
            self._fresh.append((call, early))
            self._waiting.append((call, late))
        self._go_on()
        return then(early, lambda said: then(late, lambda more: self._score(completion, said | more, steps)))

    def _go_on(self) -> None:
        """Asks about what has come since the last question, unless that is not answered yet: one question about many
        completions costs little more than one about a single one."""
        with self._lock:
            if self._asking or not self._fresh:
                return
            fresh, self._fresh, self._asking = self._fresh, [], True
        self._ask(self._early, fresh, then=self._answered)

    def _answered(self) -> None:
        with self._lock:
            self._asking = False
        self._go_on()

    def gathered(self, step: int | None = None) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, []
        done = self._step if step is None else step - 1  # an evaluation comes after the update of the last step
        self._step = self._step if step is None else step
        if waiting:
            self._ask(self._late, waiting, trainer_state={"global_step": done})  # as TRL counts updates

    def _ask(
        self, names: list[str], waiting: list[Waiting], *, then: Callable[[], None] | None = None, **options: Any
    ) -> None:
        def deliver(done: Future[list[dict[str, Answer]]]) -> None:
            for index, (_, future) in enumerate(waiting):
                try:
                    future.set_result(done.result()[index])
                except BaseException as problem:
                    future.set_exception(problem)
            if then:
                then()

        try:
            self._pool.submit(names, [call for call, _ in waiting], **options).add_done_callback(deliver)
        except RunError as problem:  # it was closed
            for _, future in waiting:
                future.set_exception(problem)

    def _score(self, completion: Completion, answers: dict[str, Answer], steps: Steps | None) -> Scored:
        ordered = {name: answers[name] for name in self.about.functions if name in answers}
        spread = self._recipe.reward.spread
        return score(completion, ordered, self.about.functions, self._weights, steps, spread)

    def versions(self) -> dict[str, str]:
        return dict(self._pool.describe().versions) | self._data.versions

    def provenance(self) -> dict[str, Any]:
        """Also `prompts`, what became of the rows of the data, and `functions`: where each stands."""
        places = {name: self.about.functions[name].place for name in (*self._early, *self._late)}
        return super().provenance() | {"prompts": self._data.counts, "functions": places}

    def close(self) -> None:
        self._pool.close()


def _prompt(item: Item) -> Prompt:
    level = str(item.columns.get("level") or "medium")
    if isinstance(item.prompt, str):
        return Prompt(item.id, item.prompt, level, columns=item.columns)
    return Prompt(item.id, item.prompt[-1]["content"], level, chat=tuple(item.prompt), columns=item.columns)
