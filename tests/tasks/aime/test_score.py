"""Terms, token-level signal and metrics of a completion, from a grade and given verdicts."""

from __future__ import annotations

import pytest

from botgrpo_cli.recipe.load import load_recipe
from botgrpo_cli.recipe.section import TermConfig
from botgrpo_cli.recipe.shipped import shipped_names
from botgrpo_cli.rewards.steps import step_texts, steps_and_tokens
from botgrpo_cli.tasks.aime.answer import grade
from botgrpo_cli.tasks.aime.keys import RewardConfig
from botgrpo_cli.tasks.aime.score import Facts, first_error, score
from botgrpo_cli.tasks.aime.verdicts import Judged, step_scores
from botgrpo_cli.training.rollouts import facts
from tests.recipe.helpers import plenty
from tests.tasks.aime.helpers import completion

REWARD = RewardConfig(format=TermConfig(weight=1.0))
GOLDS = frozenset({42})


def judged(*verdicts) -> Judged:
    return Judged(list(verdicts), step_scores(verdicts))


def scored(text, said=None, *, finished=True, reward=REWARD, **more):
    done = completion(text, finished=finished)
    steps = steps_and_tokens(done.pieces)
    given = Facts(grade(done.text, GOLDS), steps, step_texts(done.pieces, steps.spans), GOLDS, judged=said, **more)
    found = score(done, given, reward)
    assert len(found.local) == len(found.steps) == len(done.pieces)
    assert all(-1.0 <= value <= 0.0 for value in found.local)
    return found


def test_each_token_takes_the_score_of_its_step_minus_1_and_the_end_token_0():
    text = "one\n\ntwo\n\n\\boxed{41}"
    found = scored(text, judged("correct", "uncertain", "incorrect"))
    assert found.local == [0.0] * 5 + [-0.5] * 5 + [-1.0] * 10 + [0.0]
    assert found.steps == [0] * 5 + [1] * 5 + [2] * 10 + [-1]
    assert found.metrics["step_score"] == 0.5
    assert found.metrics["first_error"] == pytest.approx(2 / 3)
    assert found.metrics["steps"] == 3.0


def test_after_the_first_incorrect_step_every_token_takes_minus_1():
    found = scored("a\n\nb\n\n\\boxed{1}", judged("correct", "incorrect", "correct"))
    assert found.local == [0.0] * 3 + [-1.0] * 12 + [0.0]


def test_the_end_token_is_blamed_for_an_answer_without_a_closed_box():
    said = judged("correct", "correct")
    for text, blame in (("a\n\nb", -1.0), ("a\n\n\\boxed{4", -1.0), ("a\n\n\\boxed{x}", 0.0), ("a\n\n\\boxed{4}", 0.0)):
        found = scored(text, said)
        assert found.local == [0.0] * len(text) + [blame]
        assert scored(text, said, finished=False).local == [0.0] * len(text)


def test_without_a_judge_there_is_no_signal_and_no_metric_of_it():
    found = scored("a\n\n\\boxed{42}")
    assert set(found.local) == {0.0}
    assert not {"step_score", "first_error", "step_calls"} & found.metrics.keys()
    assert found.terms == {"outcome": 1.0, "format": 1.0}
    assert found.reward == 2.0


# text, whether it was finished -> (format, solved, status)
FORMATS = {
    ("a\n\n\\boxed{42}", True): (1.0, 1.0, "ok"),
    ("a\n\n\\boxed{41}", True): (1.0, 0.0, "ok"),
    ("\\boxed{42}", True): (1.0, 1.0, "ok"),
    ("a\r\n\r\nSo \\boxed{42}.\r\n", True): (1.0, 1.0, "ok"),
    ("a\n\n\\boxed{４２}", True): (1.0, 1.0, "ok"),
    ("a\n\n\\boxed{42}<|im_end|>", True): (1.0, 1.0, "ok"),
    ("a\n\n\\boxed{42}", False): (0.0, 1.0, "ok"),
    ("a\n\n\\boxed{42", True): (0.0, 0.0, "unclosed"),
    ("a\n\nThe answer is 42.", True): (0.0, 0.0, "no_box"),
    ("a\n\n\\boxed{41} or \\boxed{42}", True): (0.0, 1.0, "multi"),
    ("a\n\n\\boxed{9^{9^{9}}}", True): (0.0, 0.0, "not_int"),
    ("\\boxed{42}\n\nand then some", True): (0.0, 1.0, "ok"),
    ("<think>a\n\n\\boxed{42}</think>\n\nSo 42.", True): (0.0, 0.0, "no_box"),
    ("<think>a\n\n\\boxed{41}</think>\n\n\\boxed{42}", True): (1.0, 1.0, "ok"),
    ("<think>a\n\n\\boxed{42}", True): (0.0, 0.0, "no_box"),
    ("", True): (0.0, 0.0, "no_box"),
    ("", False): (0.0, 0.0, "no_box"),
    (" \n\n ", True): (0.0, 0.0, "no_box"),
    ("x" * 100_000 + "\n\n\\boxed{42}", True): (1.0, 1.0, "ok"),
}


