"""Curves with bars of the peak-to-final drop beside them (the paper's figure 10), and the fall of the worst shaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from botgrpo_cli.metrics import in_words, is_share
from botgrpo_cli.plots.axes import draw_series, label_ends, set_axes
from botgrpo_cli.plots.caption import CAPTION_LINE, caption_of
from botgrpo_cli.plots.series import Series, build_series, select_rows
from botgrpo_cli.plots.style import GREY, INK, WIDTH, Look, choose_looks, house_style, new_figure
from botgrpo_cli.stats import WINDOW, peak_to_final_drop, trailing_means

_LEFT, _TOP, _HEIGHT = 0.72, 0.5, 3.3
_BARS = 2.2  # inches for the bars on the right
_SHADE = "#f7ede2"


def draw_stability(
    metrics: pd.DataFrame,
    *,
    metric: str = "compile_rate",
    split: str = "held-out",
    title: str | None = None,
    note: str | None = None,
) -> Figure:
    """Curves on the left; on the right a bar an arm: highest mean of 5 evaluations in a row
    minus that of the last 5, mean over seeds, a dot a seed.

    Shaded: from the peak to the end, of the arm that falls most. `metrics` has the columns of `records.schema.COLUMNS`.
    Raises InputError when there is nothing to draw.
    """
    rows = select_rows(metrics, metric, split)
    curves = build_series(rows)
    looks = choose_looks([(curve.name, curve.method) for curve in curves])
    drops = {curve.label: _drops(curve) for curve in curves}
    falling = [curve for curve in curves if drops[curve.label]]
    worst = max(falling, key=lambda curve: np.mean(drops[curve.label]), default=None)
    said = f"Drop: highest mean of {WINDOW} evaluations in a row minus that of the last {WINDOW}."
    if worst is not None and np.mean(drops[worst.label]) > 0:
        said += f" Shaded: from the peak of '{worst.label}' to the end."
    elif worst is None:
        said += f" None can be told with fewer than {WINDOW} evaluations."
    caption = caption_of(metrics, rows, curves, split, " ".join(text for text in (said, note) if text))
    bottom = 0.62 + CAPTION_LINE * (caption.count("\n") + 1)
    height = _TOP + _HEIGHT + bottom
    with house_style():
        figure = new_figure(height)
        axes = figure.add_axes((_LEFT / WIDTH, bottom / height, 0.4, _HEIGHT / height))
        for curve, look in reversed(list(zip(curves, looks, strict=True))):
            draw_series(axes, curve, look)
        set_axes(axes, metric, rows, split=split if title else None)
        axes.set_title(title or f"{split[:1].upper()}{split[1:]} {in_words(metric)}")
        if worst is not None and np.mean(drops[worst.label]) > 0:
            axes.axvspan(_peak(worst), float(worst.steps[-1]), color=_SHADE, linewidth=0, zorder=0)
        label_ends(figure, axes, curves, looks, metric, room=1 - (_BARS + 0.1) / WIDTH)
        beside = figure.add_axes(
            (1 - (_BARS - 0.12) / WIDTH, bottom / height, (_BARS - 0.55) / WIDTH, _HEIGHT / height)
        )
        _draw_bars(beside, curves, looks, drops, share=is_share(metric))
        figure.text(_LEFT / WIDTH, 0.1 / height, caption, fontsize=8.5, color=GREY, va="bottom", linespacing=1.35)
    return figure


def _drops(curve: Series) -> list[float]:
    """Of each seed; empty where one has fewer than 5 evaluations."""
    found = [peak_to_final_drop(values.tolist()) for values in curve.values]
    return [] if None in found else found


def _peak(curve: Series) -> float:
    """The middle evaluation of the highest five in a row, of the mean over seeds."""
    there = ~np.isnan(curve.mean)
    steps = curve.steps[there]
    means = [mean for _, mean in trailing_means(steps.tolist(), curve.mean[there].tolist())]
    return float(steps[int(np.argmax(means)) + WINDOW // 2])


def _draw_bars(
    axes: Axes, curves: Sequence[Series], looks: Sequence[Look], drops: Mapping[str, list[float]], *, share: bool
) -> None:
    """One bar a curve, the first on top, its name above it."""
    highest = max([0.0, *(drop for of in drops.values() for drop in of)])
    for place, (curve, look) in enumerate(zip(curves, looks, strict=True)):
        of = drops[curve.label]
        row = len(curves) - 1 - place
        axes.text(0, row + 0.24, curve.label, fontsize=8.5, color=look.text_colour, va="bottom", clip_on=False)
        if not of:
            continue
        mean = float(np.mean(of))
        axes.barh(row, mean, height=0.36, color=look.colour, alpha=0.85, zorder=2)
        if len(of) > 1:
            axes.plot(of, [row] * len(of), linestyle="", marker="o", markersize=3.5, color=INK, alpha=0.6, zorder=3)
        axes.annotate(
            f"{100 * mean:.1f}" if share else f"{mean:.3g}", (max([mean, *of]), row), xytext=(5, 0),
            textcoords="offset points", va="center", fontsize=9.5, color=look.text_colour,
        )  # fmt: skip
    axes.set_xlim(0, max(1.25 * highest, 0.01 if share else 1e-9))
    axes.set_ylim(-0.5, len(curves) - 0.3)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines["bottom"].set_visible(False)
    axes.set_title(f"Peak-to-final drop{' (points)' if share else ''}", fontsize=10, fontweight="normal", pad=6)
