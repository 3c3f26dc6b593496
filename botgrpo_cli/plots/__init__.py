"""Figures, drawn from tables of metrics alone. A new plot is one file here and one entry in `PLOTS`."""

from __future__ import annotations

from botgrpo_cli.plots.backend import no_backend_asked

with no_backend_asked():
    from botgrpo_cli.plots.curves import draw_curves
    from botgrpo_cli.plots.panels import draw_panels
    from botgrpo_cli.plots.stability import draw_stability
    from botgrpo_cli.plots.style import FORMATS, read_formats, save_figure
    from botgrpo_cli.plots.winrate import draw_winrate

PLOTS = {"curves": draw_curves, "panels": draw_panels, "stability": draw_stability, "winrate": draw_winrate}
"""Name of a plot -> its function `(metrics: DataFrame, **options) -> Figure`."""

__all__ = [
    "FORMATS",
    "PLOTS",
    "draw_curves",
    "draw_panels",
    "draw_stability",
    "draw_winrate",
    "read_formats",
    "save_figure",
]
