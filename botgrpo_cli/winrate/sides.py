"""The two sides of a comparison, and the answers that each of them writes for the same prompts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Protocol

from botgrpo_cli.errors import InputError
from botgrpo_cli.recipe.load import load_recipe
from botgrpo_cli.recipe.schema import Recipe
from botgrpo_cli.records.manifest import read_manifest, run_digest
from botgrpo_cli.tasks.base import Completion, Prompt, Scored, Split, Task
from botgrpo_cli.tasks.registry import task_of
from botgrpo_cli.training.checkpoint import list_checkpoints
from botgrpo_cli.training.evaluate import FALLBACK, Subject, find_subject, load_subject
from botgrpo_cli.training.run import RECIPE_FILE
from botgrpo_cli.winrate.contender import Comparison, Entry

Tick = Callable[[], None]


class Side(Protocol):
    name: str  # for tables and figures
    comparison: Comparison
    run: str | None  # digest of the run (`records.manifest.run_digest`); None for what is no run
    labels: dict[str, str]  # method, base_model, scale, seed; "" where there is none
    steps: tuple[int | None, ...]  # checkpoints that are there, rising; (None,) when it is what it is
    count: int | None  # held-out prompts that its recipe evaluates on; None: all it has
    judge: dict[str, Any]  # the judge it was trained with, as its manifest has it; empty without one

    def has(self, prompt: str) -> bool:
        """Whether it can answer the prompt with this id."""
        ...

    def prompts(self) -> list[Prompt]:
        """Held-out prompts as a judge reads them, in the order in which evaluations take them."""
        ...

    def entries(self, prompts: Sequence[Prompt], step: int | None, tick: Tick) -> dict[str, Entry]:
        """An answer for each prompt, by prompt id; `tick` is called for each one that is scored."""
        ...


def find_sides(a: str, b: str, recipe_name: str | None = None, scale: str | None = None) -> tuple[Side, Side]:
    """Each a run, a checkpoint, a model or a folder of answers.

    Raises InputError when one is none of these, has no checkpoint, or its task compares no answers.
    """
    names = (a, b)
    for name in names:
        # A hub id has one slash at most.
        if not Path(name).exists() and (name.count("/") > 1 or name.startswith((".", "/", "~"))):
            raise InputError(
                f"There is no folder {name}. A side is a run, a checkpoint, a model or a folder of answers."
            )
    policies = [None if _is_folder(Path(name)) else _policy_side(name, recipe_name, scale) for name in names]
    recipes = [side.recipe for side in policies if side]
    recipe = recipes[0] if recipes else load_recipe(recipe_name or FALLBACK, scale=scale or "tiny").recipe
    first, second = (side or FolderSide(Path(name), recipe) for name, side in zip(names, policies, strict=True))
    return first, second


def _is_folder(path: Path) -> bool:
    """Of answers: no run, no checkpoint, no saved model."""
    run = path.parents[1] if path.parent.name == "checkpoints" else path
    return path.is_dir() and not (run / RECIPE_FILE).is_file() and not (path / "config.json").is_file()


def _policy_side(name: str, recipe_name: str | None, scale: str | None) -> PolicySide:
    path = Path(name)
    subject = find_subject(name, recipe_name, scale)
    return PolicySide(subject, fixed=path.parent.name == "checkpoints")


class PolicySide:
    """Samples one completion a prompt, at the temperature and with the random numbers of the run's own evaluations."""

    def __init__(self, subject: Subject, *, fixed: bool = False) -> None:
        self._subject = subject
        self.recipe = recipe = subject.recipe
        self.name = subject.name
        self.comparison = task_of(recipe).comparison(recipe)
        self.run = run_digest(subject.folder) if subject.folder else None
        self.labels = {
            "method": recipe.method.name if subject.checkpoint else "",
            "base_model": recipe.policy.model,
            "scale": recipe.scale,
            "seed": str(recipe.training.seed),
        }
        self.count: int | None = recipe.evaluation.prompts
        self.judge: dict[str, Any] = {}
        self._checkpoints = {}
        if subject.folder is None:
            self.steps: tuple[int | None, ...] = (None,)
            return
        there = [subject.checkpoint] if fixed else list_checkpoints(subject.folder)
        self._checkpoints = {checkpoint.step: checkpoint for checkpoint in there}
        self.steps = tuple(sorted(self._checkpoints))
        self.judge = _judge_of(subject.folder)

    def has(self, prompt: str) -> bool:
        return True

    def prompts(self) -> list[Prompt]:
        return self.comparison.prompts()

    def entries(self, prompts: Sequence[Prompt], step: int | None, tick: Tick) -> dict[str, Entry]:
        from botgrpo_cli.policy.decode import choose_decoder
        from botgrpo_cli.training.rollouts import collect

        recipe = self.recipe
        subject = Subject(self.name, recipe, self._checkpoints.get(step))
        policy = load_subject(subject)
        with self.comparison.checker() as task:
            own = {prompt.id: prompt for prompt in task.prompts("held-out")}
            batch = collect(
                policy,
                choose_decoder(policy),
                _Watched(task, tick),
                [own[prompt.id] for prompt in prompts],
                group_size=1,
                max_new_tokens=recipe.evaluation.max_new_tokens or recipe.sampling.max_new_tokens,
                temperature=recipe.evaluation.temperature,
                seed=recipe.training.seed,
                step="held-out",
            )
        return {
            prompt.id: self.comparison.entry(scored) for prompt, scored in zip(batch.prompts, batch.scored, strict=True)
        }


