"""Pass@k and rates over problems, and the rows of the problems."""

from __future__ import annotations

import pytest

from botgrpo_cli.tasks.base import Prompt, Scored
from botgrpo_cli.training.estimates import Answer, answers_of, estimate, pass_rates, problem_rows
from tests.training.toy import make_trainer


def answer(problem: str, solved: float, *, status: str | None = "ok", tokens: int | None = 5, finished: bool = True):
    scored = Scored(solved, [], {}, {"solved": solved}, {"status": status} if status else {})
    return Answer(Prompt(problem, problem, "easy"), scored, tokens, finished)


def row(rows, metric):
    return next(row for row in rows if row.metric == metric)


FOUR = [answer("a", float(n < 1)) for n in range(4)] + [answer("b", 1.0) for _ in range(4)]


def test_pass_at_k_is_the_unbiased_estimate_over_problems():
    rates = pass_rates(FOUR, "solved")
    assert rates == {"pass@1": 0.625, "pass@2": 0.75, "pass@4": 1.0}
    rows = estimate(FOUR, "solved", [1, 2, 4])
    assert [row(rows, name).value for name in rates] == list(rates.values())
    assert (row(rows, "pass@1").low, row(rows, "pass@1").high) == (0.25, 1.0)
    assert row(rows, "solved").value == 0.625


def test_a_k_above_the_samples_of_some_problem_has_no_value_and_is_never_1():
    answers = [*FOUR, answer("c", 1.0)]
    assert pass_rates(answers, "solved").keys() == {"pass@1"}
    rows = estimate(answers, "solved", [1, 2, 8])
    for name in ("pass@2", "pass@8"):
        assert (row(rows, name).value, row(rows, name).low, row(rows, name).high) == (None, None, None)
    assert row(rows, "pass@1").value == pytest.approx((0.25 + 1 + 1) / 3)


def test_problems_count_alike_whatever_their_samples():
    rows = estimate([*FOUR, answer("c", 0.0)], "solved", [])
    assert row(rows, "solved").value == pytest.approx((0.25 + 1.0 + 0.0) / 3)


def test_one_problem_has_no_interval():
    found = row(estimate(FOUR[:4], "solved", [1]), "pass@1")
    assert (found.value, found.low, found.high) == (0.25, None, None)


def test_a_fact_that_only_some_have_is_a_mean_over_these_and_nan_is_left_out():
    answers = [answer("a", 1.0), answer("b", 0.0), answer("b", float("nan"))]
    answers[0].scored.metrics["seen"] = 3.0
    rows = estimate(answers, "solved", [1])
    assert row(rows, "seen").value == 3.0
    assert row(rows, "solved").value == 0.5
    assert row(rows, "pass@1").value == 0.5  # what could not be scored is not right


def test_rows_of_the_problems():
    answers = [*FOUR, answer("c", 0.0, status="no_box", tokens=None, finished=False), answer("d", 0.0, status=None)]
    rows = list(problem_rows(answers, "solved"))
    assert [(row["id"], row["n"], row["c"]) for row in rows] == [("a", 4, 1), ("b", 4, 4), ("c", 1, 0), ("d", 1, 0)]
    assert rows[0]["statuses"] == {"ok": 4}
    assert rows[0]["lengths"] == [5, 5, 5, 5]
    assert (rows[2]["statuses"], rows[2]["lengths"], rows[2]["truncated"]) == ({"no_box": 1}, [None], 1)
    assert "statuses" not in rows[3]


def test_answers_of_a_batch_have_their_lengths(tmp_path):
    trainer = make_trainer(tmp_path / "run")
    batch = trainer._collect(trainer.held_out, step="held-out", group_size=2, evaluation=True)
    answers = answers_of(batch)
    assert [a.tokens for a in answers] == batch.lengths
    assert [a.prompt.id for a in answers] == [p.id for p in trainer.held_out for _ in range(2)]
