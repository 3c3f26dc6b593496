"""A whole task in a few lines, for tests of the trainer: write the letter 'a'."""

from __future__ import annotations

from concurrent.futures import Future

from botgrpo_cli.methods.registry import resolve
from botgrpo_cli.policy.decode import choose_decoder
from botgrpo_cli.recipe.schema import Recipe
from botgrpo_cli.records.schema import RunLabels
from botgrpo_cli.records.write import RunWriter
from botgrpo_cli.tasks.base import Completion, Prompt, Scored, Task
from botgrpo_cli.training.loop import Trainer
from tests.conftest import make_policy
from tests.recipes import ReactRecipe


class LetterTask(Task):
    """Reward: share of bytes that are 'a'. Local: -1 on every token that holds another byte. A step is three tokens."""

    name = "letters"
    headline = "letter_rate"

    def prompts(self, split):
        return [Prompt(f"{split}-{i}", f"say {i}", "easy") for i in range(12)]

    def submit(self, completion: Completion) -> Future[Scored]:
        share = completion.data.count(b"a") / max(1, len(completion.data))
        future: Future[Scored] = Future()
        metrics = {
            "letter_rate": share,
            "truncated": float(not completion.finished),
            "length": float(len(completion.pieces)),
        }
        local = [-float(bool(piece.strip(b"a"))) for piece in completion.pieces]
        steps = [t // 3 for t in range(len(local))]
        future.set_result(Scored(share, local, {"letters": share}, metrics, {"text": completion.text}, steps))
        return future


class Log:
    """A reporter that remembers."""

    def __init__(self):
        self.steps, self.evaluations, self.notes = [], [], []

    def stepped(self, step, metrics):
        self.steps.append((step, metrics))

    def evaluated(self, step, metrics):
        self.evaluations.append((step, metrics))

    def note(self, sentence):
        self.notes.append(sentence)


def make_recipe(**changes) -> Recipe:
    base = {
        "name": "toy",
        "scale": "tiny",
        "sampling": {"prompts": 3, "group_size": 4, "max_new_tokens": 12},
        "training": {"steps": 6, "learning_rate": 3e-3, "micro_batch": 4, "threads": 1},
        "evaluation": {"every": 2, "prompts": 4},
        "checkpoint": {"every": 3, "keep_last": 2},
    }
    for dotted, value in changes.items():
        section, key = dotted.split("__")
        base.setdefault(section, {})[key] = value
    return ReactRecipe.model_validate(base)


def make_trainer(folder, recipe=None, *, policy=None, writer=None, task=None) -> Trainer:
    recipe = recipe or make_recipe()
    policy = policy or make_policy()
    labels = RunLabels("toy", "letters", recipe.method.name, "random", "tiny", recipe.training.seed)
    writer = writer or RunWriter.create(folder, labels)
    return Trainer(recipe, policy, choose_decoder(policy), task or LetterTask(), resolve(recipe.method), writer, Log())
