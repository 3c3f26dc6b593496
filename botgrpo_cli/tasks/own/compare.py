"""How two answers of an own task are compared: a model reads both and decides by `task.compare`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from botgrpo_cli.errors import InputError
from botgrpo_cli.judges.pairwise import ModelPairJudge, PairJudge
from botgrpo_cli.judges.settings import ONLINE
from botgrpo_cli.recipe.schema import JudgeConfig, Recipe
from botgrpo_cli.tasks.base import Prompt, Say, Scored, Task
from botgrpo_cli.training.batches import held_out_of_run
from botgrpo_cli.winrate.contender import Comparison, Entry

if TYPE_CHECKING:
    from botgrpo_cli.tasks.own.task import OwnTask


class AnswerComparison(Comparison):
    """Answers are shown as they were written; an empty one has nothing to show."""

    shows = ("answers",)
    suffixes = (".txt", ".md")

    def __init__(self, task: type[OwnTask], recipe: Recipe) -> None:
        self._task, self._recipe = task, recipe

    def prompts(self) -> list[Prompt]:
        with self.checker() as task:
            there = task.prompts("held-out")
        return held_out_of_run(there, count=len(there))

    def checker(self) -> Task:
        return self._task.start(self._recipe, lambda _: None)

    def entry(self, scored: Scored) -> Entry:
        text = scored.detail["text"]
        return Entry(text, "text", "" if text.strip() else "The answer is empty.")

    def judge(self, config: JudgeConfig, shown: str, say: Say) -> PairJudge:
        if config.kind not in ONLINE:
            raise InputError(
                f"The judge '{config.kind}' can't compare answers of the task '{self._task.name}', only a model can: "
                "--judge openai:MODEL or bedrock:MODEL."
            )
        from botgrpo_cli.judges.client import make_judge

        client = make_judge(config, say=say)
        return ModelPairJudge(client, shown=shown, prompt="pairwise-answers", criterion=self._recipe.task.compare)
