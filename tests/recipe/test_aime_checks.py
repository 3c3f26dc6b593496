"""What the keys of a recipe for the task aime must be together."""

from __future__ import annotations

import pytest

from botgrpo_cli.recipe.checks import count_check, prompt_counts
from botgrpo_cli.recipe.errors import RecipeError
from botgrpo_cli.recipe.load import load_recipe
from tests.recipe.helpers import load, problems_of, write
from tests.recipes import AimeRecipe

# what the file changes of aime_qwen, pieces of the one problem
TABLE = [
    (
        "task: {instruction: Solve it.}",
        ["task.instruction: ", "expected a text with {problem}, the place of the prompt"],
    ),
    ("judge: {kind: heuristic}", ["judge.kind: Found 'heuristic'", "knows no mathematics", "strategy none"]),
    ("judge: {kind: exact}", ["judge.kind: Found 'exact'", "steps of chains and words only", "'di-zhang-fdu/AIME"]),
    ("judge: {noise: 0.1}", ["judge.noise: ", "only heuristic and exact simulate errors"]),
    ("task: {problems: {source: chains}}\njudge: {kind: exact, noise: 0.1}", ["judge.noise: ", "judge.flip"]),
    ("judge: {url: nowhere}", ["judge.url: Found 'nowhere'"]),
    ("reward: {steps: {uncertain: 0.5, incorrect: 0.7}}", ["reward.steps.uncertain: Found 0.7 for incorrect"]),
    ("reward: {steps: {strategy: propagation}}", ["reward.steps.strategy: ", "Did you mean 'error-propagation'?"]),
    ("reward: {steps: {window: 0}}", ["reward.steps.window: Found '0'; expected an integer of at least 1."]),
    (
        "reward: {code_judge: {weight: 1}}",
        ["reward.code_judge: ", "is of the task 'react' and changes nothing for 'aime'"],
    ),
    ("reward: {vlm: {mode: global}}", ["reward.vlm: ", "is of the task 'react' and changes nothing for 'aime'"]),
    (
        "reward: {outcome: {weight: 0}, format: {weight: 0}}\nmethod: {local_weight: 0}",
        ["reward.outcome.weight: Every reward weight is 0"],
    ),
    ("task: {problems: {share: 1.5}}", ["task.problems.share: ", "expected a number from 0 to 1"]),
    ("task: {problems: {sourc: chains}}", ["task.problems.sourc: ", "Did you mean 'source'?"]),
    (
        "task: {name: aima}",
        ["task.name: Found 'aima'; expected react, aime, a Python file (./mine.py), ", "Did you mean 'aime'?"],
    ),
]


@pytest.mark.parametrize(("text", "pieces"), TABLE, ids=[text[:50] for text, _ in TABLE])
def test_one_problem(tmp_path, text, pieces):
    (found,) = problems_of(write(tmp_path, f"extends: aime_qwen\n{text}"))
    for piece in pieces:
        assert piece in found


def test_fine_together(tmp_path):
    for text in (
        "reward: {outcome: {weight: 0}, format: {weight: 0}}",  # the step signal is left
        "reward: {steps: {strategy: none}}\njudge: {kind: heuristic}",
        "task: {problems: {source: words}}\njudge: {kind: exact, flip: 0.2}",
        "judge: {url: http://localhost:8000/v1, model: m}",
    ):
        load(write(tmp_path, f"extends: aime_qwen\n{text}"))


def test_a_recipe_of_another_task_keeps_all_but_task_and_reward_of_what_it_extends(tmp_path):
    (judge,) = problems_of(write(tmp_path, "extends: react_qwen\ntask: {name: aime}"))
    assert "judge.kind: Found 'heuristic'" in judge
    path = write(tmp_path, "extends: react_qwen\ntask: {name: aime}\nreward: {steps: {strategy: none}}")
    loaded = load(path, scale="tiny")
    assert loaded.recipe.policy.model == "tiny:react-qwen2"
    assert (loaded.recipe.task, loaded.recipe.reward.outcome.weight) == (AimeRecipe().task, 1.0)
    assert [note for note in loaded.notes if "are of the task react and are left out; this recipe's is aime" in note]


def test_prompts_are_counted_where_that_needs_no_data():
    tiny = load_recipe("aime_qwen", scale="tiny", sets=["sampling.prompts=8"]).recipe
    assert prompt_counts(tiny) == (2048, 256)
    assert prompt_counts(load("aime_qwen").recipe) is None
    with pytest.raises(RecipeError, match=r"evaluation.prompts: Found 257; the prompt set 'chains' has 256 held-out"):
        load_recipe("aime_qwen", scale="tiny", sets=["evaluation.prompts=257"])
    assert count_check(tiny, 0, 256)[0][0][0] == "task.problems.source"
