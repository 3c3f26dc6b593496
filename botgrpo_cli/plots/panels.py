"""Panels of curves side by side: one a metric (Pass@1, Pass@2, Pass@4; compile rate and blank rate), one a base model
or one a method. Every curve looks the same in all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from botgrpo_cli.errors import InputError
from botgrpo_cli.metrics import in_words, is_share, shown
from botgrpo_cli.plots.axes import draw_series, last_point, set_axes, spread_out
from botgrpo_cli.plots.caption import CAPTION_LINE, caption_of
from botgrpo_cli.plots.series import Series, build_series, select_rows
from botgrpo_cli.plots.style import GREY, WIDTH, Look, choose_looks, house_style, new_figure

_LEFT, _RIGHT = 0.72, 0.5  # inches; right of each panel stand the values at the ends of its curves
_GAP, _OWN_GAP = 0.62, 0.85  # inches; the second where each panel has an axis of its own
_TOP, _HEIGHT, _BETWEEN = 1.02, 2.75, 1.0
_COLUMNS = 3  # more panels go into a second row

By = Literal["metric", "base_model", "method"]


@dataclass(frozen=True)
class _Panel:
    title: str
    metric: str
    rows: pd.DataFrame
    curves: list[Series]


def draw_panels(
    metrics: pd.DataFrame,
    *,
    names: Sequence[str] = ("pass@1", "pass@2", "pass@4"),
    by: By = "metric",
    split: str = "held-out",
    title: str | None = None,
    note: str | None = None,
) -> Figure:
    """One panel a metric of `names`, or one a base model or method with the first of them; the legend is shared.

    `metrics` has the columns of `records.schema.COLUMNS`. Metrics that no run logged are left out. Raises InputError
    when there is nothing to draw.
    """
    alike = by != "metric"  # the same metric everywhere, so one scale for all
    panels = _by_column(metrics, names[0], split, by) if alike else _by_metric(metrics, names, split)
    curves = list({curve.label: curve for panel in panels for curve in panel.curves}.values())
    looks = dict(zip([c.label for c in curves], choose_looks([(c.label, c.method) for c in curves]), strict=True))
    rows = pd.concat([panel.rows for panel in panels])
    caption = caption_of(metrics, rows, max((panel.curves for panel in panels), key=len), split, note)
    bottom = 0.62 + CAPTION_LINE * (caption.count("\n") + 1)
    columns, lines = min(_COLUMNS, len(panels)), -(-len(panels) // _COLUMNS)
    height = _TOP + lines * _HEIGHT + (lines - 1) * _BETWEEN + bottom
    gap = _GAP if alike else _OWN_GAP
    width = (WIDTH - _LEFT - _RIGHT - gap * (columns - 1)) / columns
    with house_style():
        figure = new_figure(height)
        drawn: list[Axes] = []
        for place, panel in enumerate(panels):
            line, column = divmod(place, _COLUMNS)
            low, left = bottom + (lines - 1 - line) * (_HEIGHT + _BETWEEN), _LEFT + column * (width + gap)
            axes = figure.add_axes((left / WIDTH, low / height, width / WIDTH, _HEIGHT / height))
            _draw(axes, panel, looks, first=column == 0, same_scale=alike)
            drawn.append(axes)
        if alike:
            limits = [axes.get_ylim() for axes in drawn]
            for axes in drawn:
                axes.set_ylim(min(low for low, _ in limits), max(high for _, high in limits))
        for axes, panel in zip(drawn, panels, strict=True):
            _write_ends(figure, axes, panel, looks)
        figure.text(_LEFT / WIDTH, 1 - 0.34 / height, title or _title(panels, split), fontsize=13, fontweight="bold")
        figure.legend(
            handles=[_handle(name, look) for name, look in looks.items()], loc="upper left", frameon=False,
            bbox_to_anchor=((_LEFT - 0.12) / WIDTH, 1 - 0.4 / height), ncols=min(4, len(looks)), handlelength=2.8,
            columnspacing=1.6, borderaxespad=0,
        )  # fmt: skip
        figure.text(_LEFT / WIDTH, 0.1 / height, caption, fontsize=8.5, color=GREY, va="bottom", linespacing=1.35)
    return figure


def _by_metric(metrics: pd.DataFrame, names: Sequence[str], split: str) -> list[_Panel]:
    logged = set(metrics.loc[(metrics["split"] == split) & metrics["value"].notna(), "metric"])
    panels = []
    for name in names:
        if name in logged:
            rows = select_rows(metrics, name, split)
            words = in_words(name)
            panels.append(_Panel(f"{words[:1].upper()}{words[1:]}", name, rows, build_series(rows)))
    if not panels:
        raise InputError(f"There is nothing to draw: no run logged {', '.join(names)} on the split '{split}'.")
    return panels


def _by_column(metrics: pd.DataFrame, name: str, split: str, column: str) -> list[_Panel]:
    rows = select_rows(metrics, name, split)
    panels = []
    for value, own in rows.groupby(column, sort=False):
        # Arms of one panel are told apart by their names, which are the same in every panel.
        panels.append(_Panel(str(value).split("/")[-1], name, own, build_series(own)))
    return panels


def _draw(axes: Axes, panel: _Panel, looks: dict[str, Look], *, first: bool, same_scale: bool) -> None:
    for curve in reversed(panel.curves):
        draw_series(axes, curve, looks[curve.label])
    set_axes(axes, panel.metric, panel.rows, split="held-out")
    axes.xaxis.set_major_locator(MaxNLocator(nbins=4, integer=True, steps=[1, 2, 5, 10], min_n_ticks=1))
    unit = " (%)" if is_share(panel.metric) and not same_scale else ""
    axes.set_title(f"{panel.title}{unit}", fontsize=11, fontweight="normal", pad=6)
    if not first:
        axes.set_ylabel("")
        axes.tick_params(labelleft=not same_scale)
    elif not same_scale:
        axes.set_ylabel("Held-out prompts")


def _write_ends(figure: Figure, axes: Axes, panel: _Panel, looks: dict[str, Look]) -> None:
    """The last value of each curve, right of the axes; their final limits are known by now."""
    low, high = axes.get_ylim()
    ends = [last_point(curve) for curve in panel.curves]
    inches = axes.get_position().height * figure.get_figheight()
    line = 0.155 * (high - low) / inches
    centres = spread_out([value for _, value in ends], [line] * len(ends), low, high)
    for curve, (_, value), centre in zip(panel.curves, ends, centres, strict=True):
        axes.annotate(
            shown(panel.metric, value), (1.02, centre), xycoords=("axes fraction", "data"), va="center", fontsize=9,
            color=looks[curve.label].text_colour, annotation_clip=False,
        )  # fmt: skip


def _title(panels: list[_Panel], split: str) -> str:
    words = in_words(panels[0].metric)
    return f"{split[:1].upper()}{split[1:]} {words if len({p.metric for p in panels}) == 1 else 'metrics'}"


def _handle(name: str, look: Look) -> Line2D:
    return Line2D(
        [], [], color=look.colour, linestyle=look.dash, marker=look.marker, linewidth=2.3, markersize=6.5,
        markeredgecolor="white", markeredgewidth=0.8, label=name,
    )  # fmt: skip
