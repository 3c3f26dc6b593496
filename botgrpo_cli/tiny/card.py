"""The card beside the weights: how they were made and what they do before any reinforcement learning."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import transformers

from botgrpo_cli.tiny.build import BuildConfig
from botgrpo_cli.tiny.shapes import TITLES
from botgrpo_cli.tiny.texts import Stage


def card(
    name: str,
    config: BuildConfig,
    *,
    parameters: int,
    vocabulary: int,
    loss: float,
    minutes: float,
    figures: Mapping[str, Any],
) -> str:
    """Markdown; `figures` maps a column title such as "T = 1" to what was measured, `minutes` are of the training."""
    header = ["", *figures]
    table = [f"| {' | '.join(header)} |", "|" + "---|" * len(header)]
    for label, field, form in config.source.rows:
        cells = [form.format(getattr(measured, field)) for measured in figures.values()]
        table.append(f"| {label} | {' | '.join(cells)} |")
    damage = config.stages[-1].damage
    copying = f"- {config.copy_batches} of random ids that come twice: they teach it to copy\n"
    lines = [
        f"# {name}: a starting policy of the tiny scale",
        "",
        f"A {TITLES[config.architecture]}-shaped causal language model with {parameters:,} parameters ({config.layers}",
        f"layers, hidden size {config.hidden}, tied embeddings) and its own byte-level BPE of {vocabulary} entries.",
        f"It was trained from scratch on {config.source.trained_on}",
        f"with probability {damage:g}, train split. It has seen no other text.",
        "Licence: Apache-2.0, as the code.",
        "",
        f"Rebuild it (the training took {minutes:.0f} minutes on one busy core):",
        "",
        f"    python -m botgrpo_cli.tiny build {name} --seed {config.seed} --damage {damage:g}",
        "",
        f"Batches of {config.batch_size}, one after the other:",
        "",
        (copying if config.copy_batches else "") + "\n".join(f"- {stage_text(stage)}" for stage in config.stages),
        "",
        f"Muon and AdamW, rate {config.learning_rate:g}, warm-up over {config.warmup} batches, then cosine decay;",
        f"final loss {loss:.3f} nats a token; fp16. torch {torch.__version__.partition('+')[0]}, transformers",
        f"{transformers.__version__}; other versions or thread counts give slightly different weights.",
        "",
        "## Measured start, on held-out prompts",
        "",
        *table,
        "",
    ]
    return "\n".join(lines)


def stage_text(stage: Stage) -> str:
    """A stage in the words of the card."""
    what = f" of {stage.operations[0]} to {stage.operations[1]} operations" if stage.operations else " like the prompts"
    return f"{stage.batches:,}{what}, " + (f"damaged with probability {stage.damage:g}" if stage.damage else "clean")


def write_card(out: Path, text: str) -> None:
    (out / "CARD.md").write_text(text, encoding="utf-8")
