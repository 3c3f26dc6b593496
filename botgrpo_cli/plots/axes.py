"""Parts of a figure of curves: lines of seeds with mean and band, axes in percent, names beside the last points."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib import patheffects
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from botgrpo_cli.metrics import in_words, is_share, shown
from botgrpo_cli.plots.series import FEW_SEEDS, Series
from botgrpo_cli.plots.style import GREY, WIDTH, Look

_GAP = 0.12  # inches between the axes and the labels beside them
_LABEL_WIDTH = 24  # characters a line of a label
_MARKERS = 20  # about as many a curve


def draw_series(axes: Axes, curve: Series, look: Look) -> None:
    many = len(curve.seeds) >= FEW_SEEDS
    for seed, values, logged in zip(curve.seeds, curve.values, curve.logged, strict=True):
        if len(curve.seeds) > 1:
            axes.plot(
                curve.steps[logged], values[logged], color=look.colour, linewidth=0.7 if many else 0.9,
                alpha=0.35 if many else 0.5, marker=".", markersize=1.5 if many else 3,
                label=f"_{curve.label} seed {seed}",
            )  # fmt: skip
    # A step that only some seeds logged breaks no line: the mean goes on to the next step that all of them have.
    common = curve.logged.all(axis=0)
    steps, mean = curve.steps[common], curve.mean[common]
    band = curve.band()
    if band is not None:
        low, high = band[0][common], band[1][common]
        axes.fill_between(steps, low, high, where=~np.isnan(mean), color=look.colour, alpha=0.13, linewidth=0)
    axes.plot(
        steps, mean, color=look.colour, linestyle=look.dash, linewidth=2.3, marker=look.marker, markersize=6.5,
        markeredgecolor="white", markeredgewidth=0.8, markevery=_marked(mean), label=curve.label, zorder=4,
    )  # fmt: skip


def _marked(values: np.ndarray) -> list[int]:
    """Points that get a marker: evenly spread ones, the last, and those that no line reaches. values [N]"""
    there = np.flatnonzero(~np.isnan(values))
    if not len(there):
        return []
    alone = [i for i in there if i - 1 not in there and i + 1 not in there]
    spread = there[:: -(-len(there) // _MARKERS)]
    return sorted({int(i) for i in (*alone, *spread, there[-1])})


def set_axes(axes: Axes, metric: str, rows: pd.DataFrame, *, split: str | None = None) -> None:
    """Limits, ticks and names for a metric over steps; `split` joins its name where no title says it."""
    share = is_share(metric)
    first, last = int(rows["step"].min()), int(rows["step"].max())
    pad = 0.012 * (last - first) or 0.5
    axes.set_xlim(first - pad, last + pad)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=9, integer=True, steps=[1, 2, 5, 10], min_n_ticks=1))
    axes.set_xlabel("Training step")
    words = f"{split} {in_words(metric)}" if split else in_words(metric)
    axes.set_ylabel(f"{words[:1].upper()}{words[1:]}{' (%)' if share else ''}")
    axes.grid(axis="y", color="#ebebeb", linewidth=0.8)
    axes.tick_params(length=3)
    if share and (metric.endswith("_rate") or rows["value"].max() > 0.25):
        axes.set_ylim(-0.02, 1.04)
        axes.set_yticks(np.linspace(0, 1, 6))
    elif share:
        axes.set_ylim(bottom=0)
    if share:
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g}"))


def draw_thresholds(axes: Axes, thresholds: Sequence[float]) -> None:
    low, high = axes.get_ylim()
    for level in thresholds:
        if low <= level <= high:
            axes.axhline(level, color="#a8a8a8", linewidth=0.9, zorder=1.5, label="_threshold")
            text = axes.annotate(
                f"{100 * level:.3g} %", (0, level), xycoords=("axes fraction", "data"), xytext=(4, 2),
                textcoords="offset points", fontsize=8.5, color=GREY, va="bottom", zorder=5,
            )  # fmt: skip
            text.set_path_effects([patheffects.withStroke(linewidth=2.5, foreground="white")])


def label_ends(
    figure: Figure, axes: Axes, curves: list[Series], looks: list[Look], metric: str, *, room: float = 1.0
) -> None:
    """Name each curve beside its last point, moved up or down where names would overlap; set the right margin, so that
    names end at `room`, a share of the figure's width."""
    texts, ends = [], []
    for curve, look in zip(curves, looks, strict=True):
        step, value = last_point(curve)
        words = f"{_wrapped_label(curve.label)}  {shown(metric, value)}"
        texts.append(
            axes.annotate(
                words, (step, value), xytext=(1.0, value), textcoords=("axes fraction", "data"),
                color=look.text_colour, fontsize=10.5, va="center", linespacing=1.1, annotation_clip=False, zorder=6,
            )
        )  # fmt: skip
        ends.append((step, value))
    renderer = figure.canvas.get_renderer()
    boxes = [text.get_window_extent(renderer) for text in texts]
    box = axes.get_position()
    width = room - box.x0 - (max(extent.width for extent in boxes) / figure.dpi + _GAP + 0.08) / WIDTH
    axes.set_position((box.x0, box.y0, width, box.height))
    bottom, top = axes.transAxes.transform([(0, 0), (0, 1)])[:, 1]
    points = axes.transData.transform(ends)
    centres = spread_out(points[:, 1], [extent.height + 3 for extent in boxes], bottom - 5, top + 5)
    edge = axes.transAxes.transform((1, 0))[0]
    for text, point, centre, look in zip(texts, points, centres, looks, strict=True):
        _, y = axes.transAxes.inverted().transform((edge, centre))
        text.set_position((1 + _GAP * figure.dpi / (edge - axes.transAxes.transform((0, 0))[0]), y))
        text.anncoords = "axes fraction"
        if abs(centre - point[1]) > 2 or edge - point[0] > _GAP * figure.dpi:  # far from its curve: lead the eye
            middle = axes.transAxes.inverted().transform(point)
            axes.plot(
                [middle[0], 1 + 0.75 * (text.get_position()[0] - 1)], [middle[1], y], transform=axes.transAxes,
                color=look.colour, linestyle=(0, (1, 2)), linewidth=1, clip_on=False, zorder=3, label="_leader",
            )  # fmt: skip


