"""From a prepared run to one that TRL trains: everything is checked before the first file is written."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from botgrpo_cli.integrations.trl_settings import require_trl
from botgrpo_cli.recipe.load import dump_recipe
from botgrpo_cli.records.manifest import write_manifest
from botgrpo_cli.records.read import read_metrics
from botgrpo_cli.records.write import RunWriter, write_atomic
from botgrpo_cli.training.checkpoint import list_checkpoints
from botgrpo_cli.training.loop import Reporter
from botgrpo_cli.training.run import (
    RECIPE_FILE,
    Prepared,
    SilentWriter,
    labels_of,
    manifest_of,
    refuse_other_recipe,
)
from botgrpo_cli.training.trl_engine.config import batches_of, make_config
from botgrpo_cli.training.trl_engine.run import TrlRun


@dataclass
class TrlEngine:
    """See `botgrpo_cli.training.engines.Engine`."""

    prepared: Prepared

    def __post_init__(self) -> None:
        p = self.prepared
        self.version = require_trl()
        self.batches = batches_of(p.recipe, p.method, p.processes.count)
        self.config = make_config(p.recipe, p.method, p.policy, p.out, self.batches)

    def rows(self) -> list[tuple[str, str]]:
        """(label, sentence) pairs for the plan."""
        b = self.batches
        how = "vLLM" if self.config.use_vllm else "transformers' generate"
        rows = [
            (
                "engine",
                f"TRL {self.version}: rollouts from {how}; {b.micro} rollouts a pass x {b.accumulation} passes an "
                f"optimizer step x {b.updates} optimizer steps a step; the sampler above is that of evaluations",
            )
        ]
        return [*rows, *(("note", note) for note in self.notes())]

    def notes(self) -> list[str]:
        """What of the recipe TRL does not do."""
        if not self.prepared.method.refills:
            return []
        return [
            f"method.refills is {self.prepared.method.refills}, but TRL can't sample other prompts in place of groups "
            "without spread; they stay in the batch, with advantage 0."
        ]

    def start(self, reporter: Reporter, *, study: str = "", arm: str = "") -> TrlRun:
        """Write the first files of a new run. Raises InputError: the folder holds something already."""
        out, processes = self.prepared.out, self.prepared.processes
        writer: RunWriter = SilentWriter(out, labels_of(self.prepared, study, arm))
        with processes.agreed():
            if processes.main:
                writer = RunWriter.create(out, writer.labels)
                write_atomic(out / RECIPE_FILE, dump_recipe(self.prepared.recipe).encode())
                write_manifest(out, self.manifest())
                writer.event(f"started with TRL {self.version}")
                for note in self.notes():
                    writer.event(note)
        return self._run(writer, reporter)

    def resume(self, reporter: Reporter, *, study: str = "", arm: str = "") -> tuple[TrlRun, int | None]:
        """Go on from the last checkpoint. Returns the run and the step whose evaluation is on disk already, or None.

        Raises:
            InputError: there is no run, or its recipe is another one.
        """
        out, processes = self.prepared.out, self.prepared.processes
        writer: RunWriter = SilentWriter(out, labels_of(self.prepared, study, arm))
        evaluated_at = None
        with processes.agreed():
            refuse_other_recipe(self.prepared.recipe, out)
            checkpoints = list_checkpoints(out)
            run = self._run(writer, reporter)
            if checkpoints:
                run.checkpoint = checkpoints[-1].folder
                run.step = run.saved_at = checkpoints[-1].step
            if processes.main:
                run.writer = RunWriter.resume(out, writer.labels)
                run.writer.truncate_after(run.step if checkpoints else -1)
                for torn in (out / "checkpoints").glob("checkpoint-*"):
                    shutil.rmtree(torn, ignore_errors=True)
                rows = read_metrics(out)
                if len(rows[(rows["split"] == "held-out") & (rows["step"] == run.step)]):
                    evaluated_at = run.step
                write_atomic(out / RECIPE_FILE, dump_recipe(self.prepared.recipe).encode())  # steps may be more now
                run.writer.event(f"resumed at step {run.step} with TRL {self.version}")
        return run, processes.gather(evaluated_at)[0]

    def manifest(self) -> dict[str, Any]:
        data = manifest_of(self.prepared)
        data["engine"] = "trl"
        data["engine_notes"] = self.notes()
        data["software"]["trl"] = self.version
        return data

    def _run(self, writer: RunWriter, reporter: Reporter, checkpoint: Path | None = None) -> TrlRun:
        p = self.prepared
        return TrlRun(
            p.recipe,
            p.policy,
            p.decoder,
            p.task,
            p.method,
            writer,
            reporter,
            p.processes,
            config=self.config,
            batches=self.batches,
            checkpoint=checkpoint,
        )
