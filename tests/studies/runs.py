"""Runs on disk as training leaves them, with values that a test chooses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from botgrpo_cli.recipe.load import dump_recipe
from botgrpo_cli.recipe.schema import Recipe
from botgrpo_cli.records.manifest import write_manifest
from botgrpo_cli.records.schema import RunLabels
from botgrpo_cli.records.write import RunWriter

PROMPTS = 20
Curve = Callable[[int], float]  # step -> share of the prompts that are solved, in twentieths


def rising(at: int, top: float = 1.0) -> Curve:
    """0 before a step, `top` from it on."""
    return lambda step: top if step >= at else 0.0


def write_run(
    folder: Path,
    recipe: Recipe,
    curve: Curve | None = None,
    *,
    arm: str = "",
    status: str = "done",
    done: int | None = None,
    held_out: bool = True,
    metric: str = "compile_rate",
    samples: int = 1,
    also: Sequence[tuple[str, Curve]] = (),
) -> Path:
    """A run with an evaluation every `evaluation.every` steps; the first prompts are the solved ones."""
    curve = curve or rising(20)
    steps, every = recipe.training.steps, recipe.evaluation.every
    labels = RunLabels(
        folder.name, recipe.task.name, recipe.method.name, "tiny:toy", recipe.scale, recipe.training.seed, "study", arm
    )
    writer = RunWriter.create(folder, labels)
    (folder / "recipe.yaml").write_text(dump_recipe(recipe))
    for step in range(0, (steps if done is None else done) + 1, every):
        share = curve(step)
        if held_out:
            right = [(f"p{n:02d}", samples, float(n < round(share * PROMPTS))) for n in range(PROMPTS)]
            writer.held_out(step, metric, right)
        rows = [("held-out", metric, share), *(("held-out", name, value(step)) for name, value in also)]
        writer.metrics(step, [*rows, ("held-out", "prompts", float(PROMPTS)), ("train", "reward", share)])
    about = {
        "status": status,
        "scale": recipe.scale,
        "method": recipe.method.name,
        "seed": recipe.training.seed,
        "steps_done": steps if done is None else done,
        "wall_seconds": 90.0,
        "heuristic": ["reward.content"],
        "simulated": [],
    }
    write_manifest(folder, about)
    return folder
