"""A run whose sampling and updates are TRL's; records, evaluation, warnings and Ctrl-C are the native engine's."""

from __future__ import annotations

import contextlib
import functools
import json
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from botgrpo_cli.errors import RunError
from botgrpo_cli.methods.advantages import group_statistics
from botgrpo_cli.records.manifest import read_manifest, write_manifest
from botgrpo_cli.training.checkpoint import list_checkpoints
from botgrpo_cli.training.loop import SAMPLES_A_STEP, Trainer
from botgrpo_cli.training.rollouts import Batch, added, summarise
from botgrpo_cli.training.trl_engine.config import Batches, GRPOConfig
from botgrpo_cli.training.trl_engine.scoring import Scorer
from botgrpo_cli.training.trl_engine.trainer import Figures, RecipeTrainer


@dataclass
class TrlRun(Trainer):
    """The native engine's run with TRL's loop in place of its own. `step` counts steps of the run, each one batch of
    rollouts; TRL counts optimizer steps, `batches.updates` of them a step."""

    config: GRPOConfig = field(kw_only=True)
    batches: Batches = field(kw_only=True)
    checkpoint: Path | None = field(default=None, kw_only=True)  # to go on from

    def __post_init__(self) -> None:
        super().__post_init__()
        self.optimizer = self.reference = None  # TRL has its own
        self.evaluated_at: int | None = None
        self.said_sharded = False
        self.uninterrupted = contextlib.ExitStack()
        self.trl: RecipeTrainer | None = None

    def run(self, evaluated_at: int | None = None) -> None:
        """See `Trainer.run`."""
        self.evaluated_at = evaluated_at
        with self.interrupts.watching():
            self.trl = self._trl_trainer()
            self._note_strategy()
            try:
                with self.uninterrupted:
                    self.trl.train(resume_from_checkpoint=str(self.checkpoint) if self.checkpoint else None)
                self.save()
            except KeyboardInterrupt:
                if self.trl.optimizer is not None:  # else there is no state yet
                    self.save()
                raise

    def _trl_trainer(self) -> RecipeTrainer:
        scorer = Scorer(self.task, self.policy, self.method, self.recipe, self.processes)
        if self.policy.has_adapters:  # peft would ask the hub whether the vocabulary was resized, at every checkpoint
            save = self.policy.model.save_pretrained
            self.policy.model.save_pretrained = lambda *a, **k: save(*a, **{"save_embedding_layers": False, **k})
        try:
            trainer = RecipeTrainer(
                self.policy, scorer, self.method, self.recipe, self.config, updates=self.batches.updates
            )
        except (ImportError, ValueError) as error:
            raise RunError(f"TRL could not set up the training: {error}") from error
        trainer.listener = self
        return trainer

    def _note_strategy(self) -> None:
        """How the processes share the work is accelerate's business, and known only now."""
        if self.processes.alone or not self.processes.main:
            return
        kind = self.trl.accelerator.distributed_type.value.lower()
        data = read_manifest(self.folder)
        data["strategy"] = "ddp" if kind.startswith("multi_") else kind
        write_manifest(self.folder, data)

    # Called by TRL's loop

    def begun(self) -> None:
        if self._due(self.step) and self.evaluated_at != self.step:
            self.evaluate()

    def weights_move(self) -> None:
        """From here on the step can't be left half done."""
        if self.trl.state.global_step % self.batches.updates == 0:
            self.uninterrupted.enter_context(self.interrupts.shield())

    def step_done(self, figures: Figures) -> None:
        seconds = figures.seconds
        mine = self.trl.scorer.batch
        parts = self.processes.gather(replace(mine, seconds_sample=seconds["sample"], seconds_score=seconds["score"]))
        batch = joined(parts, figures.group)
        metrics = figures.means() | summarise(batch)
        metrics |= group_statistics(figures.rewards, figures.mask, figures.group)
        update = time.perf_counter() - figures.started - sum(seconds.values())
        metrics |= self._timings(batch, advantage=seconds["advantage"], update=update)
        self._record(self.step + 1, "train", metrics, batch, figures.advantages, SAMPLES_A_STEP)
        self.step += 1
        self.uninterrupted.close()
        self.reporter.stepped(self.step, metrics)
        self._watch(metrics, flat=not bool(figures.advantages.any()))
        if self._due(self.step):
            self.evaluate()
        if self.step % self.recipe.checkpoint.every == 0:
            self.save()
        self.interrupts.agree()

    # What the engine does at these moments

    def evaluate(self) -> dict[str, float]:
        """With the project's own sampler, on the weights that TRL has trained."""
        if sharded(self.trl):
            if not self.said_sharded:
                self.reporter.note("Weights are sharded over the processes, so held-out prompts are not sampled.")
            self.said_sharded = True
            return {}
        training = self.policy.model.training
        self.policy.model.eval()
        try:
            self.decoder.refresh()
            return super().evaluate()
        finally:
            self.policy.model.train(training)

    def save(self) -> None:
        """`checkpoints/step-N/` as transformers' trainer writes it, beside and renamed; the native one's names hold."""
        if self.saved_at == self.step:
            return
        with self.interrupts.shield():
            written = self.folder / "checkpoints" / f"checkpoint-{self.trl.state.global_step}"
            final = written.with_name(f"step-{self.step}")
            # Sharded weights are gathered inside, and then no process may wait for the others' word.
            together = contextlib.nullcontext() if sharded(self.trl) else self.processes.agreed()
            with together, saying(final, self.step):
                self.trl._save_checkpoint(self.trl.model_wrapped, None)
            with self.processes.agreed(), saying(final, self.step):
                if self.processes.main:
                    (written / "training_args.bin").unlink(missing_ok=True)  # it names folders of this machine
                    (written / "trainer.json").write_text(json.dumps({"step": self.step, "engine": "trl"}) + "\n")
                    shutil.rmtree(final, ignore_errors=True)
                    written.rename(final)
                    for old in list_checkpoints(self.folder)[: -self.recipe.checkpoint.keep_last]:
                        shutil.rmtree(old.folder, ignore_errors=True)
            self.saved_at = self.step


@contextlib.contextmanager
def saying(folder: Path, step: int) -> Iterator[None]:
    try:
        yield
    except (OSError, RuntimeError) as error:  # torch.save raises RuntimeError when a write falls short
        raise RunError(f"The checkpoint of step {step} could not be written to {folder}: {error}.") from error


def joined(parts: list[Batch], group: torch.Tensor) -> Batch:
    """The processes' rows one after the other, with the group ids [B] that the advantages were computed with."""
    return Batch(
        prompts=[prompt for part in parts for prompt in part.prompts],
        prompt_ids=[ids for part in parts for ids in part.prompt_ids],
        rollouts=[rollout for part in parts for rollout in part.rollouts],
        scored=[scored for part in parts for scored in part.scored],
        group=group,
        seconds_sample=max(part.seconds_sample for part in parts),
        seconds_score=max(part.seconds_score for part in parts),
        counters=functools.reduce(added, [part.counters for part in parts]),
    )


def sharded(trainer: RecipeTrainer) -> bool:
    """Whether a process holds parts of the weights only."""
    plugin = trainer.accelerator.state.deepspeed_plugin if trainer.is_deepspeed_enabled else None
    return trainer.is_fsdp_enabled or (plugin is not None and plugin.zero_stage == 3)
