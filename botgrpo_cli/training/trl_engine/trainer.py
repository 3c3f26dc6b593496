"""TRL's side of a run: a `BagOfTokensTrainer` fed with the prompts of the run's steps, whose figures are collected."""

from __future__ import annotations

import hashlib
import math
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from datasets import Dataset
from torch import Tensor
from transformers import PrinterCallback, TrainerCallback
from trl import GRPOConfig

from botgrpo_cli.integrations.trl import BagOfTokensTrainer
from botgrpo_cli.methods.registry import Method
from botgrpo_cli.policy.load import Policy
from botgrpo_cli.recipe.schema import Recipe
from botgrpo_cli.training.batches import prompts_of_step
from botgrpo_cli.training.trl_engine.scoring import Scorer

# Our name of a mean over tokens: TRL's, which it takes for each micro-batch.
TOKEN_MEANS = {
    "entropy": "entropy",
    "kl": "kl",
    "clip_share": "clip_ratio/region_mean",
    "clip_share_low": "clip_ratio/low_mean",
    "clip_share_high": "clip_ratio/high_mean",
}
SAMPLER_GAP = "sampling/sampling_logp_difference/mean"  # with vLLM alone


class Listener(Protocol):
    """Who hears of what TRL's loop does."""

    def begun(self) -> None:
        """The weights are in place, nothing is sampled yet."""
        ...

    def weights_move(self) -> None:
        """The next thing is an optimizer step."""
        ...

    def step_done(self, figures: Figures) -> None:
        """All optimizer steps on one batch of rollouts are done."""
        ...


@dataclass
class Figures:
    """What a step of the run did, collected while TRL's loop goes through it."""

    started: float = field(default_factory=time.perf_counter)
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    sums: dict[str, float] = field(default_factory=lambda: defaultdict(float))  # over tokens
    tokens: float = 0.0
    logs: list[dict[str, float]] = field(default_factory=list)  # TRL's, one an optimizer step
    skipped: int = 0
    rewards: Tensor | None = None  # [B, T] of all processes
    mask: Tensor | None = None  # [B, T]
    group: Tensor | None = None  # [B]
    advantages: Tensor | None = None  # [B, T]

    def means(self) -> dict[str, float]:
        """The metrics of an update, by the names of the native engine."""
        found = {name: self.sums[name] / max(1.0, self.tokens) for name in TOKEN_MEANS}
        found["loss"] = _mean([log["loss"] for log in self.logs])
        found["grad_norm"] = _mean([log.get("grad_norm", float("nan")) for log in self.logs])
        gaps = [log[SAMPLER_GAP] for log in self.logs if log.get(SAMPLER_GAP) is not None]
        if gaps:
            found["sampler_gap"] = _mean(gaps)
        return {
            **found,
            "skipped_steps": float(self.skipped),
            "updates": float(len(self.logs)),
            "learning_rate": self.logs[-1]["learning_rate"],
        }


