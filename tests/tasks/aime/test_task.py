"""The whole task, offline: chains and word problems with the exact judge, files, and what is recorded."""

from __future__ import annotations

import json
from random import Random

import pytest
import torch

from botgrpo_cli.errors import InputError
from botgrpo_cli.methods.registry import METHODS
from botgrpo_cli.policy.sample import Rollout
from botgrpo_cli.recipe.errors import RecipeError
from botgrpo_cli.records.read import read_metrics, read_samples
from botgrpo_cli.tasks.aime.task import AimeTask
from botgrpo_cli.tasks.base import Completion
from botgrpo_cli.tasks.registry import make_task
from botgrpo_cli.tiny import chain_damage, chains
from botgrpo_cli.training.rollouts import Batch, token_rewards
from tests.conftest import make_policy
from tests.tasks.aime.helpers import completion, recipe
from tests.training.test_loop import CLOCKS
from tests.training.toy import make_recipe, make_trainer

ROWS = [{"problem": f"What is {n} + {n}?", "answer": str(2 * n)} for n in range(30)]


@pytest.fixture
def task():
    with AimeTask(recipe()) as made:
        yield made


def right(prompt) -> str:
    return chains.solution(chains.read_problem(prompt.text))


def score(task, text, prompt=None, **options):
    prompt = prompt or task.prompts("train")[0]
    return task.submit(completion(text, prompt, **options)).result(timeout=5)


def write(folder, rows, name="own.jsonl"):
    path = folder / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_prompts_have_the_instruction_and_are_disjoint(task):
    train, held_out = task.prompts("train"), task.prompts("held-out")
    assert train[0].text.startswith("Solve: Start with ")
    assert (len(train), len(held_out)) == (2048, 256)
    assert not {prompt.text for prompt in train} & {prompt.text for prompt in held_out}


def test_a_solution_gets_everything_and_no_blame(task):
    for prompt in task.prompts("train")[:20]:
        found = score(task, right(prompt), prompt)
        assert (found.reward, set(found.local)) == (2.0, {0.0})
        assert (found.metrics["step_score"], found.metrics["first_error"], found.metrics["solved"]) == (1.0, 1.0, 1.0)


def test_blame_starts_at_the_first_wrong_step(task):
    prompt = task.prompts("train")[0]
    steps = right(prompt).split("\n\n")
    steps[1] = steps[1][:-1] + ("1" if steps[1][-1] != "1" else "2")
    found = score(task, "\n\n".join(steps), prompt)
    assert {value for value, step in zip(found.local, found.steps, strict=True) if step == 0} == {0.0}
    assert {value for value, step in zip(found.local, found.steps, strict=True) if step >= 1} == {-1.0}
    assert found.terms == {"outcome": 1.0, "format": 1.0}  # the last box is right all the same
    assert found.metrics["first_error"] == 1 / len(steps)


def test_stopping_early_loses_the_format_and_counts_as_part_of_the_chain(task):
    prompt = next(p for p in task.prompts("train") if p.level == "hard")
    steps = right(prompt).split("\n\n")
    for text in (steps[0], "\n\n".join([steps[0], steps[-1]])):
        found = score(task, text, prompt)
        assert found.terms["format"] == 0.0
        assert found.metrics["first_error"] == pytest.approx(1 / len(steps))


@pytest.mark.parametrize("strategy", ["error-propagation", "context-aware", "independent"])
def test_scores_do_not_depend_on_the_window(strategy):
    rng = Random(0)
    tasks = [AimeTask(recipe(reward={"steps": {"strategy": strategy, "window": window}})) for window in (1, 3, 5)]
    for prompt in tasks[0].prompts("train")[:25]:
        text = chain_damage.damage(rng, chains.read_problem(prompt.text), 0.3)[0]
        found = [score(task, text, prompt) for task in tasks]
        assert found[0].local == found[1].local == found[2].local
        calls = [each.metrics["step_calls"] for each in found]
        assert calls == sorted(calls, reverse=True)


def test_strategies_differ_where_a_right_step_follows_a_wrong_one():
    prompt = chains.prompts("train")[0]
    chain = chains.read_problem(prompt.text)
    text, _ = chain_damage.damage(Random(1), chain, 0.0)
    steps = text.split("\n\n")
    slipped = chain_damage.slip(Random(0), chain_damage.At(chain, 1, chain.start))
    rest = chains.solution(chains.Chain(slipped.value, chain.operations[1:])).split("\n\n")
    rest = [step.replace(f"Step {n}:", f"Step {n + 1}:") for n, step in enumerate(rest, start=1)]
    wrong = "\n\n".join([*slipped.steps, *rest])
    assert len(wrong.split("\n\n")) == len(steps)
    means = {}
    for strategy in ("error-propagation", "independent"):
        for against in ("written", "chain"):
            made = recipe(reward={"steps": {"strategy": strategy}}, judge={"against": against})
            means[strategy, against] = score(AimeTask(made), wrong, prompt).metrics["step_score"]
    whole = len(steps)
    assert means == {
        ("error-propagation", "written"): 0.0,
        ("error-propagation", "chain"): 0.0,
        ("independent", "written"): (whole - 1) / whole,
        ("independent", "chain"): 0.0,
    }


