"""From the recipe's `judge:` and `reward:` sections to the judges of a run. What is off is not made, nor probed."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any

from botgrpo_cli.errors import InputError
from botgrpo_cli.judges.base import Judge
from botgrpo_cli.judges.offline import Tally, errors_of
from botgrpo_cli.recipe.schema import JudgeConfig, Recipe
from botgrpo_cli.tasks.base import Say
from botgrpo_cli.tasks.react.judges.verdicts import CodeJudge, ScreenJudge
from botgrpo_cli.tasks.react.keys import RewardConfig


@dataclass
class Judges:
    """Those of one run. `code` and `screen` are None when they are off."""

    code: CodeJudge | None = None
    screen: ScreenJudge | None = None
    label: str = ""  # "heuristic", "simulated", "openai:MODEL"; empty without a judge
    client: Judge | None = None  # None for the offline ones
    heuristic: list[str] = field(default_factory=list)  # reward terms that an offline judge gives
    simulated: list[str] = field(default_factory=list)  # errors added to them, in words
    tally: Tally | None = None  # of the offline ones
    executor: Executor | None = None

    @property
    def offline(self) -> bool:
        return bool(self.label) and self.client is None

    def counters(self) -> dict[str, float | None]:
        """Since the last call: see `base.Judge.counters`; of offline judges the verdicts, all of them ok."""
        if self.client is not None:
            return self.client.counters()
        return self.tally.take() if self.tally else {}

    def describe(self) -> dict[str, Any]:
        """For the manifest; empty without a judge."""
        if self.client is not None:
            return self.client.describe()
        return {"kind": self.label, "errors": self.simulated} if self.label else {}

    def close(self) -> None:
        if self.client is not None:
            self.client.close()
        if self.executor is not None:
            self.executor.shutdown(wait=False, cancel_futures=True)


def make_judges(recipe: Recipe, say: Say = lambda _: None) -> Judges:
    """The judges that `reward.code_judge` and `reward.vlm` ask for, probed.

    Raises InputError when the judge can't be reached, sees no images though a VLM mode is on, or has a kind that no
    React app can be judged with.
    """
    reward, config = recipe.reward, recipe.judge
    code, screen = reward.code_judge.on, reward.vlm.judged
    if not code and not screen:
        return Judges()
    if client := open_client(config, say, need=_need(reward) if screen else ""):
        return _model_judges(client, reward, code=code, screen=screen)
    return _offline_judges(config, reward, recipe.training.seed, code=code, screen=screen)


def _need(reward: RewardConfig) -> str:
    return (
        f"reward.vlm.mode is '{reward.vlm.mode}', and {{why}}. Name a model that takes images with judge.model, or set "
        "reward.vlm.mode=none."
    )


def open_client(config: JudgeConfig, say: Say, *, need: str = "") -> Judge | None:
    """The model that a `judge:` section names, probed; None for the heuristic.

    `need` says, with a place {why}, that images must be seen. Raises InputError: it can't be reached, sees no images,
    or knows mathematics only.
    """
    if config.kind == "heuristic":
        return None
    if config.kind == "exact":
        raise InputError(
            "judge.kind is 'exact', which knows the truth of mathematics only; React apps are judged with kind "
            "heuristic, openai or bedrock."
        )
    from botgrpo_cli.judges.client import make_judge

    judge = make_judge(config, say=say)
    if need and not judge.sees_images:
        judge.close()
        raise InputError(need.format(why=f"the judge {judge.label} sees no images: {judge.describe()['images']}"))
    return judge


def _model_judges(client: Judge, reward: RewardConfig, *, code: bool, screen: bool) -> Judges:
    from botgrpo_cli.tasks.react.judges.code import ModelCodeJudge
    from botgrpo_cli.tasks.react.judges.screenshot import ModelScreenJudge

    return Judges(
        code=ModelCodeJudge(client, lines=reward.code_judge.lines) if code else None,
        screen=ModelScreenJudge(client, reward.vlm.mode) if screen else None,
        label=client.label,
        client=client,
    )


def _offline_judges(config: JudgeConfig, reward: RewardConfig, seed: int, *, code: bool, screen: bool) -> Judges:
    from botgrpo_cli.tasks.react.judges.heuristic import HeuristicCodeJudge
    from botgrpo_cli.tasks.react.judges.heuristic_screen import HeuristicScreenJudge

    errors, tally = errors_of(config, seed), Tally()
    return Judges(
        code=HeuristicCodeJudge(tally, errors, lines=reward.code_judge.lines) if code else None,
        screen=HeuristicScreenJudge(tally, errors, reward.vlm.mode) if screen else None,
        label="simulated" if errors.named() else "heuristic",
        heuristic=[*(["reward.code_judge"] if code else []), *(["reward.vlm"] if screen else [])],
        simulated=errors.named(),
        tally=tally,
        executor=tally,
    )
