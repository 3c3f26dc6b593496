"""Run by test_trl_processes.py, alone and under torchrun: score one batch, train one step, save what came out."""

from __future__ import annotations

import sys
import tempfile

import torch
from accelerate.utils import gather_object

from tests.integrations.trl_toy import make_trainer, score

METHODS = ("bot-grpo", "pure")


def main(file: str, rows: int) -> None:
    found = {}
    for method in METHODS:
        with tempfile.TemporaryDirectory() as folder:
            trainer = make_trainer(folder, method=method, rows=rows)
            inputs, batch = score(trainer)
            pairs = zip(batch["advantages"], batch["completion_mask"], strict=True)
            advantages = [row[mask.bool()].tolist() for row, mask in pairs]
            everyone = gather_object([(row["prompt"], a) for row, a in zip(inputs, advantages, strict=True)])
            metrics = {key: values[-1] for key, values in trainer._metrics["train"].items()}
            trainer.train()
        weights = {name: p.detach().clone() for name, p in trainer.model.named_parameters()}
        log = [entry for entry in trainer.state.log_history if "loss" in entry][-1]
        found[method] = {"advantages": everyone, "metrics": metrics, "weights": weights, "log": log}
        if trainer.accelerator.is_main_process:
            torch.save(found, file)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
