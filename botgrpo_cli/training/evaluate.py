"""Evaluation of a run, a checkpoint or any model on a task's prompts, with intervals over prompts."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from botgrpo_cli.errors import InputError
from botgrpo_cli.policy.decode import choose_decoder
from botgrpo_cli.policy.load import Policy, load_policy
from botgrpo_cli.recipe.load import load_recipe
from botgrpo_cli.recipe.schema import Recipe
from botgrpo_cli.recipe.shipped import shipped_names
from botgrpo_cli.records.write import to_json, write_atomic
from botgrpo_cli.tasks.base import Prompt, Split, Task
from botgrpo_cli.tasks.registry import make_task, task_of
from botgrpo_cli.training.batches import held_out_of_run
from botgrpo_cli.training.checkpoint import Checkpoint, list_checkpoints, load_checkpoint
from botgrpo_cli.training.estimates import Answer, Estimate, answers_of, by_problem
from botgrpo_cli.training.processes import ALONE, Processes, join
from botgrpo_cli.training.rollouts import Batch, collect, collect_over
from botgrpo_cli.training.run import RECIPE_FILE

FALLBACK = "react_qwen"  # the recipe of a model that no shipped one names
FIELDS = (
    "run",
    "recipe",
    "scale",
    "base_model",
    "step",
    "split",
    "seed",
    "prompts",
    "samples",
    "metric",
    "value",
    "ci_low",
    "ci_high",
)


@dataclass(frozen=True)
class Subject:
    """What is evaluated: a recipe's starting policy, that policy with a checkpoint's weights, or a file of
    completions, whose recipe only says how to score."""

    name: str
    recipe: Recipe
    checkpoint: Checkpoint | None
    file: Path | None = None

    @property
    def folder(self) -> Path | None:
        """The run's folder, None for a bare model or a file."""
        return self.checkpoint.folder.parents[1] if self.checkpoint else None


def find_subject(name: str, recipe_name: str | None, scale: str | None) -> Subject:
    """A run's folder (its last checkpoint), one of its `checkpoints/step-N`, or a model that a recipe could name.

    Raises:
        InputError: the run has no checkpoint yet; the recipe is wrong.
    """
    path = Path(name)
    run = path.parents[1] if path.parent.name == "checkpoints" else path
    if (run / RECIPE_FILE).is_file():
        checkpoints = list_checkpoints(run)
        chosen = [c for c in checkpoints if path in (run, c.folder)]
        if not chosen:
            there = ", ".join(c.folder.name for c in checkpoints) or "none yet"
            raise InputError(f"{name} is no complete checkpoint. Complete ones in {run / 'checkpoints'}: {there}.")
        recipe = load_recipe(recipe_name or str(run / RECIPE_FILE), scale=scale).recipe
        return Subject(run.name, recipe, chosen[-1])
    scale = scale or scale_of(name)
    # The scale's other settings (prompt set, token limit) stay; the model is the one that was asked for.
    recipe = load_recipe(
        recipe_name or recipe_for(name, scale), scale=scale, sets=(f"policy.model={name}", "policy.lora=null")
    ).recipe
    return Subject(name, recipe, None)


def scale_of(model: str) -> str | None:
    """The scale that a model's name tells."""
    kind = model.partition(":")[0]
    return kind if kind in ("tiny", "small") else None


def recipe_for(model: str, scale: str | None) -> str:
    """The shipped recipe that trains `model` at `scale`; of several, and for a model that none names, react_qwen where
    it is one of them or there is none."""
    named = [
        name
        for name in shipped_names()
        if load_recipe(name, scale=scale, counts=_uncounted).recipe.policy.model == model
    ]
    return FALLBACK if FALLBACK in named or not named else named[0]


def _uncounted(recipe: Recipe) -> None:
    """Prompts need not be counted to learn a recipe's model."""


def find_file(name: str, recipe_name: str | None, scale: str | None) -> Subject:
    """A file of completions. The recipe is that of the run whose folder it lies in, unless another is named.

    Raises:
        InputError: neither is there; the recipe is wrong.
    """
    path = Path(name)
    own = path.parent / RECIPE_FILE
    if recipe_name is None and not own.is_file():
        raise InputError(
            f"{name} holds completions; name the recipe that says how to score them, for example --recipe aime_qwen."
        )
    return Subject(name, load_recipe(recipe_name or str(own), scale=scale).recipe, None, path)


