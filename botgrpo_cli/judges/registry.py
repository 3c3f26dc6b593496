"""From the recipe's `judge:` and `reward:` sections to the judges of a run. What is off is not made, nor probed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from botgrpo_cli.errors import InputError, RunError
from botgrpo_cli.judges.base import OUTCOMES, Judge
from botgrpo_cli.judges.pairwise import ModelPairJudge, PairJudge
from botgrpo_cli.judges.simulate import SIMULATED, Errors
from botgrpo_cli.judges.verdicts import CodeJudge, ScreenJudge
from botgrpo_cli.recipe.rewards import RewardConfig
from botgrpo_cli.recipe.schema import JudgeConfig, Recipe

Say = Callable[[str], None]


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


class Tally(Executor):
    """An executor that counts what it is given, so that offline judges have the counters of the others."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="heuristic-judge")
        self._lock = threading.Lock()
        self._count = 0

    def submit(self, work: Callable, /, *arguments: Any, **named: Any) -> Future:
        with self._lock:
            self._count += 1
        try:
            return self._threads.submit(work, *arguments, **named)
        except RuntimeError:
            raise RunError("The judges were closed while samples were waiting.") from None

    def take(self) -> dict[str, float | None]:
        with self._lock:
            count, self._count = self._count, 0
        counts = dict.fromkeys(("asks", "calls", "cache_hits", *OUTCOMES), 0.0)
        return {**counts, "asks": float(count), "ok": float(count)}

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._threads.shutdown(wait, cancel_futures=cancel_futures)


def make_judges(recipe: Recipe, say: Say = lambda _: None) -> Judges:
    """The judges that `reward.code_judge` and `reward.vlm` ask for, probed.

    Raises InputError when the judge can't be reached, sees no images though a VLM mode is on, or has a kind that no
    React app can be judged with.
    """
    reward, config = recipe.reward, recipe.judge
    code, screen = reward.code_judge.on, reward.vlm.judged
    if not code and not screen:
        return Judges()
    if client := _client(config, say, images=screen, mode=reward.vlm.mode):
        return _model_judges(client, reward, code=code, screen=screen)
    return _offline_judges(config, reward, recipe.training.seed, code=code, screen=screen)


def make_pair_judge(config: JudgeConfig, *, looks: bool, seed: int = 0, say: Say = lambda _: None) -> PairJudge:
    """The judge of pairs that a `judge:` section names: of screenshots when it `looks`, else of sources.

    Training and evaluation judges are distinct models in the paper: give this one its own section.
    Raises InputError as `make_judges` does.
    """
    if client := _client(config, say, images=looks, mode="pairwise"):
        return ModelPairJudge(client, looks=looks)
    from botgrpo_cli.judges.heuristic_pair import HeuristicPairJudge

    return HeuristicPairJudge(_errors(config, seed), looks=looks)


def _client(config: JudgeConfig, say: Say, *, images: bool, mode: str) -> Judge | None:
    if config.kind == "heuristic":
        return None
    if config.kind == "exact":
        raise InputError(
            "judge.kind is 'exact', which knows the truth of mathematics only; React apps are judged with kind "
            "heuristic, openai or bedrock."
        )
    from botgrpo_cli.judges.client import make_judge

    judge = make_judge(config, say=say)
    if images and not judge.sees_images:
        judge.close()
        why = f"the judge {judge.label} sees no images: {judge.describe()['images']}"
        raise InputError(
            f"Pairs of screenshots need a judge that takes images, and {why}. Name another model, or compare sources."
            if mode == "pairwise"
            else f"reward.vlm.mode is '{mode}', and {why}. Name a model that takes images with judge.model, or set "
            "reward.vlm.mode=none."
        )
    return judge


def _model_judges(client: Judge, reward: RewardConfig, *, code: bool, screen: bool) -> Judges:
    from botgrpo_cli.judges.code import ModelCodeJudge
    from botgrpo_cli.judges.screenshot import ModelScreenJudge

    return Judges(
        code=ModelCodeJudge(client, lines=reward.code_judge.lines) if code else None,
        screen=ModelScreenJudge(client, reward.vlm.mode) if screen else None,
        label=client.label,
        client=client,
    )


def _offline_judges(config: JudgeConfig, reward: RewardConfig, seed: int, *, code: bool, screen: bool) -> Judges:
    from botgrpo_cli.judges.heuristic import HeuristicCodeJudge
    from botgrpo_cli.judges.heuristic_screen import HeuristicScreenJudge

    errors, tally = _errors(config, seed), Tally()
    return Judges(
        code=HeuristicCodeJudge(tally, errors, lines=reward.code_judge.lines) if code else None,
        screen=HeuristicScreenJudge(tally, errors, reward.vlm.mode) if screen else None,
        label="simulated" if errors.named() else "heuristic",
        heuristic=[*(["reward.code_judge"] if code else []), *(["reward.vlm"] if screen else [])],
        simulated=errors.named(),
        tally=tally,
        executor=tally,
    )


def _errors(config: JudgeConfig, seed: int) -> Errors:
    return Errors(seed, **{name: getattr(config, name) for name in SIMULATED})
