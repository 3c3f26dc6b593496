"""A task around the functions of a file, in this process: prompts, scoring as a trainer asks for it, records."""

from __future__ import annotations

import math

import pytest

from botgrpo_cli.errors import InputError, RunError
from botgrpo_cli.recipe.errors import RecipeError
from botgrpo_cli.recipe.load import load_recipe
from botgrpo_cli.tasks.base import UNSCORED, Completion
from botgrpo_cli.tasks.registry import make_task, task_of

CODE = '''
from botgrpo_cli import metric, signal


def right(text, answer):
    return float(answer in text)


def rank(completions, prompts, trainer_state, **columns):
    """All completions of a batch in one call."""
    return [sorted(completions).index(text) + 10 * trainer_state.global_step for text in completions]


async def brief(text):
    return 1.0 if len(text) < 4 else None


@signal("tokens")
def blame(text, tokens):
    return [-0.5 if "x" in token else 0.0 for token in tokens]


@metric
def asked(text, prompt, prompt_id, level):
    return len(prompt)
'''
ROWS = "".join(f'{{"prompt": "Say {n}.", "answer": "{n}", "level": "hard", "id": "n{n}"}}\n' for n in range(40))
RECIPE = """
task: {name: ./mine.py, data: rows.jsonl, system: Be brief.}
reward: {right: 1.0, rank: 0.5, brief: 1.0, blame: 1.0}
"""


@pytest.fixture
def recipe(tmp_path):
    for name, text in (("mine.py", CODE), ("rows.jsonl", ROWS), ("r.yaml", RECIPE)):
        (tmp_path / name).write_text(text)
    return lambda *sets: load_recipe(tmp_path / "r.yaml", sets=list(sets)).recipe


def test_a_batch_is_scored(recipe):
    with make_task(recipe()) as task:
        prompts = task.prompts("train")
        seven = next(prompt for prompt in prompts if prompt.id == "n7")
        assert seven.messages == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Say 7."}]
        assert (seven.text, seven.level, seven.columns["answer"]) == ("Say 7.", "hard", "7")
        pieces = [(b"7", b""), (b"x", b" 77", b"x7", b"")]
        futures = [task.submit(Completion(seven, each, True)) for each in pieces]
        assert not any(future.done() for future in futures), "a batch function waits for all"
        task.gathered(step=3)
        short, long = [future.result(30) for future in futures]
        assert short.terms == {"right": 1.0, "rank": 20.0, "brief": 1.0}
        assert short.reward == 1.0 + 0.5 * 20 + 1.0
        assert (long.reward, long.local) == (1.0 + 0.5 * 21, [-0.5, 0.0, -0.5, 0.0])
        assert math.isnan(long.terms["brief"])
        assert long.metrics["asked"] == len("Say 7."), "functions see the prompt of the data"
        found = task.provenance()
        assert found["prompts"]["train"] + found["prompts"]["held-out"] == 40
        assert found["functions"]["rank"] == "mine.py:9"
        assert task.headline == "right"
        assert {"mine.py"} <= set(task.versions())


def test_what_fails_on_one_completion_leaves_the_others(recipe):
    with make_task(recipe("reward.rank=null")) as task:
        prompt = task.prompts("held-out")[0]
        wrong = Completion(prompt, (b"1",), True)
        object.__setattr__(prompt, "columns", {**prompt.columns, "answer": 3})
        bad = task.submit(wrong)
        good = task.submit(Completion(task.prompts("train")[0], (b"1",), True))
        task.gathered()
        assert "mine.py:5: right raised TypeError" in bad.result(30).detail[UNSCORED][0]
        assert not math.isnan(good.result(30).reward)


def test_samples_that_wait_are_told_when_the_task_is_closed(recipe):
    task = make_task(recipe())
    waiting = task.submit(Completion(task.prompts("train")[0], (b"1",), True))
    task.close()
    task.close()
    task.gathered()
    with pytest.raises(RunError, match="closed"):
        waiting.result(30)


def test_fewer_held_out_prompts_than_asked_for_are_all_evaluated_and_too_few_for_a_step_are_refused(recipe):
    with make_task(recipe("evaluation.prompts=90")) as task:
        assert 0 < len(task.prompts("held-out")) < 40
    says = r"sampling\.prompts: Found 64; the prompt set '.*rows\.jsonl' has 3\d training"
    with make_task(recipe("sampling.prompts=64")) as task, pytest.raises(RecipeError, match=says):
        task.prompts("train")


def test_a_column_that_is_missing_is_said_before_anything_runs(recipe, tmp_path):
    (tmp_path / "rows.jsonl").write_text(ROWS.replace('"answer"', '"gold"'))
    with pytest.raises(InputError, match=r"mine\.py:5: right takes 'answer', which is no column of the data"):
        make_task(recipe())


def test_answers_are_compared_where_the_recipe_says_by_what(recipe):
    without, with_one = recipe(), recipe("task.compare=The shorter one.")
    with pytest.raises(InputError, match=r"expected task\.compare, what a model that judges is to look for"):
        task_of(without).comparison(without)
    comparison = task_of(with_one).comparison(with_one)
    assert comparison.shows == ("answers",)
    assert {prompt.text for prompt in comparison.prompts()} <= {f"Say {n}." for n in range(40)}
    with pytest.raises(InputError, match=r"The judge 'heuristic' can't compare answers of the task 'mine'"):
        comparison.judge(with_one.judge, "answers", print)
    with comparison.checker() as task:
        empty = task.submit(Completion(comparison.prompts()[0], (b" \n", b""), True))
        task.gathered()
        assert comparison.entry(empty.result(30)).problem == "The answer is empty."


def test_files_and_their_copies_are_named(recipe, tmp_path):
    (tmp_path / "mine.py").write_text("import beside\n" + CODE)
    (tmp_path / "beside.py").write_text("x = 1\n")
    made = recipe()
    assert {key: path.name for key, path in task_of(made).files(made).items()} == {
        "task.name": "mine.py",
        "task.data": "rows.jsonl",
        "import beside.py": "beside.py",
    }