class FolderSide:
    """Answers that someone else wrote: one file a prompt, named by the prompt's id."""

    run: str | None = None
    steps: tuple[int | None, ...] = (None,)

    def __init__(self, folder: Path, recipe: Recipe) -> None:
        self.name = folder.resolve().name
        self.comparison = task_of(recipe).comparison(recipe)
        self.labels = {"method": "", "base_model": "", "scale": "", "seed": ""}
        self.count: int | None = None
        self.judge: dict[str, Any] = {}
        self._files = {}
        for file in sorted(folder.iterdir()):
            if file.suffix in self.comparison.suffixes:
                if file.stem in self._files:
                    raise InputError(f"{folder} has two files for the prompt {file.stem}; expected one.")
                self._files[file.stem] = file
        known = [prompt.id for prompt in self.prompts()]
        if not self._files.keys() & set(known):
            suffixes = ", ".join(self.comparison.suffixes)
            raise InputError(
                f"{folder} is no run (no {RECIPE_FILE}) and no folder of {self.comparison.answers}: no file is named "
                f"after a held-out prompt, as {known[0]}{self.comparison.suffixes[0]} would be (expected {suffixes})."
            )

    def has(self, prompt: str) -> bool:
        return prompt in self._files

    def prompts(self) -> list[Prompt]:
        return self.comparison.every_prompt()

    def entries(self, prompts: Sequence[Prompt], step: int | None, tick: Tick) -> dict[str, Entry]:
        with self.comparison.checker() as task:
            scoring = {}
            for prompt in prompts:
                future = task.submit(Completion(prompt, (self._answer(prompt.id),), True))
                future.add_done_callback(lambda _: tick())
                scoring[prompt.id] = future
            task.gathered()
            return {prompt: self.comparison.entry(future.result()) for prompt, future in scoring.items()}

    def _answer(self, prompt: str) -> bytes:
        file = self._files[prompt]
        try:
            data = file.read_bytes()
        except OSError as error:
            raise InputError(f"{file} cannot be read: {error.strerror}.") from error
        return self.comparison.read(file, data)


class _Watched(Task):
    """A task that tells when a completion is scored."""

    def __init__(self, task: Task, tick: Tick) -> None:
        self._task, self._tick, self.name = task, tick, task.name

    def prompts(self, split: Split) -> Sequence[Prompt]:
        return self._task.prompts(split)

    def submit(self, completion: Completion) -> Future[Scored]:
        future = self._task.submit(completion)
        future.add_done_callback(lambda _: self._tick())
        return future

    def gathered(self, step: int | None = None) -> None:
        self._task.gathered(step)

    def counters(self) -> dict[str, float | None]:
        return self._task.counters()


def shared_prompts(a: Side, b: Side, count: int | None = None) -> list[Prompt]:
    """The held-out prompts that both sides can answer, at most `count` of them; None: as many as their recipes
    evaluate on. Raises InputError when there is none."""
    mine, other = a.prompts(), {prompt.id for prompt in b.prompts()}
    both = [prompt for prompt in mine if prompt.id in other and a.has(prompt.id) and b.has(prompt.id)]
    if not both:
        raise InputError(
            f"{a.name} and {b.name} have no held-out prompt in common. Runs must have the same prompts; files of "
            "a folder are named after the prompts' ids."
        )
    return both[: count or min((side.count for side in (a, b) if side.count), default=None)]


def shared_steps(a: Side, b: Side, wanted: str) -> list[tuple[int | None, int | None]]:
    """Pairs of steps to compare: the last of each side, all that both have, or those in a list such as 20,40.

    Raises InputError for a step that a side does not have, with those that it has.
    """
    if wanted == "last":
        return [(a.steps[-1], b.steps[-1])]
    # A side without checkpoints (a model, a folder) stands against each of the other's.
    at = {side: set(side.steps) for side in (a, b)}
    stepless = [side for side in (a, b) if side.steps == (None,)]
    if len(stepless) == 2:
        raise InputError("Neither side has checkpoints; leave --checkpoints out.")
    moving = [side for side in (a, b) if side not in stepless]
    common = set.intersection(*(at[side] for side in moving))
    if wanted == "all":
        chosen = sorted(common)
        if not chosen:
            raise InputError("The runs have no checkpoint of the same step. " + _have(moving))
    else:
        try:
            chosen = sorted({int(part) for part in wanted.split(",")})
        except ValueError:
            raise InputError(
                f"--checkpoints is '{wanted}'; expected last, all, or steps with commas between, as in 20,40."
            ) from None
        missing = [step for step in chosen if step not in common]
        if missing:
            raise InputError(f"Not both sides have a checkpoint of step {missing[0]}. " + _have(moving))
    return [tuple(None if side in stepless else step for side in (a, b)) for step in chosen]


def _have(sides: Sequence[Side]) -> str:
    have = "; ".join(f"{side.name} has {', '.join(map(str, side.steps))}" for side in sides)
    return f"{have}. Recipes keep the last two; train with --set checkpoint.keep_last=100 to keep all."


def _judge_of(folder: Path) -> dict[str, Any]:
    try:
        return read_manifest(folder).get("judge") or {}
    except InputError:
        return {}  # a run without a manifest can still be judged
