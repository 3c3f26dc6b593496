"""A trainer over a tiny random policy whose completions are known: they depend on prompt and rollout number alone."""

from __future__ import annotations

import zlib

import torch
from datasets import Dataset
from trl import GRPOConfig

from botgrpo_cli.integrations.trl import BagOfTokensTrainer, grpo_settings
from tests.conftest import make_policy

LIMIT = 8
PROMPTS = 12


def local_rewards(prompts, completions, completion_ids, **_):
    """Another number at every token; every fifth id is punished."""
    return [[0.01 * i % 1 - float(i % 5 == 0) for i in ids] for ids in completion_ids]


def outcome(prompts, completions, completion_ids, **_):
    return [float(sum(ids) % 7) for ids in completion_ids]


def steps_of_two(prompts, completions, completion_ids, **_):
    return [[t // 2 for t in range(len(ids))] for ids in completion_ids]


class KnownCompletions(BagOfTokensTrainer):
    """Everything is TRL's and ours, except that nothing is sampled."""

    def _generate(self, prompts):
        given = super()._generate(prompts)
        prompt_ids, completions, images = given[0], given[3], given[6]
        size = self.num_generations if self.model.training else self.num_generations_eval
        first = self.accelerator.process_index * len(prompts)
        ids = [self.rollout(prompt, (first + k) % size) for k, prompt in enumerate(prompts)]
        return (prompt_ids, ids, self.tool_mask(ids), completions, None, {}, images, [])

    def rollout(self, prompt, number):
        generator = torch.Generator().manual_seed(zlib.crc32(f"{prompt} {number}".encode()))
        length = int(torch.randint(1, LIMIT + 1, (1,), generator=generator))
        return torch.randint(3, 200, (length,), generator=generator).tolist()

    def tool_mask(self, ids):
        return None


def make_trainer(folder, cls=KnownCompletions, *, method="bot-grpo", rows=12, settings=None, **options):
    """`rows` completions a process in groups of four."""
    policy = make_policy()
    base = {
        **grpo_settings(method),
        "per_device_train_batch_size": rows,
        "num_generations": 4,
        "max_completion_length": LIMIT,
        "max_steps": 1,
        "logging_steps": 1,
        "learning_rate": 0.1,
        "optim": "sgd",
        "save_strategy": "no",
        "shuffle_dataset": False,
        "gradient_checkpointing": False,
        "bf16": False,
        "use_cpu": True,
        "disable_tqdm": True,
        "report_to": "none",
    }
    config = GRPOConfig(str(folder), **base | (settings or {}))
    options.setdefault("token_reward_funcs", local_rewards)
    options.setdefault("steps_func", steps_of_two)
    return cls(
        policy.model,
        options.pop("reward_funcs", outcome),
        config,
        Dataset.from_dict({"prompt": [f"say {i}" for i in range(PROMPTS)], "weight": [1.0] * PROMPTS}),
        processing_class=policy.tokenizer,
        method=method,
        **options,
    )


def score(trainer, *, train=True):
    """A whole generation batch of this process, as TRL makes it. Returns (inputs, batch)."""
    trainer.model.train(train)
    rows = next(iter(trainer.get_train_dataloader()))
    return rows, trainer._generate_and_score_completions(rows)
