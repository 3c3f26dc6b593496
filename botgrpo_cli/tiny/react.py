"""The tiny scale's React task: specs drawn at random, each a short brief and a component that fulfils it.

The texts are ours. A brief belongs to the split that its hash names, so the two splits stay disjoint however
many are drawn, and a starting policy that is trained on fresh train specs has never seen a held-out brief.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from random import Random

from botgrpo_cli.tasks.base import Prompt, Split
from botgrpo_cli.tiny.families import FAMILIES, Spec, Style

PROMPT_COUNTS: dict[Split, int] = {"train": 2048, "held-out": 256}
HELD_OUT_SHARE = 8  # one brief in eight is held out
OPENING, CLOSING = "```jsx\n", "```"
MEDIUM_LINES, HARD_LINES = 15, 19  # components of at least so many lines are medium, hard
LONGEST = 600  # characters; briefs that need longer components are not drawn


@dataclass(frozen=True)
class Task:
    """A prompt with the spec behind it."""

    prompt: Prompt
    family: str
    spec: Spec


def normalised(brief: str) -> str:
    """Lower-case words and numbers only: briefs that differ in nothing else count as the same."""
    return " ".join(re.findall(r"[a-z0-9]+", brief.lower()))


def digest(brief: str) -> str:
    return hashlib.sha256(normalised(brief).encode()).hexdigest()


def split_of(brief: str) -> Split:
    return "held-out" if int(digest(brief)[:8], 16) % HELD_OUT_SHARE == 0 else "train"


def draw(rng: Random, split: Split) -> Task:
    """One spec of `split`, the families equally likely."""
    while True:
        name = rng.choice(sorted(FAMILIES))
        spec = FAMILIES[name].draw(rng)
        key = digest(spec.brief)
        reference = FAMILIES[name].write(spec, Style(Random(key)))  # one source, its style follows from the brief
        if split_of(spec.brief) == split and len(reference) <= LONGEST:
            return Task(Prompt(f"tiny-{name}-{key[:12]}", spec.brief, level_of(reference), spec.asks), name, spec)


def level_of(source: str) -> str:
    """Graded by lines."""
    lines = source.count("\n")
    return "easy" if lines < MEDIUM_LINES else "medium" if lines < HARD_LINES else "hard"


def write(task: Task, rng: Random) -> str:
    """A lint-clean source that fulfils the brief; `rng` decides the surface: names, layout, order."""
    return FAMILIES[task.family].write(task.spec, Style(rng))


def answer(source: str) -> str:
    """The whole completion without its end token."""
    return f"{OPENING}{source}{CLOSING}"


def draw_many(split: Split, seed: int) -> Iterator[Task]:
    """Endless tasks of a split; the same seed gives the same ones."""
    rng = Random(f"{split}-{seed}")
    while True:
        yield draw(rng, split)


@lru_cache(maxsize=2)
def tasks(split: Split) -> tuple[Task, ...]:
    """The fixed tasks of a split, distinct after normalising: 2,048 for training, 256 held out."""
    found: dict[str, Task] = {}
    for task in draw_many(split, seed=0):
        found.setdefault(normalised(task.prompt.text), task)
        if len(found) == PROMPT_COUNTS[split]:
            return tuple(found.values())
    raise AssertionError("unreachable: draw_many is endless")


def prompts(split: Split) -> list[Prompt]:
    """The prompts of a split, always the same ones in the same order."""
    return [task.prompt for task in tasks(split)]
