"""Which prompts a step sees: a function of (seed, step) alone, so that resuming needs no generator state."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from botgrpo_cli.tasks.base import Prompt


def prompts_of_step(prompts: Sequence[Prompt], *, count: int, seed: int, step: int) -> list[Prompt]:
    """`count` distinct prompts; every prompt comes once an epoch, in an order of that epoch's own.

    The last, incomplete slice of an epoch is left out, so that a step never holds the same prompt twice: two
    groups of one prompt would be two bags where the method wants one.
    """
    slices = len(prompts) // count
    epoch, place = divmod(step - 1, slices)
    order = np.random.default_rng([seed, epoch]).permutation(len(prompts))
    return [prompts[i] for i in order[place * count : (place + 1) * count]]


def held_out_of_run(prompts: Sequence[Prompt], *, count: int) -> list[Prompt]:
    """The same `count` prompts at every evaluation of every run, whatever its seed: arms stay comparable."""
    order = np.random.default_rng(20_260).permutation(len(prompts))
    return [prompts[i] for i in order[:count]]
