"""TRL's side of `vs_trl.py`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from common import Step
from datasets import Dataset
from ours import LEARNING_RATE, Load, reward
from transformers import PrinterCallback, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from botgrpo_cli.policy.load import Policy


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
            bf16=policy.compute_dtype == torch.bfloat16,
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