def test_turned_verdicts_are_recorded_as_simulated():
    made = AimeTask(recipe(judge={"flip": 0.5}))
    prompt = made.prompts("train")[0]
    assert made.provenance()["simulated"] == ["judge.flip 0.5"]
    assert made.provenance()["judge"]["kind"] == "simulated"
    found = score(made, right(prompt), prompt)
    assert found.detail["judge"] == "simulated"
    assert found.metrics["solved"] == 1.0  # the grader is never wrong
    assert sum(row["verdict"] == "incorrect" for row in found.detail["judged_steps"]) > 0.0


def test_provenance_and_counters_of_the_exact_judge(task):
    task.prompts("train")
    assert task.provenance() == {
        "heuristic": [],
        "simulated": [],
        "problems": {"source": "chains"},
        "judge": {"kind": "exact", "against": "written", "errors": []},
    }
    assert task.counters() == {}
    assert task.versions() == {}


def test_nobody_is_asked_with_strategy_none():
    with AimeTask(recipe(reward={"steps": {"strategy": "none"}})) as made:
        prompt = made.prompts("train")[0]
        found = score(made, right(prompt), prompt)
        assert set(found.local) == {0.0}
        assert "step_score" not in found.metrics
        assert "judge" not in made.provenance()
        assert found.steps[-1] == -1
        assert max(found.steps) > 1


def test_a_file_of_problems_is_split_counted_and_graded_by_its_golds(tmp_path):
    rows = [*ROWS, {"problem": "Twice?", "answer": "080 or 081"}, {"problem": "Nothing?", "answer": "0"}]
    made = AimeTask(_with({"source": write(tmp_path, rows), "share": 0.3}))
    prompts = [*made.prompts("train"), *made.prompts("held-out")]
    assert len({prompt.id for prompt in prompts}) == 32
    assert made.provenance()["problems"] | {"source": "own"} == {
        "source": "own",
        "rows": 32,
        "odd": 0,
        "figures_dropped": 0,
        "duplicates": 0,
        "problems": 32,
        "several_golds": 1,
        "zeros": 2,
        "figures_kept": 0,
    }
    by_text = {prompt.text.removeprefix("Solve: "): prompt for prompt in prompts}
    for text, answer, solved in (
        ("Twice?", "80", 1.0),
        ("Twice?", "081", 1.0),
        ("Twice?", "82", 0.0),
        ("Nothing?", "0", 1.0),
    ):
        found = score(made, f"\\boxed{{{answer}}}", by_text[text])
        assert found.metrics["solved"] == solved


def test_problems_of_both_sources_are_held_out_only(tmp_path):
    source, other = write(tmp_path, ROWS), write(tmp_path, ROWS[:8], "other.jsonl")
    problems = {"source": source, "held_out": other}
    made = AimeTask(_with(problems))
    train, held_out = made.prompts("train"), made.prompts("held-out")
    assert (len(train), len(held_out)) == (22, 8)
    assert not {prompt.id for prompt in train} & {prompt.id for prompt in held_out}
    assert made.provenance()["problems"]["in_both"] == 8


def _with(problems: dict, prompts: int = 2):
    return recipe(
        task={"name": "aime", "instruction": "{problem}", "problems": {"share": 0.3, **problems}},
        reward={"steps": {"strategy": "none"}},
        sampling={"prompts": 2},
        evaluation={"prompts": prompts},
    )


