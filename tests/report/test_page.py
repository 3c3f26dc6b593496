"""The report of a study folder made here: what a reader must find, and that nothing written becomes markup."""

from __future__ import annotations

import json
import re

import pytest
from typer.testing import CliRunner

from botgrpo_cli.app import app
from botgrpo_cli.report.page import report
from botgrpo_cli.report.rollouts import first_and_last
from botgrpo_cli.studies.found import find_studies
from botgrpo_cli.studies.summary import columns

HOSTILE = "<script>alert(1)</script>"
PNG = b"\x89PNG fake"


def write_study(root, name="baselines", figure="1", **about):
    folder = root / name
    run = folder / "bot-grpo-seed0"
    run.mkdir(parents=True)
    (run / "recipe.yaml").write_text(f"name: {HOSTILE}\n")
    row = {"step": 1, "split": "train", "rollout": 3, "finished": True, "tokens": 3, "prompt": HOSTILE, "reward": 1.5}
    row |= {
        "terms": {"compile": 1.0},
        "pieces": ["a<b\n", "c", ""],
        "advantages": [1.0, -2.0, 0.5],
        "local": [0, -1, 0],
    }
    row |= {
        "diagnostics": [{"tool": "compile", "line": 1, "message": f"Expected {HOSTILE}"}],
        "screenshot": "shots/1.png",
    }
    (run / "shots").mkdir()
    (run / "shots" / "1.png").write_bytes(PNG)
    rows = [row, {**row, "step": 9}, {"step": 0, "split": "held-out"}]
    (run / "samples.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    manifest = {
        "study": name,
        "title": f"Five methods {HOSTILE}",
        "figure": figure,
        "paper": "BoT-GRPO is first.",
        "note": "",
        "scale": "tiny",
        "metrics": ["compile_rate"],
        "command": "botgrpo ablate baselines --scale tiny",
        "runs": [{"arm": "bot-grpo", "seed": 0, "folder": "bot-grpo-seed0"}],
        "heuristic": ["reward.content"],
        "simulated": [],
        "missing": [],
        **about,
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    names = columns([0.5])
    cells = {"study": name, "arm": "bot-grpo", "label": "BoT-GRPO", "metric": "compile_rate", "steps": "60"}
    cells |= {"final": "0.917", "final_low": "0.88", "final_high": "0.95", "steps_50": "24", "scale": "tiny"}
    cells |= {"difference": "0.081", "p": "0.003", "baseline": "grpo"}
    (folder / "summary.csv").write_text(",".join(names) + "\n" + ",".join(cells.get(name, "") for name in names) + "\n")
    (folder / "figure.png").write_bytes(PNG)
    return folder


def test_the_page_tells_what_was_measured_beside_what_the_paper_says(tmp_path):
    write_study(tmp_path)
    text = report(find_studies(tmp_path))
    assert "BoT-GRPO is first." in text
    assert (
        "BoT-GRPO: compile rate 91.7% at step 60 (88.0% – 95.0%); 50 % from step 24; +8.1 points against grpo, p 0.003."
        in text
    )
    for word in ("figure 1 of the paper", "scale tiny", "one seed (0)", "heuristic: reward.content", "botgrpo ablate"):
        assert word in text
    assert text.count("data:image/png;base64") == 1 + 2  # the figure, and a screenshot of two rollouts
    assert "recipe of bot-grpo" in text
    assert "manifest" in text


def test_rollouts_show_each_token_on_its_colour(tmp_path):
    write_study(tmp_path)
    text = report(find_studies(tmp_path))
    spans = re.findall(r'<span style="background:rgb\((\d+), (\d+), (\d+)\)" title="([+-][\d.]+)">(.*?)</span>', text)
    assert [(value, word) for *_, value, word in spans][:3] == [
        ("+1.000", "a&lt;b\u21b5"),
        ("-2.000", "c"),
        ("+0.500", "\u25a0"),
    ]
    first, second = spans[0], spans[1]
    assert int(first[2]) > int(first[0])  # blue
    assert int(second[0]) > int(second[2])  # orange
    assert "compile: Expected" in text


def test_nothing_that_was_written_becomes_markup(tmp_path):
    write_study(tmp_path)
    text = report(find_studies(tmp_path))
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    assert "default-src 'none'" in text


def test_studies_come_in_the_order_of_the_papers_figures(tmp_path):
    for name, figure in (("bag", "ours"), ("aime", "5"), ("reward-hacking", "App. C"), ("vlm", "10"), ("winrate", "2")):
        write_study(tmp_path, name, figure)
    (tmp_path / "react").mkdir()
    assert [study.name for study in find_studies(tmp_path)] == ["winrate", "aime", "vlm", "reward-hacking", "bag"]
    assert [study.name for study in find_studies(tmp_path / "aime")] == ["aime"]


def test_a_study_at_another_scale_is_a_section_of_its_own(tmp_path):
    write_study(tmp_path)
    write_study(tmp_path / "small", scale="small")
    found = find_studies(tmp_path)
    assert [study.known_as for study in found] == ["baselines", "baselines (small)"]
    text = report(found)
    assert text.count('<section id="baselines-small">') == text.count('href="#baselines-small"') == 1
    assert "1. baselines (small)</a>" in text


def test_an_unfinished_study_without_figure_or_samples_is_shown_as_that(tmp_path):
    folder = write_study(tmp_path, missing=["grpo-seed1"])
    (folder / "figure.png").unlink()
    (folder / "bot-grpo-seed0" / "samples.jsonl").unlink()
    text = report(find_studies(tmp_path))
    assert "Not finished: grpo-seed1." in text
    assert "No figure was drawn yet." in text
    assert "token by token" not in text
    assert first_and_last(folder / "bot-grpo-seed0") == []


def test_a_screenshot_outside_the_run_is_not_read(tmp_path):
    folder = write_study(tmp_path)
    file = folder / "bot-grpo-seed0" / "samples.jsonl"
    file.write_text(file.read_text().replace("shots/1.png", "../figure.png"))
    assert report(find_studies(tmp_path)).count("data:image/png;base64") == 1


def test_the_command(tmp_path):
    write_study(tmp_path / "results")
    done = CliRunner().invoke(app, ["report", str(tmp_path / "results")])
    assert done.exit_code == 0, done.output
    assert "1 studies (baselines)" in done.output.replace("\n", "")
    assert (tmp_path / "results" / "report.html").read_text().startswith("<!doctype html>")


@pytest.mark.parametrize("there", [True, False])
def test_a_folder_without_studies_is_wrong_input(tmp_path, there):
    from botgrpo_cli.errors import InputError

    folder = tmp_path if there else tmp_path / "no"
    done = CliRunner().invoke(app, ["report", str(folder)])
    assert isinstance(done.exception, InputError)
    assert "ablate" in str(done.exception)
