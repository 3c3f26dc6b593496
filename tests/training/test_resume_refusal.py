from __future__ import annotations

import pytest

from botgrpo_cli.errors import InputError
from botgrpo_cli.recipe.load import dump_recipe, load_recipe
from botgrpo_cli.training.run import RECIPE_FILE, refuse_other_recipe


@pytest.fixture
def started(tmp_path):
    (tmp_path / RECIPE_FILE).write_text(dump_recipe(load_recipe("react_judged", scale="tiny").recipe))
    return tmp_path


def now(*sets):
    return load_recipe("react_judged", scale="tiny", sets=sets).recipe


@pytest.mark.parametrize(
    "change",
    [
        "training.steps=99",
        "training.threads=3",
        "task.workers=5",
        "checkpoint.every=7",
        "checkpoint.keep_last=50",
        "judge.concurrency=2",
        "judge.timeout=5",
        "judge.tries=1",
        "judge.cache=false",
        "judge.key_variable=MY_KEY",
    ],
)
def test_what_changes_no_number_may_change(started, change):
    refuse_other_recipe(now(change), started)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ("training.seed=3", "seed: 3"),
        ("judge.noise=0.5", "noise: 0.5"),
        ("judge.temperature=0.5", "temperature: 0.5"),
        ("reward.lint.weight=0.9", "weight: 0.9"),
    ],
)
def test_what_changes_numbers_is_refused_and_shown(started, change, line):
    with pytest.raises(InputError) as caught:
        refuse_other_recipe(now(change), started)
    assert line in str(caught.value)
    assert "Name another folder with --out" in str(caught.value)


def test_prices_may_come_later(started):
    refuse_other_recipe(now("judge.prices.input=1", "judge.prices.output=2"), started)
