"""A metric over training steps, for one run or several: the paper's figure 1 and its kin, with every seed shown."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib import patheffects
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from botgrpo_cli.plots.series import FEW_SEEDS, Series, build_series, select_rows
from botgrpo_cli.plots.style import GREY, WIDTH, Look, choose_looks, house_style, new_figure

_LEFT, _TOP = 0.72, 0.5  # margins in inches
_GAP = 0.12  # inches between the axes and the labels beside them
_LABEL_WIDTH = 24  # characters a line of a label
_CAPTION_WIDTH = 112  # characters a line of the caption
_CAPTION_LINE = 0.165  # inches
_MARKERS = 20  # about as many a curve


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
    share = _is_share(metric)
    caption = _caption(metrics, rows, curves, split, note)
    lines = caption.count("\n") + 1
    bottom = 0.62 + _CAPTION_LINE * lines
    height = max(3.55, 0.3 * len(curves)) + _TOP + bottom
    with house_style():
        figure = new_figure(height)
        axes = figure.add_axes((_LEFT / WIDTH, bottom / height, 0.5, 1 - (_TOP + bottom) / height))
        for curve, look in reversed(list(zip(curves, looks, strict=True))):  # the first one ends up on top
            _draw_series(axes, curve, look)
        _set_axes(axes, metric, rows, share)
        axes.set_title(title or f"{split[:1].upper()}{split[1:]} {metric.replace('_', ' ')}")
        if share:
            _draw_thresholds(axes, thresholds)
        _label_ends(figure, axes, curves, looks, share)
        figure.text(_LEFT / WIDTH, 0.1 / height, caption, fontsize=8.5, color=GREY, va="bottom", linespacing=1.35)
    return figure


def _draw_series(axes: Axes, curve: Series, look: Look) -> None:
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


def _set_axes(axes: Axes, metric: str, rows: pd.DataFrame, share: bool) -> None:
    first, last = int(rows["step"].min()), int(rows["step"].max())
    pad = 0.012 * (last - first) or 0.5
    axes.set_xlim(first - pad, last + pad)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=9, integer=True, steps=[1, 2, 5, 10], min_n_ticks=1))
    axes.set_xlabel("Training step")
    words = metric.replace("_", " ")
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


def _draw_thresholds(axes: Axes, thresholds: Sequence[float]) -> None:
    low, high = axes.get_ylim()
    for level in thresholds:
        if low <= level <= high:
            axes.axhline(level, color="#a8a8a8", linewidth=0.9, zorder=1.5, label="_threshold")
            text = axes.annotate(
                f"{100 * level:.3g} %", (0, level), xycoords=("axes fraction", "data"), xytext=(4, 2),
                textcoords="offset points", fontsize=8.5, color=GREY, va="bottom", zorder=5,
            )  # fmt: skip
            text.set_path_effects([patheffects.withStroke(linewidth=2.5, foreground="white")])


def _label_ends(figure: Figure, axes: Axes, curves: list[Series], looks: list[Look], share: bool) -> None:
    """Name each curve beside its last point, moved up or down where names would overlap; set the right margin."""
    texts, ends = [], []
    for curve, look in zip(curves, looks, strict=True):
        step, value = _last_point(curve)
        words = _wrapped_label(curve.label)
        shown = _percent(value) if share else f"{value:.3g}"
        texts.append(
            axes.annotate(
                f"{words}  {shown}", (step, value), xytext=(1.0, value), textcoords=("axes fraction", "data"),
                color=look.text_colour, fontsize=10.5, va="center", linespacing=1.1, annotation_clip=False, zorder=6,
            )
        )  # fmt: skip
        ends.append((step, value))
    renderer = figure.canvas.get_renderer()
    boxes = [text.get_window_extent(renderer) for text in texts]
    box = axes.get_position()
    width = 1 - box.x0 - (max(extent.width for extent in boxes) / figure.dpi + _GAP + 0.08) / WIDTH
    axes.set_position((box.x0, box.y0, width, box.height))
    bottom, top = axes.transAxes.transform([(0, 0), (0, 1)])[:, 1]
    points = axes.transData.transform(ends)
    centres = _spread(points[:, 1], [extent.height + 3 for extent in boxes], bottom - 5, top + 5)
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


def _last_point(curve: Series) -> tuple[float, float]:
    """Where the mean ends; where there is no mean, the last value of any seed."""
    values = curve.mean if not np.isnan(curve.mean).all() else pd.DataFrame(curve.values).bfill().iloc[0].to_numpy()
    there = np.flatnonzero(~np.isnan(values))
    return (curve.steps[there[-1]], values[there[-1]]) if len(there) else (curve.steps[-1], 0.0)


def _spread(wanted: Sequence[float], heights: Sequence[float], bottom: float, top: float) -> list[float]:
    """Centres close to the wanted ones, in their order, whose boxes do not overlap; inside [bottom, top] if they fit.

    >>> _spread([10.0, 11.0, 50.0], [4.0, 4.0, 4.0], 0.0, 100.0)
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


def _caption(metrics: pd.DataFrame, rows: pd.DataFrame, curves: list[Series], split: str, note: str | None) -> str:
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
    paragraphs = [" · ".join(facts), _legend(curves), note or ""]
    return "\n".join(textwrap.fill(text, _CAPTION_WIDTH, break_on_hyphens=False) for text in paragraphs if text)


def _legend(curves: list[Series]) -> str:
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


def _is_share(metric: str) -> bool:
    """Whether the metric's name says that it is a share of something, shown in percent."""
    return metric != "learning_rate" and (
        metric.endswith(("_rate", "_share", "accuracy")) or metric.startswith("pass@")
    )


def _percent(value: float) -> str:
    return f"{100 * value:.{0 if value == 0 or value >= 0.0995 else 1}f} %"
