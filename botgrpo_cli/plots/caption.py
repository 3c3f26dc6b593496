"""The words below a figure: what the curves were made with, and what line and band mean."""

from __future__ import annotations

import textwrap

import numpy as np
import pandas as pd

from botgrpo_cli.plots.series import FEW_SEEDS, Series

CAPTION_WIDTH = 112  # characters a line
CAPTION_LINE = 0.165  # inches


def caption_of(metrics: pd.DataFrame, rows: pd.DataFrame, curves: list[Series], split: str, note: str | None) -> str:
    """What the curves were made with and what line and band mean, wrapped."""
    facts = []
    for column, word in (("task", "task"), ("scale", "scale"), ("base_model", "base model")):
        found = [text for text in rows[column].unique() if text]
        if found:
            facts.append(f"{word}{'s' if len(found) > 1 else ''} {', '.join(found)}")
    seeds = {tuple(curve.seeds) for curve in curves}
    if len(seeds) == 1:
        facts.append(_seeds(curves[0].seeds))
    else:
        facts.append("; ".join(f"{curve.label}: {_seeds(curve.seeds)}" for curve in curves))
    sizes = metrics.loc[(metrics["split"] == split) & (metrics["metric"] == "prompts"), "value"].dropna().unique()
    if len(sizes):
        facts.append(f"{', '.join(f'{size:.0f}' for size in sorted(sizes))} {split} prompts")
    labels = rows[["run", "study", "arm", "task", "method", "base_model", "scale"]].drop_duplicates().to_numpy().ravel()
    facts += [f"some labels say: {word}" for word in ("heuristic", "simulated") if any(word in text for text in labels)]
    paragraphs = [" · ".join(facts), legend_of(curves), note or ""]
    return "\n".join(textwrap.fill(text, CAPTION_WIDTH, break_on_hyphens=False) for text in paragraphs if text)


def legend_of(curves: list[Series]) -> str:
    """What line and band of these curves mean; empty for one seed without gaps."""
    words = []
    counts = {len(curve.seeds) for curve in curves}
    if max(counts) > 1:
        words.append("Thick: mean over seeds; thin: each seed")
    if any(1 < count < FEW_SEEDS for count in counts):
        words.append(f"band: minimum to maximum{f' (under {FEW_SEEDS} seeds)' if max(counts) >= FEW_SEEDS else ''}")
    if max(counts) >= FEW_SEEDS:
        words.append("band: 95 % bootstrap interval of the mean over seeds")
    if any((np.isnan(curve.values) & curve.logged).any() for curve in curves):
        words.append("gaps: missing values")
    text = "; ".join(words)
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _seeds(seeds: list[int]) -> str:
    return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"