def load_subject(subject: Subject, processes: Processes = ALONE) -> Policy:
    config = subject.recipe.policy
    if subject.checkpoint and config.lora and config.lora.adapter:
        # The checkpoint is a saved adapter itself: the one that the run started from may be gone.
        lora = config.lora.model_copy(update={"adapter": str(subject.checkpoint.folder)})
        config = config.model_copy(update={"lora": lora})
    # A device was chosen by whoever asks for an evaluation: a 3 B model on a CPU is slow, not impossible.
    policy = load_policy(config, scale="evaluation", local_rank=None if processes.alone else processes.local_rank)
    if subject.checkpoint:
        load_checkpoint(subject.checkpoint, policy)
    return policy


def run_evaluation(
    subject: Subject,
    policy: Policy,
    task: Task,
    *,
    split: Split,
    prompts: int | None,
    samples: int,
    processes: Processes = ALONE,
) -> Batch:
    """Sample and score; the prompts are those of the run's own evaluations, shared out over the processes."""
    recipe, there = subject.recipe, task.prompts(split)
    count = min(prompts or recipe.evaluation.prompts, len(there))
    decoder = choose_decoder(policy)

    def collect_part(part: Sequence[Prompt]) -> Batch:
        return collect(
            policy,
            decoder,
            task,
            part,
            group_size=samples,
            max_new_tokens=recipe.evaluation.max_new_tokens or recipe.sampling.max_new_tokens,
            temperature=recipe.evaluation.temperature,
            seed=recipe.training.seed,
            step=split,
        )

    return collect_over(processes, held_out_of_run(there, count=count), collect_part)


def write_table(path: Path, subject: Subject, split: str, answers: Sequence[Answer], rows: list[Estimate]) -> None:
    """One row a metric, an empty cell where it has no value. `samples` is that of the problem with the fewest."""
    recipe, groups = subject.recipe, by_problem(answers)
    common: dict[str, Any] = {
        "run": subject.name,
        "recipe": recipe.name,
        "scale": recipe.scale,
        "base_model": None if subject.file else recipe.policy.model,
        "step": None if subject.file else subject.checkpoint.step if subject.checkpoint else 0,
        "split": split,
        "seed": None if subject.file else recipe.training.seed,
        "prompts": len(groups),
        "samples": min(map(len, groups.values())),
    }
    text = io.StringIO()
    table = csv.DictWriter(text, FIELDS, lineterminator="\n")
    table.writeheader()
    for row in rows:
        table.writerow({**common, "metric": row.metric, "value": row.value, "ci_low": row.low, "ci_high": row.high})
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, text.getvalue().encode())


def write_problems(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """One JSON object a line, see `estimates.problem_rows`."""
    write_atomic(path, "".join(to_json(row) + "\n" for row in rows).encode())


def with_samples(subject: Subject, seed: int | None) -> Subject:
    """The same subject under another sampling seed."""
    if seed is None:
        return subject
    training = subject.recipe.training.model_copy(update={"seed": seed})
    return replace(subject, recipe=subject.recipe.model_copy(update={"training": training}))


@dataclass(frozen=True)
class Scored:
    """Answers with what the task says of them; `heuristic` and `simulated` are what is no real measurement."""

    answers: list[Answer]
    headline: str
    heuristic: list[str]
    simulated: list[str]


def score_file(found: Subject, say: Callable[[str], None] = lambda _: None) -> Scored:
    """The answers of a file of completions. Raises InputError: rows that can't be used."""
    from botgrpo_cli.training.completions import read_completions, score_completions

    with make_task(task_of(found.recipe).for_evaluation(found.recipe), say) as task:
        given = read_completions(found.file, task)
        say("Scoring.")
        return _said(score_completions(given, task), task)


def sample_answers(
    found: Subject,
    split: Split,
    *,
    ks: Sequence[int] = (),
    prompts: int | None = None,
    samples: int | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Scored | None:
    """Answers that a policy writes now; None on all processes but the main one.

    `samples` a prompt: the recipe's where it is None, or as many as the largest of `ks` needs.
    Raises InputError: fewer samples than `ks` need; the model or the task's tools are not to be had.
    """
    count = samples or max([found.recipe.evaluation.samples, *ks])
    if ks and max(ks) > count:
        raise InputError(f"--k {max(ks)} needs at least as many samples a prompt, and --samples is {count}.")
    processes = join()
    with processes.agreed():
        policy = load_subject(found, processes)
        task = make_task(task_of(found.recipe).for_evaluation(found.recipe), say)
    with task:
        say("Sampling and scoring.")
        batch = run_evaluation(found, policy, task, split=split, prompts=prompts, samples=count, processes=processes)
        scored = _said(answers_of(batch, policy.token_bytes), task)
    processes.leave()
    return scored if processes.main else None


def _said(answers: list[Answer], task: Task) -> Scored:
    said = task.provenance()
    return Scored(answers, task.headline, list(said["heuristic"]), list(said["simulated"]))
