"""The training loop: sample, score, advantages, update, record. It knows nothing of terminals."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from botgrpo_cli.errors import RunError
from botgrpo_cli.methods.advantages import group_statistics
from botgrpo_cli.methods.registry import Method
from botgrpo_cli.policy.decode import Decoder
from botgrpo_cli.policy.load import Policy
from botgrpo_cli.recipe.schema import Recipe
from botgrpo_cli.records.write import RunWriter
from botgrpo_cli.rewards.spans import readable
from botgrpo_cli.tasks.base import UNSCORED, Attachment, Prompt, Task
from botgrpo_cli.training.batches import held_out_of_run
from botgrpo_cli.training.checkpoint import save_checkpoint
from botgrpo_cli.training.estimates import answers_of, pass_rates, prompt_means
from botgrpo_cli.training.interrupt import Interrupts
from botgrpo_cli.training.processes import ALONE, Processes
from botgrpo_cli.training.refill import collect_step, rewards_of
from botgrpo_cli.training.rollouts import Batch, collect, collect_over, summarise, unscored
from botgrpo_cli.training.update import make_optimizer, update

MAX_SKIPPED = 5  # non-finite gradients in a row after which the run stops
QUIET_STEPS = 3  # steps in a row without any signal after which the run warns
SAMPLES_A_STEP = 2  # training rollouts a step that go to samples.jsonl
SAMPLES_AN_EVALUATION = 4
PICTURES = 2  # rollouts kept beside those for their attachments, where there are any


class Reporter(Protocol):
    """What a run tells the outside; the command line draws a progress bar from it."""

    def stepped(self, step: int, metrics: dict[str, float]) -> None: ...

    def evaluated(self, step: int, metrics: dict[str, float]) -> None: ...

    def note(self, sentence: str) -> None: ...


@dataclass
class Trainer:
    """One run. Everything random depends on (seed, step) alone, so `step` and the weights are its whole state.

    Of several processes each has its own, with the same weights and the same step; they leave `run` alike.
    """

    recipe: Recipe
    policy: Policy
    decoder: Decoder
    task: Task
    method: Method
    writer: RunWriter
    reporter: Reporter
    processes: Processes = ALONE
    step: int = 0  # updates done
    interrupts: Interrupts = field(init=False)

    def __post_init__(self) -> None:
        self.interrupts = Interrupts(self.processes)
        self.optimizer = make_optimizer(self.policy, self.recipe.training)
        # Taken before a checkpoint is loaded: the reference of the KL is where the run started.
        self.reference = self.policy.snapshot() if self.recipe.training.kl > 0 else None
        self.train_prompts = self.task.prompts("train")
        self.held_out = held_out_of_run(self.task.prompts("held-out"), count=self.recipe.evaluation.prompts)
        self.skipped_in_a_row = 0
        self.recent: deque[tuple[bool, bool]] = deque(maxlen=QUIET_STEPS)  # (all truncated, no advantage at all)
        self.saved_at: int | None = None
        self.said: set[str] = set()  # reasons why rollouts could not be scored

    @property
    def folder(self) -> Path:
        return self.writer.folder

    def run(self, evaluated_at: int | None = None) -> None:
        """Train up to `training.steps`; `evaluated_at` is the last step whose evaluation is on disk already.

        Raises:
            KeyboardInterrupt: after the state was saved.
            RunError: the run can't go on; the last checkpoint is kept.
        """
        with self.interrupts.watching():
            try:
                if self._due(self.step) and evaluated_at != self.step:
                    self.evaluate()
                while self.step < self.recipe.training.steps:
                    self.train_step()
                    if self._due(self.step):
                        self.evaluate()
                    if self.step % self.recipe.checkpoint.every == 0:
                        self.save()
                    self.interrupts.agree()
                self.save()
            except KeyboardInterrupt:
                self.save()
                raise

    def _due(self, step: int) -> bool:
        return step % self.recipe.evaluation.every == 0 or step == self.recipe.training.steps

    def save(self) -> None:
        if self.saved_at == self.step:
            return
        with self.interrupts.shield():
            keep = self.recipe.checkpoint.keep_last
            save_checkpoint(
                self.folder, self.policy, self.optimizer, step=self.step, keep_last=keep, processes=self.processes
            )
            self.saved_at = self.step

    def train_step(self) -> None:
        """One update and its rows: all of them, or, when interrupted, none."""
        step, recipe, config = self.step + 1, self.recipe, self.recipe.training
        batch, refilled = collect_step(
            self.train_prompts,
            self.method,
            recipe,
            step=step,
            collect=lambda prompts: self._collect(prompts, step=step, group_size=recipe.sampling.group_size),
        )
        self._say_unscored(batch)
        rewards = rewards_of(batch, self.method, recipe)
        started = time.perf_counter()
        advantages = rewards.advantages(self.method)  # [B, T]
        ready = time.perf_counter()
        with contextlib.ExitStack() as uninterrupted:
            metrics = update(
                self.policy,
                self.optimizer,
                self.method,
                batch,
                advantages,
                config=config,
                temperature=recipe.sampling.temperature,
                max_new_tokens=recipe.sampling.max_new_tokens,
                step=step,
                reference=self.reference,
                before_weights_move=lambda: uninterrupted.enter_context(self.interrupts.shield()),
                processes=self.processes,
                between_passes=self.interrupts.agree,
            )
            self.decoder.refresh()
            metrics |= summarise(batch) | group_statistics(rewards.tokens, rewards.mask, rewards.group) | refilled
            metrics |= self._timings(batch, advantage=ready - started, update=time.perf_counter() - ready)
            self._record(step, "train", metrics, batch, advantages, SAMPLES_A_STEP)
            self.step = step
        self.reporter.stepped(step, metrics)
        self._watch(metrics, flat=not bool(advantages.any()))

    def _timings(self, batch: Batch, *, advantage: float, update: float) -> dict[str, float]:
        seconds = batch.seconds_sample + batch.seconds_score + advantage + update
        return {
            "seconds_sample": batch.seconds_sample,
            "seconds_score": batch.seconds_score,
            "seconds_advantage": advantage,
            "seconds_update": update,
            "tokens_per_second": sum(batch.lengths) / seconds,
        }

    def _collect(self, prompts: list[Prompt], *, step: int | str, group_size: int, evaluation: bool = False) -> Batch:
        recipe = self.recipe
        limit = recipe.sampling.max_new_tokens
        if evaluation:
            limit = recipe.evaluation.max_new_tokens or limit

        def collect_part(part: Sequence[Prompt]) -> Batch:
            with self.interrupts.exposed():
                return collect(
                    self.policy,
                    self.decoder,
                    self.task,
                    part,
                    group_size=group_size,
                    max_new_tokens=limit,
                    temperature=recipe.evaluation.temperature if evaluation else recipe.sampling.temperature,
                    seed=recipe.training.seed,
                    step=step,
                )

        return collect_over(self.processes, prompts, collect_part)

    def evaluate(self) -> dict[str, float]:
        """Sample the held-out prompts; their random streams are the same at every evaluation of a seed."""
        batch = self._collect(
            self.held_out, step="held-out", group_size=self.recipe.evaluation.samples, evaluation=True
        )
        self._say_unscored(batch)
        answers = answers_of(batch)
        metrics = summarise(batch) | pass_rates(answers, self.task.headline)
        metrics |= {"prompts": float(len(self.held_out))}
        with self.interrupts.shield():
            with self.processes.agreed():  # before metrics.csv, whose rows say that the evaluation is done
                self.writer.held_out(self.step, self.task.headline, prompt_means(answers, self.task.headline))
            self._record(self.step, "held-out", metrics, batch, None, SAMPLES_AN_EVALUATION)
        self.reporter.evaluated(self.step, metrics)
        return metrics

    def _record(
        self,
        step: int,
        split: str,
        metrics: dict[str, float],
        batch: Batch,
        advantages: torch.Tensor | None,
        count: int,
    ) -> None:
        chosen = chosen_rollouts(batch, count)
        rows = [sample_row(batch, i, split, None if advantages is None else advantages[i]) for i in chosen]
        for i, row in zip(chosen, rows, strict=True):
            if advantages is not None:
                row["pieces"] = readable(self.policy.token_bytes.pieces(batch.rollouts[i].ids))
        with self.processes.agreed():
            self.writer.metrics(step, [(split, name, value) for name, value in metrics.items()])
            self.writer.samples(step, rows)

    def _say_unscored(self, batch: Batch) -> None:
        """Says each new reason once.

        Raises:
            RunError: no rollout of the batch could be scored; the state is saved.
        """
        for reason in unscored(batch):
            if reason.partition(" for ")[0] not in self.said:
                self.said.add(reason.partition(" for ")[0])
                self.reporter.note(f"A rollout could not be scored and leaves its group: {reason}")
                self.writer.event(f"unscored after step {self.step}: {reason}")
        if all(UNSCORED in scored.detail for scored in batch.scored):
            self.save()
            raise RunError(
                f"No rollout could be scored any more; the state after step {self.step} is saved in {self.folder}. "
                f"{unscored(batch)[0]}"
            )

    def _watch(self, metrics: dict[str, float], *, flat: bool) -> None:
        self.skipped_in_a_row = self.skipped_in_a_row + 1 if metrics["skipped_steps"] else 0
        if self.skipped_in_a_row >= MAX_SKIPPED:
            raise RunError(
                f"The gradient norm was not finite in {MAX_SKIPPED} steps in a row, so the run stopped at step "
                f"{self.step}. A lower training.learning_rate or policy.dtype=float32 usually helps."
            )
        self.recent.append((metrics.get("truncated") == 1.0, flat))
        if len(self.recent) < QUIET_STEPS:
            return
        truncated, flat = (all(column) for column in zip(*self.recent, strict=True))
        if truncated or flat:
            why = (
                "every completion was truncated (raise sampling.max_new_tokens)"
                if truncated
                else ("no group had any spread in its rewards (an easier prompt set or a graded term would give some)")
            )
            self.reporter.note(f"Nothing is being learnt: in the last {QUIET_STEPS} steps {why}.")
            self.writer.event(f"warning at step {self.step}: {why}")
            self.recent.clear()


def chosen_rollouts(batch: Batch, count: int) -> list[int]:
    """`count` rollouts spread over the groups, and up to two of those that have an attachment."""
    shown = [
        i for i, scored in enumerate(batch.scored) if any(isinstance(v, Attachment) for v in scored.detail.values())
    ]
    return sorted({*_spread(range(len(batch.rollouts)), count), *_spread(shown, PICTURES)})


def _spread(items: Sequence[int], count: int) -> list[int]:
    return [items[i] for i in np.linspace(0, len(items) - 1, count).astype(int)] if items else []


def sample_row(batch: Batch, index: int, split: str, advantages: torch.Tensor | None) -> dict[str, Any]:
    """One rollout for samples.jsonl: prompt, text, terms, diagnostics; for training also the token advantages."""
    scored, rollout, prompt = batch.scored[index], batch.rollouts[index], batch.prompts[index]
    row: dict[str, Any] = {
        "split": split,
        "prompt_id": prompt.id,
        "prompt": prompt.text,
        "rollout": index,
        "finished": rollout.finished,
        "tokens": len(rollout.ids),
        "reward": scored.reward,
        "terms": scored.terms,
        "metrics": scored.metrics,
        **scored.detail,
    }
    if advantages is not None:
        row["ids"] = rollout.ids
        row["local"] = [round(v, 4) for v in scored.local]
        row["advantages"] = [round(v, 4) for v in advantages[: len(rollout.ids)].tolist()]
    return row
