"""One training step of this package beside one of TRL's GRPOTrainer, same policy, same work.

    python benchmarks/vs_trl.py [--threads 1] [--rounds 5] [--json FILE]

A step is sample + score + update. Both sides start from the same weights and take the same prompts, group size,
token limit, micro-batch, objective, learning rate and thread count; the reward costs nothing and has spread. The two
are interleaved, one step of each in turn, so that whatever else the machine does falls on both. Two settings: `eos`
lets rollouts end by themselves, `full` forbids the end tokens, so that both do exactly the same number of tokens.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # the policy is local: nothing is to be looked up
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import torch
from common import Step, machine, show, summary
from datasets import Dataset
from rich.console import Console
from transformers import PrinterCallback, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from botgrpo_cli.methods.registry import METHODS
from botgrpo_cli.policy.decode import choose_decoder
from botgrpo_cli.policy.load import Policy, load_policy
from botgrpo_cli.recipe.schema import PolicyConfig, TrainingConfig
from botgrpo_cli.tasks.base import Completion, Prompt, Scored
from botgrpo_cli.tiny.react import prompts as tiny_prompts
from botgrpo_cli.training.rollouts import collect, token_rewards
from botgrpo_cli.training.update import make_optimizer, update

LEARNING_RATE = 1e-6  # a real optimizer step that leaves the lengths of the next round alone
SETTINGS = {"eos": "rollouts end by themselves", "full": "end tokens forbidden"}


@dataclass(frozen=True)
class Load:
    """What both sides do in a step."""

    model: str
    prompts: tuple[Prompt, ...]
    group_size: int
    max_new_tokens: int
    micro_batch: int
    full_length: bool

    @property
    def completions(self) -> int:
        return len(self.prompts) * self.group_size

    def policy(self) -> Policy:
        """A copy of the policy of its own, float32 on the CPU, every weight trained."""
        return load_policy(PolicyConfig(model=self.model, dtype="float32", device="cpu"))


def reward(data: bytes) -> float:
    """In [0, 1], from the first bytes alone: free, with spread in every group, and blind to the length."""
    return sum(data[:16]) % 8 / 7


class FreeTask:
    """A task whose score is `reward`, with no local signal, as TRL has none."""

    name = "free"
    headline = "reward"

    def __init__(self, load: Load) -> None:
        self.load = load

    def prompts(self, split: str) -> tuple[Prompt, ...]:
        return self.load.prompts

    def submit(self, completion: Completion) -> Future[Scored]:
        future: Future[Scored] = Future()
        future.set_result(Scored(reward(completion.data), [0.0] * len(completion.pieces), {}, {}))
        return future

    def versions(self) -> dict[str, str]:
        return {}

    def close(self) -> None:
        """Holds nothing open."""


class Ours:
    """The native trainer's step without its files: what `Trainer.train_step` does between the prompts and the rows."""

    def __init__(self, load: Load) -> None:
        self.load = load
        self.policy = load.policy()
        if load.full_length:  # an id outside the vocabulary is never sampled
            self.policy = replace(self.policy, eos_ids=frozenset({len(self.policy.tokenizer) + 1_000_000}))
        self.decoder = choose_decoder(self.policy)
        self.task = FreeTask(load)
        self.method = METHODS["grpo"]
        self.config = TrainingConfig(learning_rate=LEARNING_RATE, micro_batch=load.micro_batch)
        self.optimizer = make_optimizer(self.policy, self.config)
        self.steps = 0

    def step(self) -> Step:
        self.steps += 1
        started = time.perf_counter()
        batch = collect(
            self.policy,
            self.decoder,
            self.task,
            self.load.prompts,
            group_size=self.load.group_size,
            max_new_tokens=self.load.max_new_tokens,
            temperature=1.0,
            seed=0,
            step=self.steps,
        )
        sampled = time.perf_counter()
        advantages = token_rewards(batch, 0.0).advantages(self.method)  # [B, T]
        ready = time.perf_counter()
        update(
            self.policy,
            self.optimizer,
            self.method,
            batch,
            advantages,
            config=self.config,
            temperature=1.0,
            max_new_tokens=self.load.max_new_tokens,
            step=self.steps,
        )
        self.decoder.refresh()
        ended = time.perf_counter()
        parts = {
            "sample": sampled - started - batch.seconds_score,
            "score": batch.seconds_score,
            "advantages": ready - sampled,
            "update": ended - ready,
        }
        return Step(sum(batch.lengths), ended - started, parts)


