from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from botgrpo_cli.errors import InputError, RunError
from botgrpo_cli.plots import PLOTS, draw_curves, save_figure
from botgrpo_cli.records.schema import COLUMNS, RunLabels

STEPS = tuple(range(0, 61, 5))


def rows(method="bot-grpo", seed=0, steps=STEPS, values=None, metric="compile_rate", split="held-out", **labels):
    """Rows of one run; without `values` a plausible rising curve, quantised as 96 prompts would be."""
    if values is None:
        noise = np.random.default_rng(seed).normal(0, 0.02, len(steps))
        rise = 0.9 / (1 + np.exp(-(np.array(steps) - 25) / 7)) + noise
        values = np.clip(np.round(rise * 96) / 96, 0, 1)
    given = {"run": f"{method}-{seed}", "task": "react", "base_model": "tiny:react", "scale": "tiny", **labels}
    run = RunLabels(method=method, seed=seed, **given)
    return [run.row(step, split, metric, value) for step, value in zip(steps, values, strict=True)]


def frame(*parts):
    return pd.DataFrame([row for part in parts for row in part], columns=list(COLUMNS)).astype({"value": float})


def lines(figure: Figure, *, hidden=False):
    return {
        line.get_label(): line for line in figure.axes[0].get_lines() if hidden or not line.get_label().startswith("_")
    }


def texts(figure: Figure) -> str:
    return "\n".join(text.get_text() for text in (*figure.axes[0].texts, *figure.texts))


def test_one_run_is_drawn_as_the_table_has_it():
    table = frame(rows(seed=3))
    [line] = lines(draw_curves(table)).values()
    assert line.get_xdata().tolist() == list(STEPS)
    assert line.get_ydata().tolist() == table["value"].tolist()


def test_only_the_asked_metric_and_split_are_drawn():
    asked = rows(values=np.linspace(0, 0.6, len(STEPS)))
    others = [rows(metric="lint_rate"), rows(split="train"), rows(metric="loss", values=[9.0] * len(STEPS))]
    [line] = lines(draw_curves(frame(asked, *others))).values()
    assert line.get_ydata().tolist() == [row["value"] for row in asked]


def test_rows_in_any_order_and_logged_twice_keep_the_last():
    table = frame(rows(steps=(10, 0, 5), values=(0.5, 0.1, 0.2)), rows(steps=(5,), values=(0.3,)))
    [line] = lines(draw_curves(table)).values()
    assert (line.get_xdata().tolist(), line.get_ydata().tolist()) == ([0, 5, 10], [0.1, 0.3, 0.5])


def test_seeds_mean_and_range():
    values = [[0.0, 0.2, 0.6], [0.1, 0.4, 0.5], [0.2, 0.3, 0.7]]
    table = frame(*(rows(seed=seed, steps=(0, 5, 10), values=values[seed]) for seed in range(3)))
    figure = draw_curves(table)
    every = lines(figure, hidden=True)
    for seed in range(3):
        assert every[f"_bot-grpo seed {seed}"].get_ydata().tolist() == values[seed]
    np.testing.assert_allclose(every["bot-grpo"].get_ydata(), np.mean(values, axis=0))
    [band] = figure.axes[0].collections
    points = band.get_paths()[0].vertices
    for step, column in zip((0, 5, 10), zip(*values, strict=True), strict=True):
        at_step = points[points[:, 0] == step, 1]
        assert (at_step.min(), at_step.max()) == (min(column), max(column))
    assert "seeds 0, 1, 2" in texts(figure)
    assert "band: minimum to maximum" in texts(figure)


def test_five_seeds_get_a_bootstrap_interval_inside_the_range():
    table = frame(*(rows(seed=seed) for seed in range(5)))
    figure = draw_curves(table)
    assert "95 % bootstrap interval of the mean over seeds" in texts(figure)
    assert "minimum" not in texts(figure)
    wide = table.groupby("step")["value"]
    [band] = figure.axes[0].collections
    points = band.get_paths()[0].vertices
    for step in STEPS:
        at_step = points[points[:, 0] == step, 1]
        values = wide.get_group(step)
        assert values.min() <= at_step.min() <= values.mean() + 1e-12
        assert values.mean() - 1e-12 <= at_step.max() <= values.max()
    spread = points[points[:, 0] == 25, 1]
    assert np.ptp(spread) < np.ptp(wide.get_group(25))


