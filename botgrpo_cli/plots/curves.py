"""A metric over training steps, for one run or several: the paper's figure 1 and its kin, with every seed shown."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.figure import Figure

from botgrpo_cli.metrics import in_words, is_share
from botgrpo_cli.plots.axes import draw_series, draw_thresholds, label_ends, set_axes
from botgrpo_cli.plots.caption import CAPTION_LINE, caption_of
from botgrpo_cli.plots.series import build_series, select_rows
from botgrpo_cli.plots.style import GREY, WIDTH, choose_looks, house_style, new_figure

_LEFT, _TOP = 0.72, 0.5  # margins in inches


def draw_curves(
    metrics: pd.DataFrame,
    *,
    metric: str = "compile_rate",
    split: str = "held-out",
    thresholds: Sequence[float] = (0.5, 0.8),
    title: str | None = None,
    note: str | None = None,
) -> Figure:
    """One curve a method or arm: a thin line a seed, the mean over seeds, and a band.

    `metrics` has the columns of `records.schema.COLUMNS`. `thresholds` are drawn where the metric is a share, as
    shares in [0, 1]. `note` is added to the caption. Raises InputError when there is nothing to draw.
    """
    rows = select_rows(metrics, metric, split)
    curves = build_series(rows)
    looks = choose_looks([(curve.name, curve.method) for curve in curves])
    caption = caption_of(metrics, rows, curves, split, note)
    lines = caption.count("\n") + 1
    bottom = 0.62 + CAPTION_LINE * lines
    height = max(3.55, 0.3 * len(curves)) + _TOP + bottom
    with house_style():
        figure = new_figure(height)
        axes = figure.add_axes((_LEFT / WIDTH, bottom / height, 0.5, 1 - (_TOP + bottom) / height))
        for curve, look in reversed(list(zip(curves, looks, strict=True))):  # the first one ends up on top
            draw_series(axes, curve, look)
        set_axes(axes, metric, rows, split=split if title else None)
        axes.set_title(title or f"{split[:1].upper()}{split[1:]} {in_words(metric)}")
        if is_share(metric):
            draw_thresholds(axes, thresholds)
        label_ends(figure, axes, curves, looks, metric)
        figure.text(_LEFT / WIDTH, 0.1 / height, caption, fontsize=8.5, color=GREY, va="bottom", linespacing=1.35)
    return figure