class Theirs(TrainerCallback):
    """TRL's own `train()`. A step runs from its `on_step_begin` (before the generation, which is part of the first
    micro-batch) to its `on_step_end` (after the optimizer); what TRL does between steps is not counted, and there
    `between` runs, which says whether another step follows."""

    def __init__(self, load: Load, folder: str, between: Callable[[], bool]) -> None:
        self.load, self.between = load, between
        self.done: list[Step] = []
        self.tokens = 0
        self.generating = 0.0
        policy = load.policy()
        self.prompt_ids = [policy.encode(p.text) for p in load.prompts]
        self.trainer = GRPOTrainer(
            model=policy.model,
            processing_class=policy.tokenizer,
            reward_funcs=self.score,
            args=self.arguments(policy, folder),
            train_dataset=Dataset.from_list([{"prompt": [{"role": "user", "content": p.text}]} for p in load.prompts]),
            callbacks=[self],
        )
        self.trainer.remove_callback(PrinterCallback)
        self.generate = policy.model.generate
        policy.model.generate = self.timed_generate

    def arguments(self, policy: Policy, folder: str) -> GRPOConfig:
        suppressed = {"suppress_tokens": sorted(policy.eos_ids)} if self.load.full_length else None
        return GRPOConfig(
            output_dir=folder,
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            beta=0.0,
            loss_type="grpo",
            num_iterations=1,
            num_generations=self.load.group_size,
            per_device_train_batch_size=self.load.micro_batch,
            gradient_accumulation_steps=self.load.completions // self.load.micro_batch,
            max_completion_length=self.load.max_new_tokens,
            temperature=1.0,
            generation_kwargs=suppressed,
            learning_rate=LEARNING_RATE,
            lr_scheduler_type="constant",
            max_grad_norm=1.0,
            max_steps=10_000,  # `measure` stops it
            logging_strategy="no",
            save_strategy="no",
            eval_strategy="no",
            report_to=[],
            disable_tqdm=True,
        )

    def score(self, completions: list[Any], completion_ids: list[list[int]], **_: Any) -> list[float]:
        self.tokens += sum(map(len, completion_ids))
        return [reward(completion[0]["content"].encode()) for completion in completions]

    def timed_generate(self, input_ids: torch.Tensor, **arguments: Any) -> torch.Tensor:
        started = time.perf_counter()
        out = self.generate(input_ids=input_ids, **arguments)
        self.generating += time.perf_counter() - started
        self.check_prompts(input_ids, arguments["attention_mask"])
        return out

    def check_prompts(self, ids: torch.Tensor, attention: torch.Tensor) -> None:
        """Both sides must have encoded the prompts to the same ids."""
        seen = sorted(row[kept.bool()].tolist() for row, kept in zip(ids, attention, strict=True))
        assert seen == sorted(self.prompt_ids * self.load.group_size), "TRL saw other prompts than we did"

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.tokens, self.generating = 0, 0.0
        self.started = time.perf_counter()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        seconds = time.perf_counter() - self.started
        parts = {"generate": self.generating, "other": seconds - self.generating}
        self.done.append(Step(self.tokens, seconds, parts))
        control.should_training_stop = not self.between()


def measure(load: Load, rounds: int) -> dict[str, list[Step]]:
    """One warm-up step of each, then `rounds` of each in turn; the warm-ups are left out of the result."""
    ours, ours_done = Ours(load), []

    def our_turn() -> bool:
        ours_done.append(ours.step())
        return len(ours_done) <= rounds

    with tempfile.TemporaryDirectory() as folder:
        theirs = Theirs(load, folder, our_turn)
        theirs.trainer.train()
    done = {"botgrpo": ours_done[1:], "trl": theirs.done[1:]}
    if load.full_length:
        expected = load.completions * load.max_new_tokens
        assert all(step.tokens == expected for steps in done.values() for step in steps), "a rollout ended early"
    return done


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--policy", default="tiny:react-qwen2", help="as policy.model of a recipe (default %(default)s)"
    )
    parser.add_argument("--threads", type=int, default=1, help="torch threads of both sides (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="measured steps of each side (default %(default)s)")
    parser.add_argument("--prompts", type=int, default=8, help="prompts a step (default %(default)s)")
    parser.add_argument("--group-size", type=int, default=8, help="rollouts a prompt (default %(default)s)")
    parser.add_argument("--tokens", type=int, default=200, help="token limit of a rollout (default %(default)s)")
    parser.add_argument("--micro-batch", type=int, default=16, help="rollouts a backward pass (default %(default)s)")
    parser.add_argument("--json", type=Path, help="also write everything measured to this file")
    chosen = parser.parse_args()
    if chosen.prompts * chosen.group_size % chosen.micro_batch:
        parser.error("--prompts times --group-size must be a multiple of --micro-batch, or the two sides differ.")
    return chosen


def main() -> None:
    chosen = options()
    torch.set_num_threads(chosen.threads)
    console = Console(highlight=False, width=120)
    facts = machine(chosen.threads, ("torch", "transformers", "trl"))
    console.print(", ".join(f"{name} {value}" for name, value in facts.items()))
    console.print(
        f"{chosen.policy}: {chosen.prompts} prompts x {chosen.group_size} rollouts, at most {chosen.tokens} tokens, "
        f"micro-batch {chosen.micro_batch}; median of {chosen.rounds} after one warm-up, interleaved\n"
    )
    results = {}
    for setting in SETTINGS:
        load = Load(
            model=chosen.policy,
            prompts=tuple(tiny_prompts("train")[: chosen.prompts]),
            group_size=chosen.group_size,
            max_new_tokens=chosen.tokens,
            micro_batch=chosen.micro_batch,
            full_length=setting == "full",
        )
        results[setting] = summary(measure(load, chosen.rounds))
        show(console, f"{setting}: {SETTINGS[setting]}", results[setting])
    if chosen.json:
        arguments = {key: value for key, value in vars(chosen).items() if key != "json"}
        chosen.json.write_text(json.dumps({"machine": facts, "options": arguments, **results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