@pytest.mark.parametrize(
    ("rows", "problems", "pieces"),
    [
        ([{"problem": "x", "answer": "1000"}, *ROWS], {}, ["row 1", "'1000' is not an integer from 0 to 999"]),
        ([{"problem": "x", "answer": "many"}, *ROWS], {}, ["row 1", "'many' is not an integer"]),
        ([], {}, ["holds no rows"]),
        (ROWS, {"answer_column": "anser"}, ["has no column 'anser'", "Did you mean 'answer'?"]),
        (ROWS, {"share": 0.0}, ["None of the 30 problems", "held-out set", "task.problems.share 0"]),
        (ROWS, {"share": 1.0}, ["left for the training set"]),
        (ROWS, {"held_out": "chains"}, ["task.problems.held_out is 'chains'"]),
        (ROWS, {"held_out": "SAME"}, ["so none is left to train on"]),
        (ROWS[:4], {"held_out": "OTHER"}, ["sampling.prompts: Found 2", "has 1 training prompts"]),
    ],
)
def test_bad_problems_are_refused_with_words(tmp_path, rows, problems, pieces):
    source = write(tmp_path, rows)
    other = write(tmp_path, [*ROWS[:3], {"problem": "y", "answer": "1"}], "other.jsonl")
    problems = {key: {"SAME": source, "OTHER": other}.get(value, value) for key, value in problems.items()}
    with pytest.raises(InputError) as caught:
        AimeTask(_with({"source": source, **problems})).prompts("train")
    for piece in pieces:
        assert piece in str(caught.value)


def test_odd_rows_can_be_skipped_and_are_counted(tmp_path):
    source = write(tmp_path, [{"problem": "x", "answer": "many"}, *ROWS])
    made = AimeTask(_with({"source": source, "skip_odd": True}))
    assert len(made.prompts("train")) + len(made.prompts("held-out")) == 30
    assert made.provenance()["problems"]["odd"] == 1


def test_more_held_out_prompts_than_there_are_is_said_when_the_data_is_read(tmp_path):
    asked = _with({"source": write(tmp_path, ROWS)}, prompts=99)
    with pytest.raises(RecipeError, match=r"evaluation.prompts: Found 99; the prompt set '.*own.jsonl' has"):
        make_task(asked).prompts("held-out")


def toy_recipe(**changes):
    made = make_recipe(
        sampling__max_new_tokens=24, evaluation__samples=4, evaluation__prompts=3, training__steps=2, **changes
    )
    own = recipe(judge={"kind": "exact"})
    return made.model_copy(update={"task": own.task, "reward": own.reward, "judge": own.judge})


@pytest.mark.parametrize("method", sorted(METHODS))
def test_every_method_trains_on_it_and_logs_what_others_rely_on(tmp_path, method):
    made = toy_recipe(method__name=method, method__refills=0)
    trainer = make_trainer(tmp_path / "run", made, task=AimeTask(made))
    trainer.run()
    rows = read_metrics(tmp_path / "run")
    for split in ("train", "held-out"):
        there = set(rows[rows["split"] == split]["metric"])
        assert {"solved", "format_rate", "parsed_rate", "step_score", "first_error", "steps", "status_no_box"} <= there
    held_out = rows[rows["split"] == "held-out"]
    assert {"pass@1", "pass@2", "pass@4"} <= set(held_out["metric"])
    assert "pass@8" not in set(held_out["metric"])
    assert not [m for m in rows[rows["split"] == "train"]["metric"] if m.startswith("pass@")]
    assert not rows[~rows["metric"].str.startswith(CLOCKS)]["value"].isna().any()
    sample = next(s for s in read_samples(tmp_path / "run") if s["split"] == "train")
    assert sample["judge"] == "exact"
    assert len(sample["local"]) == sample["tokens"]


def test_sequence_level_methods_see_the_mean_of_the_same_signal(task):
    prompt = task.prompts("train")[0]
    steps = right(prompt).split("\n\n")
    texts = [right(prompt), "\n\n".join([steps[0], *["Step 9: 1 + 1 = 2"] * 3])]
    scored = [score(task, text, prompt) for text in texts]
    rollouts = [Rollout(0, [1] * len(each.local), [], True) for each in scored]
    batch = Batch([prompt] * 2, [[]] * 2, rollouts, scored, torch.tensor([0, 0]), 0.0, 0.0)
    rewards = token_rewards(batch, 0.5)
    for row, each in enumerate(scored):
        mean = (rewards.tokens[row] * rewards.mask[row]).sum() / rewards.mask[row].sum()
        assert float(mean) == pytest.approx(each.reward + 0.5 * sum(each.local) / len(each.local))


def test_a_random_policy_is_scored_without_trouble():
    policy = make_policy()
    made = AimeTask(recipe())
    prompt = made.prompts("train")[0]
    rng = Random(0)
    for _ in range(200):
        ids = [rng.randrange(len(policy.tokenizer)) for _ in range(rng.randrange(1, 60))]
        found = made.submit(Completion(prompt, policy.token_bytes.pieces(ids), rng.random() < 0.5)).result(timeout=5)
        assert len(found.local) == len(found.steps) == len(ids)
        assert all(-1.0 <= value <= 0.0 for value in found.local)
        assert found.reward == 0.0
