"""Win rates of a pairwise judge: bars at one step, curves over checkpoints (the paper's figure 2), ties in grey."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from botgrpo_cli.errors import InputError
from botgrpo_cli.plots.axes import draw_series, label_ends
from botgrpo_cli.plots.caption import CAPTION_LINE, CAPTION_WIDTH, legend_of
from botgrpo_cli.plots.series import Series
from botgrpo_cli.plots.style import GREY, WIDTH, choose_looks, house_style, new_figure

TIE = "#b9b9b9"
_LEFT = 0.72  # inches
_ROW = 0.62  # inches a bar


def draw_winrate(
    table: pd.DataFrame,
    *,
    labels: Mapping[str, str] | None = None,
    title: str | None = None,
    note: str | None = None,
) -> Figure:
    """Bars when every opponent was met at one step only, else a curve an opponent with grey tie bars.

    `table` has the columns of `winrate.tables.COLUMNS`; rates are shares of A over B. `labels` says how runs are to be
    called; others go by their method, or by their own name. Raises InputError when no comparison has a valid pair.
    """
    rows = table[table["rate"].notna()].copy()
    if rows.empty:
        raise InputError("There is nothing to draw: no comparison has a valid pair.")
    rows["step"] = rows["step_a"].fillna(rows["step_b"])
    rows["opponent"], rows["own"] = (_names(rows, side, labels or {}) for side in "ba")
    curves = rows.groupby(["own", "opponent"])["step"].nunique().max() > 1
    with house_style():
        return (_draw_curves if curves else _draw_bars)(rows, title, note)


def _names(rows: pd.DataFrame, side: str, labels: Mapping[str, str]) -> list[str]:
    """The label of a run, else its method, else its name, which also tells two runs of one method apart."""
    same = (rows["method_a"] == rows["method_b"]) | (rows[f"method_{side}"] == "")
    names = rows[f"method_{side}"].where(~same, rows[f"run_{side}"])
    return [labels.get(run, name) for run, name in zip(rows[f"run_{side}"], names, strict=True)]


def _draw_bars(rows: pd.DataFrame, title: str | None, note: str | None) -> Figure:
    """One bar a comparison: won, tied, lost, and the win rate with its interval."""
    caption = _caption(rows, "Interval: 95 % bootstrap over prompts.", note)
    bottom = 0.7 + CAPTION_LINE * (caption.count("\n") + 1)
    height = 0.55 + bottom + _ROW * len(rows)
    figure = new_figure(height)
    left = 0.35
    axes = figure.add_axes((left / WIDTH, bottom / height, 1 - (left + 0.35) / WIDTH, _ROW * len(rows) / height))
    names = list(dict.fromkeys([*rows["own"], *rows["opponent"]]))
    looks = dict(zip(names, choose_looks([(name, name) for name in names]), strict=True))
    for place, (_, row) in enumerate(rows.iloc[::-1].iterrows()):
        own, other = looks[row["own"]], looks[row["opponent"]]
        parts = ((row["win"], own.colour), (row["tie"], TIE), (row["loss"], other.colour))
        start = 0.0
        for share, colour in parts:
            axes.barh(place, share, left=start, height=0.36, color=colour, edgecolor="white", linewidth=1)
            if share >= 0.05:
                axes.text(
                    start + share / 2, place, f"{100 * share:.0f} %", ha="center", va="center", fontsize=9.5,
                    color="black" if colour == TIE else "white", zorder=6,
                )  # fmt: skip
            start += share
        axes.errorbar(
            row["rate"], place - 0.27, xerr=[[row["rate"] - row["ci_low"]], [row["ci_high"] - row["rate"]]],
            fmt="D", color="black", markersize=4.5, capsize=3, linewidth=1.1, zorder=5,
        )  # fmt: skip
        axes.text(0, place + 0.24, f"{row['own']} better", ha="left", va="bottom", fontsize=10,
                  color=own.text_colour)  # fmt: skip
        axes.text(1, place + 0.24, f"{row['opponent']} better", ha="right", va="bottom", fontsize=10,
                  color=other.text_colour)  # fmt: skip
        axes.text(0.5, place + 0.24, f"win rate {100 * row['rate']:.0f} %", ha="center", va="bottom", fontsize=10,
                  bbox={"facecolor": "white", "edgecolor": "none", "pad": 2}, zorder=5)  # fmt: skip
    axes.axvline(0.5, color=GREY, linewidth=0.9, linestyle=(0, (4, 3)), zorder=4)
    axes.set_xlim(0, 1)
    axes.set_ylim(-0.5, len(rows) - 0.4)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g}"))
    axes.set_xlabel("Share of the valid pairs (%)")
    axes.set_title(title or "Which app is better", pad=14)
    _write_caption(figure, caption, height, left)
    return figure


def _draw_curves(rows: pd.DataFrame, title: str | None, note: str | None) -> Figure:
    """Win rate over steps, one curve an opponent (mean over seeds, each seed thin), the share of ties as grey bars."""
    curves = [_series(opponent, of) for opponent, of in rows.groupby("opponent", sort=False)]
    caption = _caption(rows, legend_of(curves) or "Band: 95 % bootstrap over prompts.", note)
    caption_height = CAPTION_LINE * (caption.count("\n") + 1)
    bottom, height = 0.62 + caption_height, 4.1 + caption_height
    figure = new_figure(height)
    axes = figure.add_axes((_LEFT / WIDTH, bottom / height, 0.66, 1 - (bottom + 0.5) / height))
    own = list(dict.fromkeys(rows["own"]))
    steps = np.sort(rows["step"].unique())
    slot = (np.diff(steps).min() if len(steps) > 1 else 1.0) * 0.8 / len(curves)
    looks = choose_looks([(curve.name, curve.method) for curve in curves])
    for number, (curve, look) in enumerate(zip(curves, looks, strict=True)):
        of = rows[rows["opponent"] == curve.name]
        shift = slot * (number - (len(curves) - 1) / 2)
        ties = of.groupby("step")["tie"].mean()
        axes.bar(ties.index + shift, ties, width=slot * 0.85, color=TIE, edgecolor=look.colour, linewidth=0.8, zorder=1)
        if len(curve.seeds) == 1:
            axes.fill_between(of["step"], of["ci_low"], of["ci_high"], color=look.colour, alpha=0.12, linewidth=0)
        draw_series(axes, curve, look)
    axes.axhline(0.5, color=GREY, linewidth=0.9, linestyle=(0, (4, 3)), zorder=2)
    pad = 0.03 * (steps[-1] - steps[0]) + slot * len(curves) / 2
    _set_axes(axes, steps, pad)
    axes.set_title(title or f"Win rate of {', '.join(own)}")
    label_ends(figure, axes, curves, looks, "win_rate")
    _write_caption(figure, caption, height)
    return figure


def _series(opponent: str, rows: pd.DataFrame) -> Series:
    """The comparisons with one opponent; a pair of seeds is what a seed is elsewhere."""
    wide = rows.pivot_table(index=["seed_a", "seed_b"], columns="step", values="rate")
    seeds = list(range(len(wide)))
    steps, values = wide.columns.to_numpy(), wide.to_numpy()  # [N], [S, N]
    return Series(opponent, rows["method_b"].iloc[0], f"against {opponent}", seeds, steps, values, ~np.isnan(values))


def _set_axes(axes: Axes, steps: np.ndarray, pad: float) -> None:
    axes.set_xlim(steps[0] - pad, steps[-1] + pad)
    axes.set_ylim(0, 1.03)
    axes.set_yticks(np.linspace(0, 1, 6))
    axes.xaxis.set_major_locator(MaxNLocator(nbins=9, integer=True, steps=[1, 2, 5, 10], min_n_ticks=1))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g}"))
    axes.set_xlabel("Training step")
    axes.set_ylabel("Win rate (%); grey: ties")
    axes.grid(axis="y", color="#ebebeb", linewidth=0.8)
    axes.tick_params(length=3)


def _caption(rows: pd.DataFrame, legend: str, note: str | None) -> str:
    facts = []
    for columns, word in ((("scale_a", "scale_b"), "scale"), (("base_model_a", "base_model_b"), "base model")):
        found = sorted({text for column in columns for text in rows[column] if text})
        if found:
            facts.append(f"{word}{'s' if len(found) > 1 else ''} {', '.join(found)}")
    seeds = sorted(
        {text for column in ("seed_a", "seed_b") for text in rows[column] if text}, key=lambda s: (len(s), s)
    )
    if seeds:
        facts.append(f"seed{'s' if len(seeds) > 1 else ''} {', '.join(seeds)}")
    facts.append(f"judge: {', '.join(dict.fromkeys(rows['judge']))}, shown {', '.join(dict.fromkeys(rows['shown']))}")
    counts = sorted({int(n) for n in rows["n"]})
    facts.append(f"{counts[0]}{f' to {counts[-1]}' if counts[-1] != counts[0] else ''} valid pairs a comparison")
    without = rows["forfeits"].sum() / rows["n"].sum()
    said = (
        "Four rounds a pair (A-B, B-A, B-A, A-B); a tie counts one half. An app that has nothing to show loses without "
        f"a call, two such tie: {100 * without:.0f} % of the pairs. {legend}"
    )
    paragraphs = [" · ".join(facts), said, note or ""]
    return "\n".join(textwrap.fill(text, CAPTION_WIDTH, break_on_hyphens=False) for text in paragraphs if text)


def _write_caption(figure: Figure, caption: str, height: float, left: float = _LEFT) -> None:
    figure.text(left / WIDTH, 0.1 / height, caption, fontsize=8.5, color=GREY, va="bottom", linespacing=1.25)
