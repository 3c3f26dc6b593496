"""How two components for the same brief are compared: by their screenshots, or by their sources."""

from __future__ import annotations

from pathlib import Path

from botgrpo_cli.judges.offline import errors_of
from botgrpo_cli.judges.pairwise import ModelPairJudge, PairJudge
from botgrpo_cli.recipe.schema import JudgeConfig, Recipe
from botgrpo_cli.tasks.base import Prompt, Say, Scored
from botgrpo_cli.tasks.react.judges.registry import open_client
from botgrpo_cli.tasks.react.keys import RewardConfig
from botgrpo_cli.tasks.react.prompts import Kind, load_prompts
from botgrpo_cli.training.batches import held_out_of_run
from botgrpo_cli.winrate.contender import Comparison, Entry, Renderer

COMPONENT, ANSWER = (".jsx", ".tsx"), (".md", ".txt")  # a bare component; an answer with a code block in it
SHOWN_PROBLEM = 300  # characters
NEEDS_IMAGES = "Pairs of screenshots need a judge that takes images, and {why}. Name another model, or compare sources."


class AppComparison(Comparison):
    """Only the compiler has a say in who may show something."""

    shows = ("screenshots", "sources")
    suffixes = (*COMPONENT, *ANSWER)
    answers = "apps"

    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe

    def prompts(self) -> list[Prompt]:
        return _briefs(self._recipe.task.prompts)

    def every_prompt(self) -> list[Prompt]:
        return [*_briefs("generated"), *_briefs("briefs")]  # the easy briefs are among the latter

    def checker(self):
        from botgrpo_cli.tasks.react.task import ReactTask

        return ReactTask(self._recipe.model_copy(update={"reward": RewardConfig()}))

    def entry(self, scored: Scored) -> Entry:
        detail = scored.detail
        source, language = detail["code"], detail["language"] or "jsx"
        if scored.metrics["compile_rate"] == 1.0:
            return Entry(source, language, "")
        errors = [found["message"] for found in detail["diagnostics"] if found["tool"] == "compile"]
        if source is None:
            problem = "There is no code block in the answer."
        elif errors:
            problem = f"It does not compile: {errors[0]}"
        else:
            problem = "It does not compile."
        return Entry(source, language, problem[:SHOWN_PROBLEM])

    def read(self, file: Path, data: bytes) -> bytes:
        if file.suffix in ANSWER:
            return data
        return b"````" + file.suffix[1:].encode() + b"\n" + data + b"\n````\n"

    def judge(self, config: JudgeConfig, shown: str, say: Say) -> PairJudge:
        looks = shown == "screenshots"
        if client := open_client(config, say, need=NEEDS_IMAGES if looks else ""):
            return ModelPairJudge(client, shown=shown, prompt=f"pairwise-{shown}", looks=looks)
        from botgrpo_cli.tasks.react.judges.heuristic_pair import HeuristicPairJudge

        return HeuristicPairJudge(errors_of(config, 0), looks=looks)

    def renderer(self, needed: bool, say: Say) -> Renderer | None:
        from botgrpo_cli.tasks.react.browser import browser_status
        from botgrpo_cli.tasks.react.render import ReactRenderer

        return ReactRenderer(pages=2, progress=say) if needed or browser_status().path else None


def _briefs(kind: Kind) -> list[Prompt]:
    there = load_prompts(kind, "held-out")
    return held_out_of_run(there, count=len(there))
