"""The step judge of a run: who it is, what it was asked, and how it is recorded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from botgrpo_cli.errors import InputError
from botgrpo_cli.judges.base import Judge
from botgrpo_cli.judges.settings import ONLINE, resolve
from botgrpo_cli.judges.simulate import Errors
from botgrpo_cli.recipe.schema import Recipe
from botgrpo_cli.tasks.aime.exact import ExactStepJudge
from botgrpo_cli.tasks.aime.sources import GENERATED
from botgrpo_cli.tasks.aime.verdicts import AskSteps

Say = Callable[[str], None]


@dataclass(frozen=True)
class StepJudge:
    """`about(problem)` asks about steps of solutions to a problem; ValueError when an exact judge can't read it."""

    about: Callable[[str], AskSteps]
    label: str  # "exact", "simulated", "openai:MODEL", "bedrock:MODEL"
    client: Judge | None = None  # None: exact
    against: str = ""
    simulated: list[str] = field(default_factory=list)

    @property
    def exact(self) -> bool:
        return self.client is None

    def counters(self) -> dict[str, float | None]:
        """As in `judges.base.Judge.counters`; nothing where no model is called."""
        return self.client.counters() if self.client else {}

    def describe(self) -> dict[str, Any]:
        """For the manifest."""
        if self.client:
            return self.client.describe()
        return {"kind": self.label, "against": self.against, "errors": self.simulated}

    def close(self) -> None:
        if self.client:
            self.client.close()


def asks_a_server(recipe: Recipe) -> bool:
    """Whether the recipe's step judge is a model behind an address."""
    return recipe.reward.steps.on and recipe.judge.kind in ONLINE


def check_judge(recipe: Recipe) -> None:
    """Raises InputError when the address, the model or the key of the step judge is missing; looks at no network."""
    if not asks_a_server(recipe):
        return
    try:
        resolve(recipe.judge)
    except InputError as problem:
        raise InputError(
            f"{problem}\nSteps of {recipe.task.problems.source} need a model to judge them, no heuristic can. Without "
            "one, train on outcome and format alone: --set reward.steps.strategy=none."
        ) from None


def make_step_judge(recipe: Recipe, say: Say = lambda _: None) -> StepJudge | None:
    """The judge that `judge:` names, probed; None when `reward.steps.strategy` is none.

    Raises InputError when it can't be reached or called.
    """
    if not recipe.reward.steps.on:
        return None
    check_judge(recipe)
    if asks_a_server(recipe):
        from botgrpo_cli.judges.client import make_judge
        from botgrpo_cli.tasks.aime.step_judge import ModelStepJudge

        client = make_judge(recipe.judge, say=say)
        return StepJudge(ModelStepJudge(client).about, client.label, client)
    made, judge = GENERATED[recipe.task.problems.source], recipe.judge
    errors = Errors(recipe.training.seed, flip=judge.flip)
    exact = ExactStepJudge(errors, against=judge.against, read=made.read, check=made.verify)
    return StepJudge(exact.about, exact.label, against=judge.against, simulated=errors.named())
