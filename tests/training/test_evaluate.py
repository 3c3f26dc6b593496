"""What is evaluated, by which recipe, and the files that come of it."""

from __future__ import annotations

import csv
import json

import pytest
from typer.testing import CliRunner

from botgrpo_cli.app import app
from botgrpo_cli.errors import InputError
from botgrpo_cli.recipe.load import dump_recipe, load_recipe
from botgrpo_cli.tasks.aime.task import AimeTask
from botgrpo_cli.tasks.registry import task_of
from botgrpo_cli.training.evaluate import find_file, find_subject, recipe_for
from tests.recipe.helpers import plenty


@pytest.mark.parametrize(
    ("model", "scale", "recipe"),
    [
        ("tiny:react-qwen2", "tiny", "react_qwen"),
        ("tiny:aime-qwen2", "tiny", "aime_qwen"),
        ("tiny:aime-smollm3", "tiny", "aime_smollm3"),
        ("tiny:aime-phi3", "tiny", "aime_phi4"),
        ("small:smollm2-135m-instruct", "small", "react_qwen"),
        ("Qwen/Qwen2.5-3B-Instruct", None, "react_qwen"),
        ("nobody/has-this", None, "react_qwen"),
    ],
)
def test_a_bare_model_has_the_recipe_that_trains_it(model, scale, recipe):
    assert recipe_for(model, scale) == recipe


def test_a_bare_model_is_evaluated_at_the_scale_that_its_name_tells():
    found = find_subject("tiny:aime-qwen2", None, None)
    assert (found.recipe.name, found.recipe.scale, found.recipe.policy.model) == (
        "aime_qwen",
        "tiny",
        "tiny:aime-qwen2",
    )
    assert find_subject("tiny:aime-qwen2", "react_qwen", None).recipe.task.name == "react"
    assert find_subject("some/model", "aime_qwen", "tiny").recipe.policy.model == "some/model"


def test_an_evaluation_needs_no_model_that_judges_steps():
    paper = load_recipe("aime_qwen", counts=plenty).recipe
    assert AimeTask.for_evaluation(paper).reward.steps.strategy == "none"
    measured = load_recipe("aime_qwen", sets=["reward.steps.measure=true"], counts=plenty).recipe
    assert AimeTask.for_evaluation(measured) == measured
    for name, scale in (("aime_qwen", "tiny"), ("react_qwen", None)):
        recipe = load_recipe(name, scale=scale, counts=plenty).recipe
        assert task_of(recipe).for_evaluation(recipe) == recipe


def test_a_file_is_scored_by_the_recipe_of_its_run_unless_another_is_named(tmp_path):
    file = tmp_path / "samples.jsonl"
    file.write_text('{"prompt_id": "x", "text": "y"}\n')
    with pytest.raises(InputError, match="name the recipe"):
        find_file(str(file), None, None)
    (tmp_path / "recipe.yaml").write_text(dump_recipe(load_recipe("aime_qwen", scale="tiny").recipe))
    found = find_file(str(file), None, None)
    assert (found.recipe.task.problems.source, found.file, found.folder) == ("chains", file, None)
    assert find_file(str(file), "aime_phi4", "small").recipe.task.problems.source == "words"


ROWS = [
    {"problem": "What is 6*7?", "answer": "42", "text": "So\n\n\\boxed{42}", "tokens": 9, "finished": True},
    {"problem": "What is 6*7?", "answer": "42", "text": "So\n\n\\boxed{41}", "tokens": 9, "finished": True},
    {"problem": "What is 6+7?", "answer": "13", "text": "So 13", "tokens": 2, "finished": False},
    {"problem": "What is 6+7?", "answer": "13", "text": "\\boxed{13}", "tokens": 4, "finished": True},
]


@pytest.fixture
def evaluate(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")

    def run(*arguments, rows=ROWS):
        (tmp_path / "made.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        return CliRunner().invoke(app, ["evaluate", "made.jsonl", "--recipe", "aime_qwen", *arguments])

    return run


def test_a_file_of_completions_becomes_a_table_csv_rows_and_a_row_a_problem(evaluate, tmp_path):
    done = evaluate()
    assert done.exit_code == 0, done.output
    assert "made.jsonl: 2 prompts of the file x 2 samples" in done.output
    assert "aime_qwen at scale paper" in done.output
    rows = {row["metric"]: row for row in csv.DictReader((tmp_path / "evaluation.csv").open())}
    assert (rows["pass@1"]["value"], rows["pass@2"]["value"]) == ("0.5", "1.0")
    assert "pass@4" not in rows
    assert (rows["pass@1"]["ci_low"], rows["pass@1"]["ci_high"]) == ("0.5", "0.5")
    assert (rows["truncated"]["value"], rows["length"]["value"], rows["status_no_box"]["value"]) == (
        "0.25",
        "6.0",
        "0.25",
    )
    assert {row["split"] for row in rows.values()} == {"file"}
    assert {row["step"] for row in rows.values()} == {row["base_model"] for row in rows.values()} == {""}
    problems = [json.loads(line) for line in (tmp_path / "evaluation.jsonl").read_text().splitlines()]
    assert [(row["n"], row["c"], row["statuses"], row["lengths"]) for row in problems] == [
        (2, 1, {"ok": 2}, [9, 9]),
        (2, 1, {"no_box": 1, "ok": 1}, [2, 4]),
    ]


def test_a_k_above_the_samples_is_an_empty_cell_and_a_sentence(evaluate, tmp_path):
    done = evaluate("--k", "1,2,4")
    assert done.exit_code == 0, done.output
    assert "pass@4 has no value" in done.output
    rows = {row["metric"]: row for row in csv.DictReader((tmp_path / "evaluation.csv").open())}
    assert (rows["pass@4"]["value"], rows["pass@4"]["ci_low"]) == ("", "")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--samples", "3"], "--samples says how to sample"),
        (["--prompts", "3"], "--prompts says how to sample"),
        (["--out", "made.csv"], "made.jsonl is the file that is evaluated"),
        (["--k", "0"], "expected whole numbers from 1"),
        (["--split", "held"], "expected held-out or train"),
    ],
)
def test_options_that_make_no_sense(evaluate, tmp_path, arguments, words):
    done = evaluate(*arguments)
    assert words in str(done.exception or "") + done.output
    assert done.exit_code != 0
    assert len((tmp_path / "made.jsonl").read_text().splitlines()) == len(ROWS)
    assert not (tmp_path / "made.csv").exists()
