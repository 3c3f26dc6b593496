"""The two sides of a comparison, and the apps that each of them writes for the same prompts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from botgrpo_cli.errors import InputError
from botgrpo_cli.recipe.load import load_recipe
from botgrpo_cli.recipe.rewards import RewardConfig
from botgrpo_cli.recipe.schema import Recipe
from botgrpo_cli.records.manifest import read_manifest, run_digest
from botgrpo_cli.tasks.base import Completion, Prompt, Scored
from botgrpo_cli.tasks.react.prompts import load_prompts
from botgrpo_cli.tasks.react.task import ReactTask
from botgrpo_cli.training.batches import held_out_of_run
from botgrpo_cli.training.checkpoint import list_checkpoints
from botgrpo_cli.training.evaluate import Subject, find_subject, load_subject
from botgrpo_cli.training.run import RECIPE_FILE

COMPONENT, ANSWER = (".jsx", ".tsx"), (".md", ".txt")  # a bare component; an answer with a code block in it
SHOWN_PROBLEM = 300  # characters

Tick = Callable[[], None]


@dataclass(frozen=True)
class Entry:
    """What a side has for one prompt."""

    source: str | None  # the component as written, None without one
    language: str
    problem: str  # why it does not compile, in a sentence; "" when it does

    @property
    def code(self) -> str | None:
        """The component when it compiles."""
        return None if self.problem else self.source


class Side(Protocol):
    name: str  # for tables and figures
    run: str | None  # digest of the run (`records.manifest.run_digest`); None for what is no run
    labels: dict[str, str]  # method, base_model, scale, seed; "" where there is none
    steps: tuple[int | None, ...]  # checkpoints that are there, rising; (None,) when it is what it is
    count: int | None  # held-out prompts that its recipe evaluates on; None: all it has
    judge: dict[str, Any]  # the judge it was trained with, as its manifest has it; empty without one

    def has(self, prompt: str) -> bool:
        """Whether it can answer the prompt with this id."""
        ...

    def briefs(self) -> list[Prompt]:
        """Held-out prompts, without instruction, in the order in which evaluations take them."""
        ...

    def entries(self, prompts: Sequence[Prompt], step: int | None, tick: Tick) -> dict[str, Entry]:
        """An app for each prompt, by prompt id; `tick` is called for each one that is scored."""
        ...


def find_sides(a: str, b: str, recipe_name: str | None = None, scale: str | None = None) -> tuple[Side, Side]:
    """Each a run, a checkpoint, a model or a folder of components.

    Raises InputError when one is none of these, has no checkpoint, or its task is not React.
    """
    names = (a, b)
    for name in names:
        # A hub id has one slash at most.
        if not Path(name).exists() and (name.count("/") > 1 or name.startswith((".", "/", "~"))):
            raise InputError(f"There is no folder {name}. A side is a run, a checkpoint, a model or a folder of apps.")
    policies = [None if _is_folder(Path(name)) else _policy_side(name, recipe_name, scale) for name in names]
    recipes = [side.recipe for side in policies if side]
    recipe = recipes[0] if recipes else load_recipe(recipe_name or "react_qwen", scale=scale or "tiny").recipe
    first, second = (side or FolderSide(Path(name), recipe) for name, side in zip(names, policies, strict=True))
    return first, second


def _is_folder(path: Path) -> bool:
    """Of components: no run, no checkpoint, no saved model."""
    run = path.parents[1] if path.parent.name == "checkpoints" else path
    return path.is_dir() and not (run / RECIPE_FILE).is_file() and not (path / "config.json").is_file()


def _policy_side(name: str, recipe_name: str | None, scale: str | None) -> PolicySide:
    path = Path(name)
    subject = find_subject(name, recipe_name, scale)
    if subject.recipe.task.name != "react":
        raise InputError(
            f"{name} is a run of the task '{subject.recipe.task.name}'; win rates compare React apps. "
            "`botgrpo evaluate` gives Pass@k with intervals for it."
        )
    return PolicySide(subject, fixed=path.parent.name == "checkpoints")


class PolicySide:
    """Samples one completion a prompt, at the temperature and with the random numbers of the run's own evaluations."""

    def __init__(self, subject: Subject, *, fixed: bool = False) -> None:
        self._subject = subject
        self.recipe = recipe = subject.recipe
        self.name = subject.name
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

    def briefs(self) -> list[Prompt]:
        return _briefs(self.recipe.task.prompts)

    def entries(self, prompts: Sequence[Prompt], step: int | None, tick: Tick) -> dict[str, Entry]:
        from botgrpo_cli.policy.decode import choose_decoder
        from botgrpo_cli.training.rollouts import collect

        recipe = self.recipe
        subject = Subject(self.name, recipe, self._checkpoints.get(step))
        policy = load_subject(subject)
        with _checking(recipe) as task:
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
        return {prompt.id: entry_of(scored) for prompt, scored in zip(batch.prompts, batch.scored, strict=True)}


