from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from matplotlib.colors import to_hex

from botgrpo_cli.errors import InputError
from botgrpo_cli.plots import draw_panels, draw_stability
from tests.plots.test_curves import STEPS, frame, rows

FALL = [0, 0.2, 0.5, 0.8, 0.9, 0.9, 0.9, 0.9, 0.9, 0.7, 0.5, 0.4, 0.3]


def arm(label, method="bot-grpo", **options):
    return rows(method, arm=label, run=f"{label}-{options.get('seed', 0)}-{options.get('base_model', '')}", **options)


def named(axes):
    return {line.get_label(): line for line in axes.get_lines() if not line.get_label().startswith("_")}


def words(figure):
    return "\n".join(text.get_text() for part in (figure, *figure.axes) for text in part.texts)


def test_a_panel_a_metric_with_one_legend():
    metrics = ("pass@1", "pass@2", "pass@4")
    table = frame(*(arm(a, m, metric=name) for a, m in (("Bag", "bot-grpo"), ("Group", "grpo")) for name in metrics))
    figure = draw_panels(table, names=metrics, title="AIME", note="Checked exactly.")
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["Pass@1 (%)", "Pass@2 (%)", "Pass@4 (%)"]
    for axes in figure.axes:
        assert set(named(axes)) == {"Bag", "Group"}
        assert axes.get_xlabel() == "Training step"
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["Bag", "Group"]
    assert "AIME" in words(figure)
    assert "Checked exactly." in words(figure)
    assert len({to_hex(named(axes)["Bag"].get_color()) for axes in figure.axes}) == 1


def test_a_panel_a_base_model_with_one_scale():
    models = ("hub/Qwen", "hub/SmolLM3", "tiny:phi3")
    table = frame(*(arm(a, m, base_model=name) for name in models for a, m in (("Bag", "bot-grpo"), ("Group", "grpo"))))
    figure = draw_panels(table, names=("compile_rate",), by="base_model")
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["Qwen", "SmolLM3", "tiny:phi3"]
    assert figure.axes[0].get_ylabel() == "Held-out compile rate (%)"
    assert len({axes.get_ylim() for axes in figure.axes}) == 1
    for axes in figure.axes:
        assert set(named(axes)) == {"Bag", "Group"}
    assert len(figure.legends[0].get_texts()) == 2


def test_a_panel_a_method_in_rows_of_three():
    methods = ("bot-grpo", "grpo", "gspo", "dapo", "pure")
    table = frame(*(arm(rate, method) for method in methods for rate in ("1e-4", "4e-4")))
    figure = draw_panels(table, names=("compile_rate",), by="method")
    assert [axes.get_title(loc="left") for axes in figure.axes] == list(methods)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["1e-4", "4e-4"]
    assert len({axes.get_ylim() for axes in figure.axes}) == 1
    boxes = [axes.get_position() for axes in figure.axes]
    assert [box.x0 for box in boxes[3:]] == [box.x0 for box in boxes[:2]]
    assert all(low.y1 < high.y0 for low, high in zip(boxes[3:], boxes, strict=False))


def test_panels_of_one_metric_have_one_scale_also_where_it_is_no_share():
    table = frame(
        arm("Short", metric="reward", values=[v / 4 for v in FALL], base_model="a"),
        arm("Short", metric="reward", values=[3 * v for v in FALL], base_model="b"),
    )
    low, high = draw_panels(table, names=("reward",), by="base_model").axes
    assert low.get_ylim() == high.get_ylim()
    assert low.get_ylim()[1] >= 2.7


def test_missing_values_and_metrics_that_nobody_logged():
    blank = arm("Bag", metric="blank_rate", steps=(0, 5, 10), values=(None, 0.5, 0.25))
    figure = draw_panels(frame(arm("Bag"), blank), names=("compile_rate", "blank_rate", "hollow_rate"))
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["Compile rate (%)", "Blank rate (%)"]
    np.testing.assert_array_equal(named(figure.axes[1])["Bag"].get_ydata(), [np.nan, 0.5, 0.25])
    with pytest.raises(InputError, match="no run logged pass@1"):
        draw_panels(frame(arm("Bag")), names=("pass@1",))


def test_values_at_the_ends_do_not_overlap():
    ends = (0.80, 0.805, 0.81, 0.2)
    table = frame(*(arm(f"arm {i}", steps=(0, 60), values=(0.1, end)) for i, end in enumerate(ends)))
    figure = draw_panels(table, names=("compile_rate",), by="base_model")
    renderer = figure.canvas.get_renderer()
    boxes = sorted((text.get_window_extent(renderer) for text in figure.axes[0].texts), key=lambda box: box.y0)
    assert len(boxes) == 4
    assert all(low.y1 <= high.y0 + 1 for low, high in pairwise(boxes))


# --- stability -------------------------------------------------------------------------------------------------------
def bars(figure):
    return [patch.get_width() for patch in figure.axes[1].patches]


def test_bars_are_the_drop_and_the_fall_of_the_worst_is_shaded():
    steady = np.linspace(0, 0.8, len(STEPS))
    table = frame(
        arm("falls", values=FALL, seed=0), arm("falls", values=FALL, seed=1),
        arm("steady", values=steady, seed=0), arm("steady", values=steady, seed=1),
    )  # fmt: skip
    figure = draw_stability(table, title="Stability", note="Simulated: judge.noise 0.1.")
    # Of five in a row the highest mean is 0.9, that of the last five 0.56.
    assert bars(figure) == pytest.approx([0.34, 0.0])
    assert {"falls", "steady", "34.0", "0.0"} <= {text.get_text() for text in figure.axes[1].texts}
    shade = next(p for p in figure.axes[0].patches if p.get_width() == 30)  # peak 20..40, its middle to the end
    assert shade.get_x() == 30
    assert "Shaded: from the peak of 'falls' to the end." in words(figure).replace("\n", " ")
    assert "Simulated" in words(figure)


def test_nothing_is_shaded_where_nothing_falls_or_nothing_can_be_told():
    rising = frame(arm("a", values=np.linspace(0, 1, len(STEPS))))
    assert list(draw_stability(rising).axes[0].patches) == []
    short = draw_stability(frame(arm("a", steps=(0, 5), values=(0.5, 0.1))))
    assert bars(short) == []
    assert "None can be told with fewer than 5 evaluations" in words(short).replace("\n", " ")
