"""The AIME task's part of a recipe: where its problems come from, its terms, and how steps are judged."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from botgrpo_cli.recipe.section import Count, RewardSection, Section, Share, TaskSection, TermConfig


class ProblemsConfig(Section):
    source: str = "di-zhang-fdu/AIME_1983_2024"
    """`chains` or `words` (generated), `reasoning-gym:NAME`, a hub id, or a csv, json, jsonl or parquet file."""
    problem_column: str | None = None
    """Column of the problems; null guesses it, or takes that of a known data set."""
    answer_column: str | None = None
    """Column of the answers; null guesses it, or takes that of a known data set."""
    split: str | None = None
    """Split of a hub data set; null takes that of a known one, else train."""
    config: str | None = None
    """Configuration of a hub data set; null takes all those of a known one, else the only one there is."""
    skip_odd: bool = False
    """Leave out and count rows without a problem or an integer answer from 0 to 999, instead of refusing them all."""
    held_out: str | None = None
    """Source of held-out problems, which then leave the training set; null holds out a share by a hash of the text."""
    share: Share = 0.1
    """Share of the problems that is held out where `held_out` names no source."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Seed of that hash, and of what reasoning-gym generates; apart from training.seed, so that seeds share a split."""
    size: Count = 1000
    """Problems that reasoning-gym generates."""


class TaskConfig(TaskSection):
    name: str = "aime"
    """The task."""
    problems: ProblemsConfig = ProblemsConfig()
    """Where the problems come from."""
    instruction: str = (
        "{problem}\n\nSolve this problem step by step, with a blank line between steps. In the last step, put the "
        "final answer, an integer from 0 to 999, into \\boxed{}."
    )
    """The user message; `{problem}` stands for the problem's text."""


class StepsConfig(Section):
    strategy: Literal["error-propagation", "context-aware", "independent", "none"] = "error-propagation"
    """After the first incorrect step all score 0; the judge sees its own earlier verdicts; or each call stands alone;
    none asks nobody."""
    window: Count = 3
    """Steps a call of the judge."""
    correct: Share = 1.0
    """Score of a step that the judge calls correct."""
    uncertain: Share = 0.5
    """Score of a step that the judge is uncertain of."""
    incorrect: Share = 0.0
    """Score of a step that the judge calls incorrect."""
    boundary: Literal["blank-lines", "markers"] = "blank-lines"
    """What separates steps: blank lines (lines where there are none), or `Step 1:` and the like where there are any."""
    measure: bool = False
    """Also have a model judge held-out completions, which only logs; the exact judge always does."""

    @property
    def on(self) -> bool:
        """Whether anyone is asked."""
        return self.strategy != "none"


class RewardConfig(RewardSection):
    format: TermConfig = TermConfig(weight=1.0)
    """1 for one closed box in the last step of a finished answer, in a chain after every step; else 0."""
    outcome: TermConfig = TermConfig(weight=1.0)
    """1 when the answer in the box is right."""
    steps: StepsConfig = StepsConfig()
    """How steps are judged; score - 1 is the token-level signal of a step, weighted by method.local_weight."""