class RecipeTrainer(BagOfTokensTrainer):
    """Prompts, rewards, learning rate and seeds as the native engine has them; sampling and updates are TRL's."""

    def __init__(
        self, policy: Policy, scorer: Scorer, method: Method, recipe: Recipe, config: GRPOConfig, updates: int
    ) -> None:
        self.policy, self.scorer, self.recipe = policy, scorer, recipe
        self.updates = updates  # optimizer steps a step of the run
        self.listener: Listener | None = None
        self.figures = Figures()
        self.grad_norm: Any = 0.0
        super().__init__(
            policy.model,
            scorer.reward,
            config,
            dataset_of(recipe, scorer),
            processing_class=policy.tokenizer,
            token_reward_funcs=scorer.local,
            token_reward_weights=[recipe.method.local_weight],
            steps_func=scorer.steps,
            method=method,
        )
        without_dropout(self.model)
        self.remove_callback(PrinterCallback)
        self.add_callback(Hooks(self))

    # What TRL does differently by default

    def _tokenize_prompts(self, prompts: list[str]) -> tuple[list[list[int]], None, dict[str, Any]]:
        return self.policy.encode_all([self.scorer.shown[prompt] for prompt in prompts]), None, {}

    def create_scheduler(self, num_training_steps: int, optimizer: torch.optim.Optimizer | None = None) -> Any:
        """Linear warm-up that begins above 0, by steps of the run, then constant."""
        if self.lr_scheduler is None:
            warmup = max(1, self.recipe.training.warmup_steps)
            self.lr_scheduler = torch.optim.lr_scheduler.LambdaLR(
                optimizer or self.optimizer, lambda update: min(1.0, (update // self.updates + 1) / warmup)
            )
            self._created_lr_scheduler = True
        return self.lr_scheduler

    def get_decay_parameter_names(self, model: torch.nn.Module) -> list[str]:
        """Weight decay on all weights; transformers leaves out biases and norms."""
        return [name for name, _ in model.named_parameters()]

    def create_model_card(self, *_: Any, **__: Any) -> None:
        """A checkpoint of a run is described by the run's manifest."""

    def _send_telemetry(self) -> None:
        """A run tells nobody of itself."""

    # What is collected

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        self.figures = Figures()
        step = self.scorer.step = self.state.global_step // self.updates + 1
        torch.manual_seed(seed_of(self.recipe.training.seed, step, self.accelerator.process_index))
        return super()._generate_and_score_completions(inputs)

    def _generate(self, prompts: list[str]) -> tuple:
        return self._timed("sample", super()._generate, prompts)

    def _calculate_rewards(self, *arguments: Any) -> Tensor:
        return self._timed("score", super()._calculate_rewards, *arguments)

    def _token_advantages(self, *arguments: Any) -> Tensor:
        return self._timed("advantage", super()._token_advantages, *arguments)

    def _timed(self, name: str, function: Callable[..., Any], *arguments: Any) -> Any:
        started = time.perf_counter()
        try:
            return function(*arguments)
        finally:
            self.figures.seconds[name] += time.perf_counter() - started

    def _log_groups(self, mode: str, tokens: Tensor, mask: Tensor, group: Tensor, advantages: Tensor) -> None:
        super()._log_groups(mode, tokens, mask, group, advantages)
        figures = self.figures
        figures.rewards, figures.mask, figures.group, figures.advantages = (
            values.cpu() for values in (tokens, mask, group, advantages)
        )

    def _compute_loss(self, model: torch.nn.Module, inputs: dict[str, Any]) -> Tensor:
        loss = super()._compute_loss(model, inputs)
        # TRL logs the mean of its micro-batches' means; weighted by their tokens it is the mean over tokens.
        tokens = self.accelerator.reduce(inputs["completion_mask"].sum().float(), reduction="sum").item()
        self.figures.tokens += tokens
        for name, key in TOKEN_MEANS.items():
            if values := self._metrics["train"].get(key):
                self.figures.sums[name] += tokens * values[-1]
        return loss

    def _clip_grad_norm(self, model: torch.nn.Module) -> Any:
        self.grad_norm = super()._clip_grad_norm(model)
        return self.grad_norm

    def before_update(self) -> None:
        """A gradient whose norm is not finite is dropped: AdamW would make every weight of it NaN."""
        self.listener.weights_move()
        if self.is_deepspeed_enabled:
            return  # its engine has a check of its own, and keeps the gradients to itself
        if not math.isfinite(float(self.grad_norm)):  # the same everywhere: gradients are reduced
            self.figures.skipped += 1
            for p in self.model.parameters():
                p.grad = None

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        super().log(logs, start_time)
        if "loss" not in logs:
            return  # the summary at the end
        self.figures.logs.append(dict(logs))
        if self.state.global_step % self.updates == 0:
            self.listener.step_done(self.figures)


class Hooks(TrainerCallback):
    """The moments of TRL's loop that the run acts at."""

    def __init__(self, trainer: RecipeTrainer) -> None:
        self.trainer = trainer

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        self.trainer.listener.begun()

    def on_pre_optimizer_step(self, *_: Any, **__: Any) -> None:
        self.trainer.before_update()


def dataset_of(recipe: Recipe, scorer: Scorer) -> Dataset:
    """The prompts of step 1, then those of step 2, and so on: the ones the native engine takes."""
    every, count, seed = list(scorer.prompts.values()), recipe.sampling.prompts, recipe.training.seed
    steps = range(1, recipe.training.steps + 1)
    rows = [prompt for step in steps for prompt in prompts_of_step(every, count=count, seed=seed, step=step)]
    shown = {prompt.id: text for text, prompt in scorer.shown.items()}
    return Dataset.from_dict({"prompt": [shown[p.id] for p in rows], "prompt_id": [p.id for p in rows]})


def seed_of(seed: int, step: int, process: int) -> int:
    """Everything random in a step depends on these alone, so that a resumed run goes on as it would have."""
    return int.from_bytes(hashlib.sha256(f"{seed}|{step}|{process}".encode()).digest()[:7], "little")


def without_dropout(model: torch.nn.Module) -> None:
    """Also where a model keeps the rate as a number of its attention modules: TRL turns `nn.Dropout` off alone, and
    trains in training mode. With dropout the first ratio would not be 1."""
    for module in model.modules():
        for name in ("attention_dropout", "dropout"):
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, 0.0)


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