def _wrapped_label(label: str) -> str:
    """Broken between its parts where it is long, inside one only where that is too long itself."""
    if len(label) <= _LABEL_WIDTH:
        return label or "(no name)"
    return "\n".join(line for part in label.split(" · ") for line in textwrap.wrap(part, _LABEL_WIDTH))


def last_point(curve: Series) -> tuple[float, float]:
    """Where the mean ends; where there is no mean, the last value of any seed."""
    values = curve.mean if not np.isnan(curve.mean).all() else pd.DataFrame(curve.values).bfill().iloc[0].to_numpy()
    there = np.flatnonzero(~np.isnan(values))
    return (curve.steps[there[-1]], values[there[-1]]) if len(there) else (curve.steps[-1], 0.0)


def spread_out(wanted: Sequence[float], heights: Sequence[float], bottom: float, top: float) -> list[float]:
    """Centres close to the wanted ones, in their order, whose boxes do not overlap; inside [bottom, top] if they fit.

    >>> spread_out([10.0, 11.0, 50.0], [4.0, 4.0, 4.0], 0.0, 100.0)
    [8.5, 12.5, 50.0]
    """
    blocks: list[tuple[list[int], float, float]] = []  # members from below, lower edge, height
    for index in sorted(range(len(wanted)), key=lambda i: wanted[i]):
        members = [index]
        while True:
            height = sum(heights[i] for i in members)
            offsets = np.cumsum([0.0, *(heights[i] for i in members[:-1])]) + [heights[i] / 2 for i in members]
            low = float(np.mean([wanted[i] for i in members] - offsets))
            low = max(bottom, min(low, top - height))
            if not blocks or blocks[-1][1] + blocks[-1][2] <= low:
                break
            members = blocks.pop()[0] + members
        blocks.append((members, low, height))
    centres = [0.0] * len(wanted)
    for members, low, _ in blocks:
        for i in members:
            centres[i] = low + heights[i] / 2
            low += heights[i]
    return centres
