"""A study's figure needs its folder and nothing else."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from botgrpo_cli.errors import InputError
from botgrpo_cli.plots.study import draw_study, find_study_folders, save_study_figure
from tests.plots.test_panels import named, words
from tests.studies.test_tables import make


@pytest.fixture
def folder(tmp_path):
    """A finished study with its runs gone, as in a checkout."""
    _, folder, _ = make(tmp_path)
    for run in folder.glob("*-seed*"):
        shutil.rmtree(run)
    return folder


def say(folder, **changes):
    path = folder / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_curves_under_their_labels_with_what_is_no_real_measurement(folder):
    about = json.loads((folder / "manifest.json").read_text())
    arms = [arm | {"label": arm["name"].upper()} for arm in about["arms"]]
    say(folder, arms=arms, simulated=["judge.noise 0.1"], judges=["heuristic"], missing=["grpo-seed2"], note="A toy.")
    figure = draw_study(folder)
    assert set(named(figure.axes[0])) == {"BOT-GRPO", "GRPO"}
    assert figure.axes[0].get_title(loc="left") == "Letters"
    assert figure.axes[0].get_ylabel() == "Held-out compile rate (%)"
    text = words(figure).replace("\n", " ")
    for part in (
        "scale tiny",
        "seeds 0, 1",
        "A toy.",
        "Heuristic: reward.content.",
        "Simulated: judge.noise 0.1.",
        "Judge in training: heuristic.",
        "Not complete, and left out: grpo-seed2.",
    ):
        assert part in text
    lines = [line.get_ydata()[0] for line in figure.axes[0].get_lines() if line.get_label() == "_threshold"]
    assert lines == [0.2, 0.5]


@pytest.mark.parametrize(
    ("kind", "draw", "panels", "count"),
    [
        ("panels", ["compile_rate", "length"], "metric", 2),
        ("panels", ["compile_rate"], "base_model", 1),
        ("stability", ["compile_rate"], "metric", 2),
    ],
)
def test_every_kind(folder, kind, draw, panels, count):
    say(folder, kind=kind, draw=draw, panels=panels)
    assert len(draw_study(folder).axes) == count
    written = save_study_figure(folder, ("png", "svg", "pdf"))
    assert [path.name for path in written] == ["figure.png", "figure.svg", "figure.pdf"]


def test_a_folder_or_a_name_in_results(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    there = Path("results/letters")
    assert find_study_folders("results/letters") == find_study_folders("letters") == [there]
    assert find_study_folders("words") == []
    shutil.copytree(there, "results-2/letters")
    assert find_study_folders("letters") == [there, Path("results-2/letters")]
    (tmp_path / "letters").mkdir()  # what is here comes first, and is no study
    assert find_study_folders("letters") == []


def test_what_is_no_study_is_refused(tmp_path, folder):
    with pytest.raises(InputError, match="holds no study"):
        draw_study(tmp_path)
    say(folder, kind="panel")
    with pytest.raises(InputError, match="Did you mean 'panels'"):
        draw_study(folder)
