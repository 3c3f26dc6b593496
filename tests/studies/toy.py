"""A study that trains for real in seconds: the toy task and a random policy behind the command line's own code.

`python -m tests.studies.toy train …` is what a run is started with, `python -m tests.studies.toy ablate STUDY OUT` runs
a study of such runs and prints a line at each look at them.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

TOY = (sys.executable, "-m", "tests.studies.toy")
RECIPE = """\
task: {prompts: generated}
method: {name: bot-grpo}
sampling: {prompts: 3, group_size: 4, max_new_tokens: 12}
training: {steps: 12, learning_rate: 3e-3, micro_batch: 4, threads: 1}
evaluation: {every: 1, prompts: 6, samples: 2}
checkpoint: {every: 3, keep_last: 2}
"""
STUDY = """\
title: Letters
figure: ours
recipe: toy.yaml
metrics: [compile_rate, length]
thresholds: [0.2, 0.5]
baseline: grpo
arms:
  bot-grpo:
    set:
      method: {name: bot-grpo}
  grpo:
    set:
      method: {name: grpo}
"""


def write_study(folder: Path, text: str = STUDY, recipe: str = RECIPE) -> Path:
    """`letters.yaml` and its recipe."""
    (folder / "toy.yaml").write_text(recipe, encoding="utf-8")
    path = folder / "letters.yaml"
    path.write_text(text, encoding="utf-8")
    return path


class Looks:
    """A watcher that prints a line an event."""

    def __init__(self, file=sys.stdout):
        self._file = file

    def begins(self, study, planned, jobs, count):
        self._say("begins", *(f"{run.name}:{run.state}" for run in planned))

    def started(self, job):
        self._say("started", job.row, job.column)

    def looked(self):
        self._say("looked")

    def ended(self, job):
        self._say("ended", job.row, job.column, job.state)

    def ends(self):
        self._say("ends")

    def _say(self, *words):
        print(*words, file=self._file, flush=True)


def train(arguments: list[str]) -> None:
    """`botgrpo train` as a study calls it, with another task and policy."""
    from rich.console import Console

    from botgrpo_cli.commands.train import run_to_end
    from botgrpo_cli.errors import InputError
    from botgrpo_cli.methods.registry import resolve
    from botgrpo_cli.policy.decode import choose_decoder
    from botgrpo_cli.recipe.load import load_recipe
    from botgrpo_cli.training.engines import make_engine
    from botgrpo_cli.training.run import Prepared
    from tests.conftest import make_policy
    from tests.training.toy import LetterTask

    class Task(LetterTask):
        headline = "compile_rate"

        def submit(self, completion):
            future = super().submit(completion)
            future.result().metrics["compile_rate"] = future.result().metrics["letter_rate"]
            return future

    parser = argparse.ArgumentParser()
    parser.add_argument("recipe")
    for name in ("--out", "--study", "--arm"):
        parser.add_argument(name)
    parser.add_argument("--resume", action="store_true")
    given = parser.parse_args(arguments)
    recipe = load_recipe(given.recipe).recipe
    if recipe.training.weight_decay == 0.125:  # a recipe that a run chokes on
        raise InputError("The toy can't be trained with this weight decay.")
    policy = make_policy()
    prepared = Prepared(recipe, policy, choose_decoder(policy), Task(), resolve(recipe.method), None, Path(given.out))
    engine = make_engine("native", prepared)
    run_to_end(Console(), prepared, given.resume, engine, study=given.study, arm=given.arm)


def ablate(study: str, out: str, *options: str) -> None:
    from botgrpo_cli.studies.load import load_study
    from botgrpo_cli.studies.run import run_study

    found = load_study(study, scale="tiny")
    run_study(found, Path(out), Looks(), resume="--resume" in options, count=2, launch=TOY)


if __name__ == "__main__":
    from botgrpo_cli.errors import InputError
    from botgrpo_cli.studies.child import end_with_the_starter

    try:
        if sys.argv[1] == "ablate":
            ablate(*sys.argv[2:])
        else:
            end_with_the_starter()
            train(sys.argv[2:])
    except InputError as error:
        print(f"Error: {error}")
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
