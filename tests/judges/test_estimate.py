"""How many calls a run makes, counted by hand for a few recipes."""

from __future__ import annotations

import pytest

from botgrpo_cli.judges.estimate import estimate_calls
from botgrpo_cli.recipe.schema import Recipe
from tests.recipes import AimeRecipe, ReactRecipe


def recipe(schema=ReactRecipe, **reward) -> Recipe:
    return schema.model_validate(
        {
            "reward": reward,
            "sampling": {"prompts": 3, "group_size": 4},
            "training": {"steps": 7, "micro_batch": 12},
            "evaluation": {"every": 3, "prompts": 5, "samples": 2},
        }
    )


def test_no_judge_no_call():
    found = estimate_calls(recipe())
    assert (found.each, found.total, found.per_pair) == ({}, 0, 4)


@pytest.mark.parametrize(
    ("reward", "each"),
    [
        ({"code_judge": {"weight": 1.0}}, {"reward.code_judge": 1}),
        ({"code_judge": {"weight": 1.0, "lines": True}}, {"reward.code_judge": 1}),
        ({"code_judge": {"measure": True}}, {"reward.code_judge": 1}),
        ({"vlm": {"mode": "global"}}, {"reward.vlm": 1}),
        ({"vlm": {"mode": "local-1turn"}}, {"reward.vlm": 1}),
        ({"vlm": {"mode": "local-2turn"}}, {"reward.vlm": 2}),
        ({"vlm": {"mode": "none", "measure": True}}, {}),
        (
            {"code_judge": {"weight": 1.0}, "vlm": {"mode": "local-2turn"}},
            {"reward.code_judge": 1, "reward.vlm": 2},
        ),
    ],
)
def test_calls_are_completions_times_calls_each(reward, each):
    found = estimate_calls(recipe(**reward))
    assert found.each == each
    assert found.training == 3 * 4 * 7 * sum(each.values())
    assert found.evaluation == 4 * 5 * 2 * sum(each.values()), "at steps 0, 3, 6 and 7"
    assert found.total == found.training + found.evaluation


@pytest.mark.parametrize(("steps", "each"), [({"window": 3}, 22), ({"window": 1}, 64), ({"strategy": "none"}, 0)])
@pytest.mark.parametrize("measure", [False, True])
def test_steps_take_a_call_a_window_and_held_out_ones_only_where_they_are_measured(steps, each, measure):
    found = estimate_calls(recipe(AimeRecipe, steps={**steps, "measure": measure}))
    assert found.training == 3 * 4 * 7 * each
    assert found.evaluation == (4 * 5 * 2 * each if measure else 0)
