"""The card beside the weights: how they were made and what they do before any reinforcement learning."""

from __future__ import annotations

from pathlib import Path

import torch
import transformers

from botgrpo_cli.tiny import react
from botgrpo_cli.tiny.build import BuildConfig
from botgrpo_cli.tiny.measure import Measured

ROWS = (
    ("completions", "samples", "{:.0f}"),
    ("compile rate", "compile_rate", "{:.1%}"),
    ("compiles without a lint finding", "clean_rate", "{:.1%}"),
    ("asked-for content in what compiles", "content_compiled", "{:.1%}"),
    ("finished within 320 tokens", "finished_rate", "{:.1%}"),
    ("exactly one closed block", "format_rate", "{:.1%}"),
    ("tokens, median", "tokens", "{:.0f}"),
    ("lines of code, median", "lines", "{:.0f}"),
    ("error rate a line, if lines are independent", "line_error_rate", "{:.1%}"),
)


def card(config: BuildConfig, parameters: int, loss: float, figures: dict[str, Measured]) -> str:
    """Markdown; `figures` maps a column title such as "T = 1" to what was measured."""
    header = ["", *figures]
    table = [f"| {' | '.join(header)} |", "|" + "---|" * len(header)]
    for label, field, form in ROWS:
        cells = [form.format(getattr(measured, field)) for measured in figures.values()]
        table.append(f"| {label} | {' | '.join(cells)} |")
    lines = [
        "# react-qwen2: the starting policy of the tiny scale",
        "",
        f"A Qwen2-shaped causal language model with {parameters:,} parameters ({config.layers} layers, hidden size",
        f"{config.hidden}, tied embeddings) and its own byte-level BPE of {config.vocabulary} entries. It was trained",
        f"from scratch on generated briefs (train split, {len(react.FAMILIES)} families) and components in which each",
        f"line holds an error with probability {config.damage:g}. It has seen no other text.",
        "Licence: Apache-2.0, as the code.",
        "",
        "Rebuild it (it took 30 minutes on two cores that had other work):",
        "",
        f"    python -m botgrpo_cli.tiny build react --seed {config.seed} --damage {config.damage:g}",
        "",
        f"{config.copy_batches} batches of random ids that come twice, to teach it to copy words from the brief, then",
        f"{config.batches:,} of {config.batch_size} components; Muon and AdamW, rate {config.learning_rate:g},",
        f"warm-up over {config.warmup} batches, then cosine decay; final loss {loss:.3f} nats a token; fp16.",
        f"torch {torch.__version__.partition('+')[0]}, transformers {transformers.__version__}; other versions or",
        "thread counts give slightly different weights.",
        "",
        "## Measured start, one completion for each held-out brief",
        "",
        *table,
        "",
    ]
    return "\n".join(lines)


def write_card(out: Path, text: str) -> None:
    (out / "CARD.md").write_text(text, encoding="utf-8")