class FolderSide:
    """Components that someone else wrote: one file a prompt, named by the prompt's id."""

    run: str | None = None
    steps: tuple[int | None, ...] = (None,)

    def __init__(self, folder: Path, recipe: Recipe) -> None:
        self.name, self._recipe = folder.resolve().name, recipe
        self.labels = {"method": "", "base_model": "", "scale": "", "seed": ""}
        self.count: int | None = None
        self.judge: dict[str, Any] = {}
        self._files = {}
        for file in sorted(folder.iterdir()):
            if file.suffix in (*COMPONENT, *ANSWER):
                if file.stem in self._files:
                    raise InputError(f"{folder} has two files for the prompt {file.stem}; expected one.")
                self._files[file.stem] = file
        known = {prompt.id for prompt in self.briefs()}
        if not known & self._files.keys():
            example = self.briefs()[0].id
            raise InputError(
                f"{folder} is no run (no {RECIPE_FILE}) and no folder of components: no file is named after a held-out "
                f"prompt, as {example}.jsx would be (.jsx or .tsx: a component; .md or .txt: an answer with a code "
                "block)."
            )

    def has(self, prompt: str) -> bool:
        return prompt in self._files

    def briefs(self) -> list[Prompt]:
        return [*_briefs("generated"), *_briefs("briefs")]  # whichever set its files are named after

    def entries(self, prompts: Sequence[Prompt], step: int | None, tick: Tick) -> dict[str, Entry]:
        with _checking(self._recipe) as task:
            scoring = {}
            for prompt in prompts:
                future = task.submit(Completion(prompt, (self._answer(prompt.id),), True))
                future.add_done_callback(lambda _: tick())
                scoring[prompt.id] = future
            return {prompt: entry_of(future.result()) for prompt, future in scoring.items()}

    def _answer(self, prompt: str) -> bytes:
        file = self._files[prompt]
        try:
            data = file.read_bytes()
        except OSError as error:
            raise InputError(f"{file} cannot be read: {error.strerror}.") from error
        if file.suffix in ANSWER:
            return data
        return b"````" + file.suffix[1:].encode() + b"\n" + data + b"\n````\n"


class _Watched:
    """A task that tells when a completion is scored."""

    def __init__(self, task: ReactTask, tick: Tick) -> None:
        self._task, self._tick, self.name = task, tick, task.name

    def submit(self, completion: Completion) -> Future[Scored]:
        future = self._task.submit(completion)
        future.add_done_callback(lambda _: self._tick())
        return future

    def counters(self) -> dict[str, float | None]:
        return self._task.counters()


def _briefs(kind: Any) -> list[Prompt]:
    there = load_prompts(kind, "held-out")
    return held_out_of_run(there, count=len(there))


def _checking(recipe: Recipe) -> ReactTask:
    """The task without judges and browser: only the compiler has a say in who may show something."""
    return ReactTask(recipe.model_copy(update={"reward": RewardConfig()}))


def entry_of(scored: Scored) -> Entry:
    detail = scored.detail
    source, language = detail["code"], detail["language"] or "jsx"
    if scored.metrics["compile_rate"] == 1.0:
        return Entry(source, language, "")
    errors = [found["message"] for found in detail["diagnostics"] if found["tool"] == "compile"]
    if source is None:
        problem = "There is no code block in the answer."
    elif errors:
        problem = f"It does not compile: {errors[0]}"
    else:
        problem = "It does not compile."
    return Entry(source, language, problem[:SHOWN_PROBLEM])


def shared_prompts(a: Side, b: Side, count: int | None = None) -> list[Prompt]:
    """The held-out briefs that both sides can answer, at most `count` of them; None: as many as their recipes
    evaluate on. Raises InputError when there is none."""
    mine, other = a.briefs(), {prompt.id for prompt in b.briefs()}
    both = [prompt for prompt in mine if prompt.id in other and a.has(prompt.id) and b.has(prompt.id)]
    if not both:
        raise InputError(
            f"{a.name} and {b.name} have no held-out prompt in common. Runs must have the same task.prompts; files of "
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
