"""Figures, drawn from tables of metrics alone. A new plot is one file here and one entry in `PLOTS`."""

from __future__ import annotations

from botgrpo_cli.plots.backend import no_backend_asked

with no_backend_asked():
    from botgrpo_cli.plots.curves import draw_curves
    from botgrpo_cli.plots.style import FORMATS, check_formats, save_figure

PLOTS = {"curves": draw_curves}
"""Name of a plot -> its function `(metrics: DataFrame, **options) -> Figure`."""

__all__ = ["FORMATS", "PLOTS", "check_formats", "draw_curves", "save_figure"]