@pytest.mark.parametrize(("given", "expected"), FORMATS.items(), ids=[f"{key[0][:30]!r}-{key[1]}" for key in FORMATS])
def test_what_counts_as_format_and_as_solved(given, expected):
    text, finished = given
    found = scored(text, finished=finished)
    form, solved, status = expected
    assert (found.terms["format"], found.metrics["solved"], found.detail["status"]) == (form, solved, status)
    assert found.metrics["format_rate"] == form
    assert found.metrics["parsed_rate"] == float(status == "ok")
    statuses = {name: value for name, value in found.metrics.items() if name.startswith("status_")}
    assert sum(statuses.values()) == float(status != "ok")
    assert status == "ok" or statuses[f"status_{status}"] == 1.0
    assert found.metrics["truncated"] == float(not finished)


def test_a_solution_without_all_its_steps_is_not_well_formed():
    assert scored("a\n\n\\boxed{42}", complete=False).terms == {"outcome": 1.0, "format": 0.0}


def test_an_empty_completion_has_no_steps_and_no_step_score():
    for finished in (True, False):
        found = scored("", judged(), finished=finished)
        assert (found.metrics["steps"], found.metrics["step_score"], found.metrics["first_error"]) == (0.0, 0.0, 0.0)
        assert found.local == [-1.0] * finished


def test_weights_act_on_their_terms():
    reward = RewardConfig(format=TermConfig(weight=0.25), outcome=TermConfig(weight=2.0))
    assert scored("a\n\n\\boxed{42}", reward=reward).reward == 2.25
    assert scored("a\n\n\\boxed{41}", reward=reward).reward == 0.25


def test_the_first_error_counts_against_the_length_that_a_solution_has():
    assert first_error(["correct"] * 3, 10) == 0.3
    assert first_error(["correct"] * 12, 10) == 1.0
    assert first_error(["correct", None, "uncertain"]) == 1.0
    assert first_error(["incorrect"], 10) == 0.0


def test_details_show_steps_with_their_verdicts_and_who_judged():
    found = scored("a\n\n\\boxed{41}", judged("correct", "incorrect"), label="exact")
    assert found.detail["judge"] == "exact"
    assert [(row["verdict"], row["score"]) for row in found.detail["judged_steps"]] == [
        ("correct", 1.0),
        ("incorrect", 0.0),
    ]
    assert found.detail["golds"] == [42]
    assert found.detail["text"] == "a\n\n\\boxed{41}"


@pytest.mark.parametrize("scale", ["paper", "small", "tiny"])
@pytest.mark.parametrize("name", [name for name in shipped_names() if name.startswith("aime")])
@pytest.mark.parametrize("local_weight", [None, 0.1, 1.0])
def test_at_shipped_weights_a_right_beginning_never_beats_a_finished_wrong_answer(name, scale, local_weight):
    recipe = load_recipe(name, scale=scale, counts=plenty).recipe
    weight = recipe.method.local_weight if local_weight is None else local_weight  # also those of the study of w_s
    steps, end = [f"Step {n}: right" for n in range(1, 13)], "The last result is \\boxed{41}."

    def total(text, said, **more):
        found = scored(text, said, reward=recipe.reward, **more)
        return found.reward + weight * sum(found.local) / len(found.local)

    wrong = "\n\n".join([*steps, end])
    worst = total(wrong, judged(*["incorrect"] * 13))
    for kept in range(13):
        beginning = "\n\n".join(steps[:kept])
        for finished in (True, False):
            if beginning or finished:
                best = total(beginning, judged(*["correct"] * kept), finished=finished, complete=False)
                assert best < worst
    assert total("\n\n".join([*steps, "\\boxed{42}"]), judged(*["correct"] * 13)) > worst + 1


def test_facts_of_a_rollout_are_those_of_the_contract():
    names = facts(scored("a\n\n\\boxed{41}", judged("correct", "incorrect")))
    assert names.keys() >= {
        "solved",
        "format_rate",
        "parsed_rate",
        "status_no_box",
        "status_unclosed",
        "status_not_int",
        "status_multi",
        "step_score",
        "first_error",
        "steps",
        "truncated",
        "length",
        "term_outcome",
        "term_format",
        "reward",
    }