def test_missing_values_leave_gaps_and_unlogged_steps_do_not():
    gap = rows(seed=0, steps=(0, 5, 10, 15), values=(0.1, None, 0.3, 0.4))
    fewer = rows(seed=1, steps=(0, 10, 15), values=(0.2, 0.3, 0.6))
    figure = draw_curves(frame(gap, fewer))
    every = lines(figure, hidden=True)
    np.testing.assert_array_equal(every["_bot-grpo seed 0"].get_ydata(), [0.1, np.nan, 0.3, 0.4])
    assert every["_bot-grpo seed 1"].get_xdata().tolist() == [0, 10, 15]
    np.testing.assert_allclose(every["bot-grpo"].get_ydata(), [0.15, 0.3, 0.5])
    assert "gaps: missing values" in texts(figure)
    alone = draw_curves(frame(rows(steps=(0, 5, 10), values=(0.1, None, 0.3))))
    np.testing.assert_array_equal(lines(alone)["bot-grpo"].get_ydata(), [0.1, np.nan, 0.3])
    assert lines(alone)["bot-grpo"].get_markevery() == [0, 2]  # points that no line reaches are marked


def test_a_mean_is_missing_where_a_seed_is():
    figure = draw_curves(
        frame(rows(seed=0, steps=(0, 5), values=(0.1, 0.5)), rows(seed=1, steps=(0, 5), values=(0.3, None)))
    )
    np.testing.assert_array_equal(lines(figure)["bot-grpo"].get_ydata(), [0.2, np.nan])


@pytest.mark.parametrize(
    "parts",
    [
        [rows(steps=(0,), values=(0.03,))],
        [rows(values=[0.0] * len(STEPS))],
        [rows(values=[1.0] * len(STEPS))],
        [rows(seed=0, steps=(0, 5), values=(0.1, 0.2)), rows(seed=1, steps=(1, 6), values=(0.1, 0.2))],
        [rows(seed=0, values=[None] * len(STEPS)), rows(seed=1)],
        [rows(arm=f"arm {i} with a rather long name", seed=s, run=f"{i}-{s}") for i in range(12) for s in range(2)],
        [rows(run="a & <b>", method=r"100 % $\bad{x_1$", base_model="/models/a")],
    ],
    ids=["one point", "constant 0", "constant 1", "no common step", "a seed without values", "24 runs", "odd names"],
)
def test_extremes_are_drawn_and_saved(tmp_path, parts):
    figure = draw_curves(frame(*parts))
    for path in save_figure(figure, tmp_path / "figure", ("png", "svg", "pdf")):
        assert path.stat().st_size > 2000


def test_labels_beside_the_curves_do_not_overlap_and_stay_inside():
    methods = ("bot-grpo", "grpo", "gspo", "dapo", "pure", "another-method-with-a-long-name")
    ends = (0.80, 0.81, 0.80, 0.79, 0.82, 0.5)
    table = frame(*(rows(method, steps=(0, 5), values=(0.1, end)) for method, end in zip(methods, ends, strict=True)))
    figure = draw_curves(table)
    renderer = figure.canvas.get_renderer()
    named = [
        text for text in figure.axes[0].texts if any(method in text.get_text().replace("\n", "") for method in methods)
    ]
    boxes = sorted((text.get_window_extent(renderer) for text in named), key=lambda box: box.y0)
    assert len(boxes) == 6
    assert all(low.y1 <= high.y0 for low, high in pairwise(boxes))
    assert max(box.x1 for box in boxes) <= figure.bbox.x1
    assert min(box.x0 for box in boxes) >= figure.axes[0].get_window_extent(renderer).x1
    assert "grpo  81 %" in texts(figure)


def test_words_around_the_curves():
    figure = draw_curves(frame(rows(), rows(metric="prompts", values=[96.0] * len(STEPS))), note="Drawn for a test.")
    axes = figure.axes[0]
    assert axes.get_title(loc="left") == "Held-out compile rate"
    assert axes.get_xlabel() == "Training step"
    assert axes.get_ylabel() == "Compile rate (%)"
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["0", "20", "40", "60", "80", "100"]
    caption = texts(figure)
    for words in (
        "task react",
        "scale tiny",
        "base model tiny:react",
        "seed 0",
        "96 held-out prompts",
        "Drawn for a test.",
    ):
        assert words in caption
    assert "heuristic" not in caption
    assert draw_curves(frame(rows()), title="Mine").axes[0].get_title(loc="left") == "Mine"


@pytest.mark.parametrize("word", ["heuristic", "simulated"])
def test_labels_that_carry_a_caveat_show_it(word):
    assert word in texts(draw_curves(frame(rows(study=f"{word} judge"))))


def test_thresholds_are_drawn_on_shares_only():
    figure = draw_curves(frame(rows()), thresholds=(0.25, 0.75))
    assert [line.get_ydata()[0] for line in figure.axes[0].get_lines() if line.get_label() == "_threshold"] == [
        0.25,
        0.75,
    ]
    assert "25 %" in texts(figure)
    reward = draw_curves(frame(rows(metric="reward")), metric="reward")
    assert "_threshold" not in lines(reward, hidden=True)
    assert reward.axes[0].get_ylabel() == "Reward"


