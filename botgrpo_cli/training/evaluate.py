"""Evaluation of a run, a checkpoint or any model on a task's prompts, with intervals over prompts."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from botgrpo_cli.errors import InputError
from botgrpo_cli.policy.decode import choose_decoder
from botgrpo_cli.policy.load import Policy, load_policy
from botgrpo_cli.recipe.load import load_recipe
from botgrpo_cli.recipe.schema import Recipe
from botgrpo_cli.records.write import write_atomic
from botgrpo_cli.stats import bootstrap_ci, pass_at_k
from botgrpo_cli.tasks.base import Prompt, Split, Task
from botgrpo_cli.training.batches import held_out_of_run
from botgrpo_cli.training.checkpoint import Checkpoint, list_checkpoints, load_checkpoint
from botgrpo_cli.training.processes import ALONE, Processes
from botgrpo_cli.training.rollouts import Batch, collect, collect_over, facts
from botgrpo_cli.training.run import RECIPE_FILE

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
    """What is evaluated: a recipe's starting policy, or that policy with a checkpoint's weights."""

    name: str
    recipe: Recipe
    checkpoint: Checkpoint | None

    @property
    def folder(self) -> Path | None:
        """The run's folder, None for a bare model."""
        return self.checkpoint.folder.parents[1] if self.checkpoint else None


@dataclass(frozen=True)
class Estimate:
    metric: str
    value: float | None
    low: float | None
    high: float | None


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
    kind = name.partition(":")[0]
    scale = scale or (kind if kind in ("tiny", "small") else None)
    # The scale's other settings (prompt set, token limit) stay; the model is the one that was asked for.
    recipe = load_recipe(
        recipe_name or "react_qwen", scale=scale, sets=(f"policy.model={name}", "policy.lora=null")
    ).recipe
    return Subject(name, recipe, None)


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


def estimate(batch: Batch, headline: str, ks: list[int]) -> list[Estimate]:
    """Mean of each fact and term with a 95 % bootstrap interval over prompts, then pass@k of the headline metric."""
    ids = [p.id for p in batch.prompts]
    columns: dict[str, list[float]] = {}
    for scored in batch.scored:
        for key, value in facts(scored).items():
            columns.setdefault(key, []).append(value)
    rows = []
    for key, values in columns.items():
        kept = [(v, i) for v, i in zip(values, ids, strict=True) if v == v]
        rows.append(_interval(key, [v for v, _ in kept], [i for _, i in kept]))
    for k in ks:
        by_prompt: dict[str, list[bool]] = {}
        for value, prompt in zip(columns[headline], ids, strict=True):
            by_prompt.setdefault(prompt, []).append(value == 1.0)
        chances = [pass_at_k(len(v), sum(v), k) for v in by_prompt.values()]
        whole = None not in chances
        rows.append(
            _interval(f"pass@{k}", chances, list(by_prompt)) if whole else Estimate(f"pass@{k}", None, None, None)
        )
    return rows


def _interval(metric: str, values: list[float], clusters: list[str]) -> Estimate:
    if not values:
        return Estimate(metric, None, None, None)
    found = bootstrap_ci(values, clusters)
    return Estimate(metric, found.mean, found.low, found.high)


def write_table(path: Path, subject: Subject, split: str, batch: Batch, rows: list[Estimate]) -> None:
    """One row a metric; an empty cell where a value does not exist."""
    prompts = len({p.id for p in batch.prompts})
    recipe = subject.recipe
    common: dict[str, Any] = {
        "run": subject.name,
        "recipe": recipe.name,
        "scale": recipe.scale,
        "base_model": recipe.policy.model,
        "step": subject.checkpoint.step if subject.checkpoint else 0,
        "split": split,
        "seed": recipe.training.seed,
        "prompts": prompts,
        "samples": len(batch.prompts) // prompts,
    }
    text = io.StringIO()
    table = csv.DictWriter(text, FIELDS, lineterminator="\n")
    table.writeheader()
    for row in rows:
        table.writerow({**common, "metric": row.metric, "value": row.value, "ci_low": row.low, "ci_high": row.high})
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, text.getvalue().encode())


def with_samples(subject: Subject, seed: int | None) -> Subject:
    """The same subject under another sampling seed."""
    if seed is None:
        return subject
    training = subject.recipe.training.model_copy(update={"seed": seed})
    return replace(subject, recipe=subject.recipe.model_copy(update={"training": training}))
