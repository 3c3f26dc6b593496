"""The files of a study: what is in them, when they are written anew, and the generated README."""

from __future__ import annotations

import json

import pytest

from botgrpo_cli.records.read import read_metrics
from botgrpo_cli.studies.load import load_study
from botgrpo_cli.studies.readme import BEGIN, END, write_readme
from botgrpo_cli.studies.state import plan
from botgrpo_cli.studies.tables import finished, read_summary, up_to_date, write_tables
from tests.recipe.helpers import plenty
from tests.studies.runs import rising, write_run
from tests.studies.toy import STUDY, write_study


def load(path, **options):
    return load_study(str(path), scale="tiny", counts=plenty, **options)


def make(tmp_path, *, seeds=(0, 1), **options):
    """Both arms of the toy study, finished, with their tables."""
    study = load(write_study(tmp_path), seeds=list(seeds), **options)
    folder = tmp_path / "results/letters"
    for name, at in (("bot-grpo", 3), ("grpo", 5)):
        for seed in seeds:
            if not (folder / f"{name}-seed{seed}").exists():
                write_run(folder / f"{name}-seed{seed}", study.arm(name).at(seed), rising(at), also=[("length", float)])
    return study, folder, table(study, folder)


def table(study, folder, missing=()):
    runs = finished(study, folder, plan(study, folder, resume=True))
    write_tables(study, folder, runs, missing)
    return runs


def test_curves_bear_the_studys_own_names(tmp_path):
    _, folder, _ = make(tmp_path)
    curves = read_metrics(folder / "curves.csv")
    assert set(curves["study"]) == {"letters"}
    assert list(curves["arm"].unique()) == ["bot-grpo", "grpo"]
    assert list(curves["run"].unique()) == ["bot-grpo-seed0", "bot-grpo-seed1", "grpo-seed0", "grpo-seed1"]
    assert set(curves["metric"]) == {"compile_rate", "length", "prompts"}
    assert set(curves["split"]) == {"held-out"}
    one = curves[(curves["run"] == "grpo-seed0") & (curves["metric"] == "compile_rate")]
    assert one["step"].tolist() == list(range(13))
    assert one["value"].tolist() == [0.0] * 5 + [1.0] * 8


def test_summary_has_an_empty_cell_where_there_is_no_value(tmp_path):
    _, folder, _ = make(tmp_path)
    rows = read_summary(folder).set_index(["arm", "metric"])
    bag, length = rows.loc[("bot-grpo", "compile_rate")], rows.loc[("bot-grpo", "length")]
    assert (bag["final"], bag["seeds"], bag["steps_50"], bag["steps_50_by_seed"]) == ("1", "0 1", "5", "5 5")
    assert (bag["speed_up_50"], bag["baseline"]) == ("1.4", "grpo")
    assert (length["final"], length["final_low"], length["steps_50"]) == ("12", "", "")
    assert rows.loc[("grpo", "compile_rate"), "speed_up_50"] == ""
    assert "nan" not in (folder / "summary.csv").read_text().lower()


def test_the_manifest_says_how_it_was_made(tmp_path):
    _, folder, _ = make(tmp_path)
    about = json.loads((folder / "manifest.json").read_text())
    assert about["status"] == "complete"
    assert about["command"] == "botgrpo ablate letters.yaml --scale tiny --seeds 0,1"
    assert about["heuristic"] == ["reward.content"]
    assert about["runs"][0] == {
        "arm": "bot-grpo", "seed": 0, "folder": "bot-grpo-seed0", "steps": 12, "wall_seconds": 90.0
    }  # fmt: skip
    assert about["arms"][1]["changes"] == ["method.name=grpo"]
    assert str(tmp_path) not in (folder / "manifest.json").read_text()


