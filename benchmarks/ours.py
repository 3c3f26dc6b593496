"""Our side of `vs_trl.py`, and the work that both sides do."""

from __future__ import annotations

import time
from concurrent.futures import Future
from dataclasses import dataclass, replace

from common import Step

from botgrpo_cli.methods.registry import METHODS
from botgrpo_cli.policy.decode import choose_decoder
from botgrpo_cli.policy.load import Policy, load_policy
from botgrpo_cli.recipe.schema import LoraConfig, PolicyConfig, TrainingConfig
from botgrpo_cli.tasks.base import Completion, Prompt, Scored
from botgrpo_cli.training.rollouts import collect, token_rewards
from botgrpo_cli.training.update import make_optimizer, update

LEARNING_RATE = 1e-6  # a real optimizer step that leaves the lengths of the next round alone


@dataclass(frozen=True)
class Load:
    """What both sides do in a step."""

    model: str
    prompts: tuple[Prompt, ...]
    group_size: int
    max_new_tokens: int
    micro_batch: int
    full_length: bool
    lora: bool = False

    @property
    def completions(self) -> int:
        return len(self.prompts) * self.group_size

    def policy(self) -> Policy:
        """A copy of its own on the CPU: adapters over weights in the dtype that pays here, or all of it in float32."""
        lora = LoraConfig() if self.lora else None
        dtype = "auto" if self.lora else "float32"
        return load_policy(PolicyConfig(model=self.model, dtype=dtype, device="cpu", lora=lora), scale="benchmark")


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

    def counters(self) -> dict[str, float | None]:
        return {}

    def provenance(self) -> dict[str, list[str]]:
        return {"heuristic": [], "simulated": []}

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
