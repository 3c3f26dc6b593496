"""What a study file may hold. It is read as recipes are: strictly, with a place for every problem.

The layout is our choice; the paper's figures are the studies in recipes/studies/.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from botgrpo_cli.recipe.section import Count, Section

Kind = Literal["curves", "panels", "stability", "winrate"]
Minutes = Annotated[float, Field(gt=0)]


class MinutesConfig(Section):
    tiny: Minutes | None = None
    """Minutes a run takes at tiny scale, one process with one thread."""
    small: Minutes | None = None
    """Minutes a run takes at small scale, one process with one thread."""
    paper: Minutes | None = None
    """Minutes a run takes at the paper's scale on one GPU."""


class WinrateConfig(Section):
    arm: str
    """The arm that every other one is compared with, checkpoint by checkpoint."""
    prompts: Count = 48
    """Held-out prompts for which both write an app; each pair is judged in four rounds."""


class ArmKeys(Section):
    """Beside `set:` and `scales:`, keys of the recipe that this arm changes, at every scale and at one only."""

    label: str | None = None
    """Name in the figure; null takes the arm's own."""
    recipe: str | None = None
    """Recipe of this arm; null takes the study's."""
    baseline: str | None = None
    """Arm that this one is compared with; null takes the study's."""


class StudyKeys(Section):
    """Beside `set:` and `scales:`, keys of the recipe that all arms change, at every scale and at one only."""

    title: str
    """Title of the figure."""
    figure: str
    """Which figure of the paper it is, as "1" or "App. C"; "ours" for one that is not in the paper."""
    paper: str = ""
    """What the paper reports there, in a sentence or two."""
    note: str = ""
    """What a reader must know of it, below the figure."""
    recipe: str
    """Name or path of the recipe that every arm changes; a path is relative to the study's file."""
    at: list[str] = Field(["tiny", "small", "paper"])
    """Scales at which its arms differ; `botgrpo ablate all` leaves it out at others."""
    kind: Kind = "curves"
    """How it is drawn: curves over steps, panels of curves, curves with bars of the drop, win rates."""
    panels: Literal["metric", "base_model", "method"] = "metric"
    """What the panels of a study of that kind differ in."""
    metrics: list[str]
    """Held-out metrics that go into the tables; the first is the headline, which steps and differences are of."""
    draw: list[str] | None = None
    """Those of them that the figure shows, where it shows several; null: the headline."""
    thresholds: list[float] = Field([0.5, 0.8, 0.9])
    """Values of the headline to which steps are counted."""
    seeds: list[int] = Field([0])
    """Training seeds where --seeds names none."""
    baseline: str | None = None
    """Arm that the others are compared with: speed-ups, differences, p values."""
    winrate: WinrateConfig | None = None
    """Who is compared with whom by a judge, for a study of that kind."""
    minutes: MinutesConfig = MinutesConfig()
    """Minutes that one run takes, for the estimates of --list."""
    arms: dict[str, Any]
    """The runs that are compared, by name: each changes the recipe in its own way."""
