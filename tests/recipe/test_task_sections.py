"""`task:` and `reward:` are typed by the task in whose recipe they stand; what earlier versions wrote still loads."""

from __future__ import annotations

from pathlib import Path

import pytest

from botgrpo_cli.recipe.load import dump_recipe, load_recipe
from tests.recipe.helpers import load, problems_of, write

RESULTS = sorted((Path(__file__).parents[2] / "results").rglob("recipe.yaml"))
OWN = "def good(text):\n    return 1.0\n"


@pytest.mark.parametrize("group", ["baselines", "aime", "small"])
def test_the_recipes_of_earlier_runs_load(group):
    """They hold the keys of every task side by side."""
    paths = [path for path in RESULTS if group in path.parts]
    assert paths
    assert any("problems:" in path.read_text() and "name: react" in path.read_text() for path in RESULTS)
    for path in paths:
        recipe = load(str(path)).recipe
        assert f"name: {recipe.task.name}" in path.read_text()
        assert f"learning_rate: {recipe.training.learning_rate:g}".replace("e-0", "e-")[:15] in path.read_text()


def test_a_key_of_another_task_changes_nothing_and_is_refused(tmp_path):
    path = write(
        tmp_path, "extends: react_qwen\ntask:\n  problems: {source: chains}\nscales: {tiny: {reward: {steps: {}}}}"
    )
    assert problems_of(path) == [
        "my.yaml:3: task.problems: This key is of the task 'aime' and changes nothing for 'react'; leave it out.",
        "my.yaml:4: scales.tiny.reward.steps: This key is of the task 'aime' and changes nothing for 'react'; leave it "
        "out.",
    ]
    (line,) = problems_of("react_qwen", sets=["task.problems.source=prompts.jsonl"])
    assert line.startswith("--set: task.problems: This key is of the task 'aime'")


def test_paths_are_relative_to_the_file_that_names_them(tmp_path, monkeypatch):
    write(tmp_path, OWN, "kit/good.py")
    write(tmp_path, '{"prompt": "a"}\n{"prompt": "b"}\n', "kit/rows.jsonl")
    path = write(tmp_path, "task: {name: ./good.py, data: rows.jsonl}\nreward: {good: 1}\n", "kit/r.yaml")
    child = write(tmp_path, "extends: kit/r.yaml\ntraining: {steps: 3}\n", "child.yaml")
    for name in (path, child):
        recipe = load(name).recipe
        assert (recipe.task.name, recipe.task.data) == (f"{tmp_path}/kit/good.py", f"{tmp_path}/kit/rows.jsonl")
    monkeypatch.chdir(tmp_path / "kit")
    again = load("react_qwen", sets=["task.name=good.py", "task.data=rows.jsonl", "reward.good=2"]).recipe
    assert (again.task.name, again.reward.good) == (f"{tmp_path}/kit/good.py", 2.0)
    write(tmp_path, dump_recipe(again), "far/away/recipe.yaml")
    assert load(str(tmp_path / "far/away/recipe.yaml")).recipe == again


def test_a_recipe_is_of_one_task_at_every_scale(tmp_path):
    (line,) = problems_of(write(tmp_path, "scales: {small: {task: {name: aime}}}"))
    assert line.startswith("my.yaml:1: scales.small.task.name: A recipe is of one task at every scale")


def test_an_unknown_task_brings_no_follow_up_problem(tmp_path):
    (line,) = problems_of(write(tmp_path, "task: {name: ract, brief: x}\nreward: {compile: {weight: 1}}"))
    assert line.startswith("my.yaml:1: task.name: Found 'ract'")


@pytest.mark.parametrize(
    ("code", "recipe", "says"),
    [
        ("import nothing_like_it\n", "reward: {good: 1}", "good.py:1: ModuleNotFoundError"),
        ("def good(text:\n", "reward: {good: 1}", "good.py:1: SyntaxError"),
        ("x = 1\n", "reward: {good: 1}", "good.py"),
        (OWN, "reward: {god: 1}", "reward.god: Found an unknown key; expected spread or good. Did you mean 'good'?"),
        (OWN, "reward: {good: much}", "reward.good: Found 'much'; expected a number from -100 to 100 or null."),
        (OWN, "reward: {good: 0}", "reward: No function has a weight, so nothing can be learnt; expected some of good"),
        (OWN, "", "as in reward: {good: 1.0}."),
        (OWN, "reward: {good: 1}\ntask: {headline: goood}", "task.headline: Found 'goood'; expected one of good, "),
        ("def spread(text): return 1\n", "reward: {spread: {}}", "'spread' is a key of `reward:` already"),
    ],
)
def test_what_is_wrong_with_an_own_task_is_said_with_its_place(tmp_path, code, recipe, says):
    write(tmp_path, code, "good.py")
    write(tmp_path, "task: {name: ./good.py, data: rows.jsonl}\n", "base.yaml")
    lines = problems_of(write(tmp_path, f"extends: base.yaml\n{recipe}"))
    assert any(says in line for line in lines), lines


def test_without_data_nothing_is_loaded(tmp_path):
    write(tmp_path, OWN, "good.py")
    (line,) = problems_of(write(tmp_path, "task: {name: ./good.py}\nreward: {good: 1}"))
    assert "task.data: Found no prompts; expected a jsonl, json, csv or parquet file, or a hub id." in line


def test_show_explains_an_own_function(tmp_path):
    write(
        tmp_path, '@__import__("botgrpo_cli").signal("lines")\ndef bad(text):\n    """Blames bad lines."""\n', "good.py"
    )
    path = write(tmp_path, "task: {name: ./good.py, data: x.jsonl}\nreward: {bad: 0.5}")
    loaded = load_recipe(path)
    text = dump_recipe(loaded.recipe, sources=loaded.sources)
    assert (
        "  # Blames bad lines. Weight of a signal on lines (good.py:2); 0 only logs it, null does not call it.\n"
        in text
    )
