"""What a study needs to run, and about how long that takes."""

from __future__ import annotations

from collections.abc import Iterator

from botgrpo_cli.recipe.schema import Recipe
from botgrpo_cli.studies.load import Study, load_study
from botgrpo_cli.tasks.registry import task_of


def needs(study: Study) -> list[str]:
    """What must be there beside the package itself, in words."""
    found = list(dict.fromkeys(need for arm in study.arms for need in _of(arm.recipe)))
    if study.keys.winrate:
        found += [need for need in ("Chromium", "a pairwise judge (heuristic without a server)") if need not in found]
    return found


def _of(recipe: Recipe) -> Iterator[str]:
    if recipe.scale == "paper":
        yield "a GPU"
    kind = recipe.policy.model.partition(":")[0]
    if kind == "small":
        yield "the small model"
    elif kind != "tiny":
        yield recipe.policy.model
    yield from task_of(recipe).needs(recipe)


def minutes(study: Study, *, runs: int | None = None) -> float | None:
    """An estimate for one process after the other, from the minutes a run that the study's file states; None where it
    states none. Runs that two studies share are counted in both; other steps count in proportion."""
    each = getattr(study.keys.minutes, study.scale)
    runs = len(study.chosen) * len(study.seeds) if runs is None else runs
    if each is None:
        return None
    if study.steps is None:
        return each * runs
    usual = load_study(str(study.path), scale=study.scale).arms[0].recipe.training.steps
    return each * runs * study.steps / usual


def in_words(minutes: float | None) -> str:
    """
    >>> in_words(None), in_words(0.4), in_words(48), in_words(144), in_words(5400)
    ('unknown', '1 min', '48 min', '2.4 h', '90 h')
    """
    if minutes is None:
        return "unknown"
    if minutes < 100:
        return f"{max(1, round(minutes))} min"
    return f"{minutes / 60:.{0 if minutes >= 600 else 1}f} h"
