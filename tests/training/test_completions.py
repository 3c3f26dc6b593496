"""Files of completions: which columns are read, which problems they are of, and what is not known."""

from __future__ import annotations

import csv
import json

import pytest

from botgrpo_cli.errors import InputError
from botgrpo_cli.tasks.aime.task import AimeTask
from botgrpo_cli.tiny import chains
from botgrpo_cli.training.completions import Given, completion_of, is_completions, read_completions, score_completions
from botgrpo_cli.training.estimates import estimate
from tests.tasks.aime.helpers import PROBLEM, recipe
from tests.training.toy import LetterTask


@pytest.fixture
def task():
    return AimeTask(recipe())


def write(folder, rows, name="completions.jsonl"):
    path = folder / name
    if path.suffix == ".csv":
        with path.open("w", newline="") as file:
            table = csv.DictWriter(file, list(rows[0]))
            table.writeheader()
            table.writerows(rows)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_by_the_id_of_a_problem(tmp_path, task):
    prompt = task.prompts("held-out")[0]
    right = chains.solution(chains.read_problem(prompt.text))
    rows = [{"prompt_id": prompt.id, "text": text} for text in (right, right[:-1], "")]
    answers = score_completions(read_completions(write(tmp_path, rows), task), task)
    assert [a.scored.metrics["solved"] for a in answers] == [1.0, 1.0, 0.0]
    assert answers[0].scored.metrics["step_score"] == 1.0
    assert answers[0].scored.terms == {"outcome": 1.0, "format": 1.0}
    assert {a.prompt.id for a in answers} == {prompt.id}


def test_by_the_text_of_a_problem_with_or_without_the_instruction(tmp_path, task):
    prompt = task.prompts("train")[5]
    rows = [{"prompt": prompt.text, "completion": "x"}]
    (given,) = read_completions(write(tmp_path, rows), task)
    assert given.prompt.id == prompt.id


@pytest.mark.parametrize("name", ["own.jsonl", "own.csv"])
def test_with_problems_and_answers_of_its_own_nothing_else_is_loaded(tmp_path, name):
    task = AimeTask(recipe("no/such-data-set", reward={"steps": {"strategy": "none"}}))
    rows = [
        {"Problem": "What is 6*7?", "Answer": "042", "response": "So \\boxed{42}"},
        {"Problem": "What is 6*7?", "Answer": "042", "response": "So \\boxed{41}"},
        {"Problem": "Which?", "Answer": "80 or 81", "response": "\\boxed{81}"},
    ]
    answers = score_completions(read_completions(write(tmp_path, rows, name), task), task)
    assert [a.scored.metrics["solved"] for a in answers] == [1.0, 0.0, 1.0]
    assert answers[0].prompt.id == answers[1].prompt.id != answers[2].prompt.id
    assert task.provenance() == {"heuristic": [], "simulated": []}


def test_a_problem_of_ones_own_has_no_steps_to_check_and_no_signal(tmp_path, task):
    rows = [{"problem": "What is 6*7?", "answer": "42", "text": "a\n\n\\boxed{42}"}]
    (answer,) = score_completions(read_completions(write(tmp_path, rows), task), task)
    assert answer.scored.reward == 2.0
    assert "step_score" not in answer.scored.metrics


def test_what_a_file_does_not_say_is_not_reported(tmp_path, task):
    base = {"problem": "x", "answer": "1", "text": "\\boxed{1}"}
    rows = [base, base | {"tokens": 7, "finished": True}, base | {"tokens": 9, "finish_reason": "length"}]
    answers = []
    for n, row in enumerate(rows):
        answers += score_completions(read_completions(write(tmp_path, [row], f"{n}.jsonl"), task), task)
    assert [a.tokens for a in answers] == [None, 7, 9]
    assert [a.finished for a in answers] == [True, True, False]
    assert [a.scored.metrics.get("length") for a in answers] == [None, 7.0, 9.0]
    assert [a.scored.metrics.get("truncated") for a in answers] == [None, 0.0, 1.0]
    assert [a.scored.terms["format"] for a in answers] == [1.0, 1.0, 0.0]
    metrics = [row.metric for row in estimate(answers[:1], "solved", [1])]
    assert "length" not in metrics
    assert "truncated" not in metrics


def test_of_a_runs_samples_only_held_out_ones_count(tmp_path, task):
    train, held_out = task.prompts("train")[0], task.prompts("held-out")[0]
    rows = [
        {"step": 0, "split": split, "prompt_id": prompt.id, "text": "x", "tokens": 3, "finished": True, "golds": [1]}
        for split, prompt in (("train", train), ("held-out", held_out), ("held-out", held_out))
    ]
    given = read_completions(write(tmp_path, rows), task)
    assert [(each.prompt.id, each.tokens, each.finished) for each in given] == [(held_out.id, 3, True)] * 2
    assert len(read_completions(write(tmp_path, rows[:1]), task)) == 1


def test_other_tasks_take_ids(tmp_path):
    task = LetterTask()
    rows = [{"id": "held-out-3", "text": "aaab"}]
    (answer,) = score_completions(read_completions(write(tmp_path, rows), task), task)
    assert answer.scored.reward == 0.75


@pytest.mark.parametrize(
    ("rows", "pieces"),
    [
        ([{"id": "x", "answer": "1"}], ["no column holds completions", "Columns found: id, answer"]),
        ([{"text": "x"}], ["no column names the problem of a completion", "Columns found: text"]),
        ([{"id": "chain-nope", "text": "x"}], ["1 of 1 rows can't be used", "'chain-nope' is none of the 2304"]),
        ([{"problem": "Find y.", "text": "x"}], ["the problem 'Find y."]),
        ([{"problem": "x", "answer": "1000", "text": "x"}], ["row 1: The answer '1000' is not an integer"]),
        ([{"problem": "", "answer": "1", "text": "x"}], ["row 1: column 'problem': the problem is empty"]),
    ],
)
def test_files_that_can_t_be_read(tmp_path, task, rows, pieces):
    with pytest.raises(InputError) as caught:
        read_completions(write(tmp_path, rows), task)
    for piece in pieces:
        assert piece in str(caught.value)


def test_an_empty_file_and_one_that_is_not_there(tmp_path, task):
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(InputError, match="holds no rows"):
        read_completions(tmp_path / "empty.jsonl", task)
    assert is_completions(str(tmp_path / "empty.jsonl"))
    assert not is_completions(str(tmp_path / "other.jsonl"))
    assert not is_completions(str(tmp_path))
    assert not is_completions("tiny:aime-qwen2")


@pytest.mark.parametrize("text", ["", " ", "a", "a\n\nb", " a\n \nb ", "日\n\n本", "x" * 1000 + " " * 100_000])
def test_the_pieces_spell_the_text(text):
    for finished in (True, False, None):
        made = completion_of(Given(PROBLEM, text, None, finished))
        assert made.data.decode() == text
        assert made.finished == (finished is not False)