def test_tables_are_up_to_date_until_something_changes(tmp_path):
    study, folder, runs = make(tmp_path)
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    assert up_to_date(study, folder, runs)
    table(study, folder)
    assert before == {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    retitled = load(write_study(tmp_path, STUDY.replace("title: Letters", "title: Words")), seeds=[0, 1])
    assert not up_to_date(retitled, folder, runs)
    with (folder / "grpo-seed0/metrics.csv").open("ab") as file:
        file.write(b"\n")
    assert not up_to_date(study, folder, runs)
    (folder / "summary.csv").unlink()
    assert not up_to_date(study, folder, runs)


def test_seeds_and_arms_of_earlier_calls_stay_in_the_tables(tmp_path):
    make(tmp_path, seeds=(0, 1))
    path = tmp_path / "letters.yaml"
    folder = tmp_path / "results/letters"
    runs = table(load(path, seeds=[0], arms=["grpo"]), folder)
    assert [run.name for run in runs] == ["bot-grpo-seed0", "bot-grpo-seed1", "grpo-seed0", "grpo-seed1"]
    # but not when they are of another recipe by now
    write_study(tmp_path, STUDY.replace("{name: bot-grpo}", "{name: bot-grpo, local_weight: 1}"))
    runs = table(load(path, seeds=[0], arms=["grpo"]), folder)
    assert [run.name for run in runs] == ["grpo-seed0", "grpo-seed1"]


def test_runs_of_another_study_are_named_by_their_place(tmp_path):
    study = load(write_study(tmp_path))
    folder = tmp_path / "results/letters"
    write_run(tmp_path / "results/other/x-seed0", study.arm("grpo").at(0), arm="x")
    write_run(folder / "bot-grpo-seed0", study.arm("bot-grpo").at(0), rising(3))
    table(study, folder)
    about = json.loads((folder / "manifest.json").read_text())
    assert [run["folder"] for run in about["runs"]] == ["bot-grpo-seed0", "../other/x-seed0"]
    curves = read_metrics(folder / "curves.csv")
    assert set(curves["arm"]) == {"bot-grpo", "grpo"}
    assert set(curves["run"]) == {"bot-grpo-seed0", "grpo-seed0"}


def test_what_is_missing_is_named(tmp_path):
    study, folder, _ = make(tmp_path)
    table(study, folder, missing=["grpo-seed2"])
    about = json.loads((folder / "manifest.json").read_text())
    assert (about["status"], about["missing"]) == ("incomplete", ["grpo-seed2"])


# --- README ----------------------------------------------------------------------------------------------------------
def test_the_readme_keeps_what_is_written_by_hand(tmp_path):
    _, folder, _ = make(tmp_path)
    (folder / "figure.png").write_bytes(b"png")
    path = folder.parent / "README.md"
    path.write_text("# Results\n\nBy hand.\n")
    assert write_readme(folder.parent) == path
    text = path.read_text()
    assert text.startswith("# Results\n\nBy hand.\n\n" + BEGIN)
    for words in (
        "### `letters`: Letters (ours)",
        "![Letters](letters/figure.png)",
        "| arm | seeds | final compile rate | steps to 20 % | steps to 50 % |",
        "| bot-grpo | 0, 1 | 100 % (100 – 100) | 4 | 5 | 1.2× (1.2 – 1.2) | 1.4× (1.4 – 1.4) |",
        "`botgrpo ablate letters.yaml --scale tiny --seeds 0,1`",
        "2 minutes each",
        "Heuristic: reward.content.",
    ):
        assert words in text, words
    path.write_text(text.replace("By hand.", "Changed.") + "\nBelow.\n")
    write_readme(folder.parent)
    again = path.read_text()
    assert again == text.replace("By hand.", "Changed.") + "\nBelow.\n"
    assert (again.count(BEGIN), again.count(END)) == (1, 1)


def test_no_study_leaves_a_folder_alone(tmp_path):
    assert write_readme(tmp_path) is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("figure", ["1", "App. C"])
def test_the_paper_stands_beside_what_was_measured(tmp_path, figure):
    text = STUDY.replace("figure: ours", f'figure: "{figure}"\npaper: Twice as fast.\nnote: A toy | of ours.')
    study = load(write_study(tmp_path, text))
    folder = tmp_path / "results/letters"
    write_run(folder / "grpo-seed0", study.arm("grpo").at(0))
    table(study, folder)
    text = write_readme(folder.parent).read_text()
    assert f"({'figure 1' if figure == '1' else 'App. C'} of the paper)" in text
    assert "The paper: Twice as fast." in text
    assert "A toy | of ours." in text