def test_a_method_looks_the_same_in_every_figure_and_no_two_curves_alike():
    def looks(*methods):
        figure = draw_curves(frame(*(rows(method) for method in methods)))
        return {name: (to_hex(x.get_color()), x.get_linestyle(), x.get_marker()) for name, x in lines(figure).items()}

    alone, many = looks("bot-grpo"), looks("pure", "unknown", "grpo", "bot-grpo", "dapo", "gspo", "other")
    assert alone["bot-grpo"] == many["bot-grpo"]
    assert len({colour for colour, _, _ in many.values()}) == 7
    assert len({marker for _, _, marker in many.values()}) == 7
    assert list(many)[-1] == "bot-grpo"  # drawn last, on top


def test_arms_get_colours_and_base_models_get_strokes():
    arms = lines(draw_curves(frame(*(rows(arm=f"w {w}", run=f"w{w}") for w in (0.1, 0.5, 1.0)))))
    assert set(arms) == {"w 0.1", "w 0.5", "w 1.0"}
    assert len({line.get_color() for line in arms.values()}) == 3
    models = lines(draw_curves(frame(*(rows(base_model=f"hub/{name}", run=name) for name in ("a", "b")))))
    assert set(models) == {"bot-grpo · a", "bot-grpo · b"}
    assert len({line.get_color() for line in models.values()}) == 1
    assert len({line.get_marker() for line in models.values()}) == 2


def test_runs_with_the_same_labels_and_seed_are_not_averaged():
    figure = draw_curves(frame(rows(run="first", values=[0.2] * 13), rows(run="second", values=[0.4] * 13)))
    drawn = {name: line.get_ydata()[0] for name, line in lines(figure).items()}
    assert drawn == {"bot-grpo (first)": 0.2, "bot-grpo (second)": 0.4}


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"metric": "compile_rat"}, "Did you mean 'compile_rate'.*Logged there: compile_rate, lint_rate"),
        ({"split": "heldout"}, "only on held-out, train.*Did you mean 'held-out'"),
        ({"metric": "lint_rate", "split": "train"}, "only on held-out"),
    ],
)
def test_asking_for_what_is_not_there_names_what_is(asked, message):
    table = frame(rows(), rows(metric="lint_rate"), rows(split="train"))
    with pytest.raises(InputError, match=f"(?s){message}"):
        draw_curves(table, **asked)


def test_nothing_to_draw_is_an_input_error():
    with pytest.raises(InputError, match="no step has been logged"):
        draw_curves(frame())
    with pytest.raises(InputError, match="is missing"):
        draw_curves(frame(rows(values=[None] * len(STEPS))))


def test_the_same_table_gives_the_same_bytes(tmp_path):
    def digests(name):
        figure = draw_curves(frame(*(rows(seed=seed) for seed in range(5)), rows("grpo")))
        paths = save_figure(figure, tmp_path / name, ("png", "svg", "pdf"))
        assert [path.name for path in paths] == [f"{name}.png", f"{name}.svg", f"{name}.pdf"]
        return [hashlib.sha256(path.read_bytes()).hexdigest() for path in paths]

    assert digests("one") == digests("two")
    png = (tmp_path / "one.png").read_bytes()
    assert int.from_bytes(png[16:20], "big") == 1640  # twice the 820 px of a README
    assert len(list(tmp_path.iterdir())) == 6


def test_saving_says_what_is_wrong(tmp_path):
    figure = draw_curves(frame(rows()))
    with pytest.raises(InputError, match="Did you mean 'svg'"):
        save_figure(figure, tmp_path / "figure", ("png", "svgs"))
    with pytest.raises(InputError, match="No figure format"):
        save_figure(figure, tmp_path / "figure", ())
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(RunError, match="writing failed"):
        save_figure(figure, tmp_path / "absent" / "figure")


DRAW = """
import sys
from pathlib import Path
from botgrpo_cli.plots import draw_curves, save_figure
from botgrpo_cli.records.read import read_metrics
save_figure(draw_curves(read_metrics(Path(sys.argv[1]))), Path(sys.argv[2]))
assert "matplotlib.pyplot" not in sys.modules
"""


@pytest.mark.parametrize("backend", ["nonsense", "module://nothing", "TkAgg"])
def test_draws_without_a_display_whatever_the_environment_says(tmp_path, backend):
    frame(rows()).to_csv(tmp_path / "metrics.csv", index=False)
    (tmp_path / "matplotlibrc").write_text("figure.facecolor: red\nfont.size: 30\nsvg.hashsalt: other\n")
    env = {key: value for key, value in os.environ.items() if key not in ("DISPLAY", "WAYLAND_DISPLAY")}
    command = [sys.executable, "-c", DRAW, str(tmp_path), str(tmp_path / "figure")]
    done = subprocess.run(command, env={**env, "MPLBACKEND": backend}, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    save_figure(draw_curves(frame(rows())), tmp_path / "here")
    for kind in ("png", "svg"):
        assert (tmp_path / f"figure.{kind}").read_bytes() == (tmp_path / f"here.{kind}").read_bytes()


def test_the_registry_draws():
    assert isinstance(PLOTS["curves"](frame(rows())), Figure)
