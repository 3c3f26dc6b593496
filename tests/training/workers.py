"""What test_processes.py runs in several processes: `python -m tests.training.workers ACTION FOLDER CASE...`."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from transformers import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer

from botgrpo_cli.errors import RunError
from botgrpo_cli.methods.registry import resolve
from botgrpo_cli.policy.decode import choose_decoder
from botgrpo_cli.policy.logprobs import shares_prompts
from botgrpo_cli.policy.sharding import shard
from botgrpo_cli.training import run
from botgrpo_cli.training.evaluate import Subject, run_evaluation
from botgrpo_cli.training.processes import ALONE, Processes, join
from tests.conftest import make_policy
from tests.training.toy import LetterTask, Log, make_recipe

BASE = {
    "sampling__prompts": 4,
    "training__steps": 3,
    "training__learning_rate": 1e-3,
    "training__micro_batch": 2,
    "evaluation__every": 2,
    "evaluation__prompts": 3,  # not a multiple of the processes
    "checkpoint__every": 2,
}
CASES = {
    "bot-grpo": {},
    "gspo": {},  # minibatches of 4 rows
    "pure": {},
    "dapo": {"sampling__group_size": 3, "training__micro_batch": 4},
    "kl": {"training__kl": 0.1, "training__inner_epochs": 2, "method__minibatches": 3},  # one has no rows at times
    "lora": {"training__kl": 0.1},
    "generic": {},
    "recomputed": {"method__minibatches": 3},  # activations, in the backward pass
}
SHARDED_CASES = ("bot-grpo", "kl", "lora", "generic", "recomputed")


def prepare(case: str, out: Path, processes: Processes, task: LetterTask | None = None, **changes) -> run.Prepared:
    """As `run.prepare` does it, with the parts of a toy."""
    method = case if case in ("gspo", "pure", "dapo") else "bot-grpo"
    recipe = make_recipe(method__name=method, **{**BASE, **CASES[case], **changes})
    policy = make_policy("smollm3" if case == "generic" else "qwen2", lora=case == "lora")
    if case == "recomputed":
        recompute(policy.model)
    decoder = choose_decoder(policy, to_be_sharded=processes.sharded)
    if processes.sharded:
        shard(policy)
    return run.Prepared(recipe, policy, decoder, task or LetterTask(), resolve(recipe.method), None, out, processes)


def recompute(model: PreTrainedModel) -> None:
    """As `load_policy` does it for `policy.gradient_checkpointing`."""
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    for layer in model.modules():
        if isinstance(layer, GradientCheckpointingLayer):
            layer.training = True


def train(folder: Path, cases: list[str], processes: Processes = ALONE) -> None:
    """A run of each case, then an evaluation as `botgrpo evaluate` makes it."""
    for case in cases:
        run.start(prepare(case, folder / case, processes), Log()).run()
    subject, task = Subject("toy", make_recipe(), None), LetterTask()
    options = {"split": "held-out", "prompts": 5, "samples": 2, "processes": processes}
    batch = run_evaluation(subject, make_policy(), task, **options)
    if processes.main:
        rows = [[prompt.id, scored.reward] for prompt, scored in zip(batch.prompts, batch.scored, strict=True)]
        (folder / "evaluated.json").write_text(json.dumps(rows))


def go_on(folder: Path, cases: list[str], processes: Processes = ALONE) -> None:
    """Go on from the checkpoint of step 2."""
    for case in cases:
        trainer, evaluated_at = run.resume(prepare(case, folder / case, processes), Log())
        assert trainer.step == evaluated_at == 2
        trainer.run(evaluated_at)


class SignallingTask(LetterTask):
    """Sends SIGINT to its process while a given rollout is scored."""

    def __init__(self, at: int) -> None:
        self.at, self.count = at, 0

    def submit(self, completion):
        self.count += 1
        if self.count == self.at:
            os.kill(os.getpid(), signal.SIGINT)
        return super().submit(completion)


class FailingTask(LetterTask):
    """Can't score a given rollout."""

    def __init__(self, at: int) -> None:
        self.at, self.count = at, 0

    def submit(self, completion):
        self.count += 1
        if self.count == self.at:
            raise RunError("the compiler is gone")
        return super().submit(completion)


def stopped(folder: Path, places: list[str], processes: Processes) -> None:
    """Process 1 alone is signalled while it samples (`sample-N`) or in the forward pass N of its updates (`pass-N`), or
    can't score a rollout (`score-N`). Both stop; what they say goes to a file each."""
    for place in places:
        kind, _, number = place.partition("-")
        at = int(number) if processes.rank == 1 else 0
        task = FailingTask(at) if kind == "score" else SignallingTask(at if kind == "sample" else 0)
        prepared = prepare("bot-grpo", folder / place, processes, task)
        passes = []

        def signal_in_pass(*_, passes=passes, at=at if kind == "pass" else 0):
            passes.append(1)
            if len(passes) == at:
                os.kill(os.getpid(), signal.SIGINT)

        shares_prompts(prepared.policy)  # a question that runs the model, asked once
        prepared.policy.causal_lm.base_model.register_forward_hook(signal_in_pass)
        trainer = run.start(prepared, Log())
        try:
            trainer.run()
            said = "done"
        except KeyboardInterrupt:
            said = "interrupted"
        except RunError as error:
            said = str(error)
        (folder / f"{place}-{processes.rank}.txt").write_text(f"{said} after step {trainer.step}")


def dying(folder: Path, _: list[str], processes: Processes) -> None:
    """Process 1 ends without a word."""
    trainer = run.start(prepare("bot-grpo", folder / "dying", processes), Log())
    if processes.rank == 1:
        os._exit(3)
    trainer.run()


if __name__ == "__main__":
    action, place, *arguments = sys.argv[1:]
    together = join()
    globals()[action](Path(place), arguments, together)
    together.leave()
