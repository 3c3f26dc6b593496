"""The step judge of a run: a model behind a server on the loopback interface, and what keeps it from being called."""

from __future__ import annotations

import json
import re
import threading

import pytest

from botgrpo_cli.errors import InputError, RunError
from botgrpo_cli.recipe.load import load_recipe
from botgrpo_cli.tasks.aime.judge import check_judge, make_step_judge
from botgrpo_cli.tasks.aime.task import AimeTask
from botgrpo_cli.tasks.registry import task_of
from tests.judges.server import chat, error
from tests.recipe.helpers import plenty
from tests.tasks.aime.helpers import PROBLEM, completion, recipe

TEXT = "a = 1\n\nb = 2\n\nc = 3\n\nd = 4\n\n\\boxed{42}"


def ids_of(request: dict) -> list[int]:
    content = request["messages"][-1]["content"]
    text = content if isinstance(content, str) else "".join(part["text"] for part in content)
    return [int(number) for number in re.search(r"Judge steps? ([\d, ]+) by", text)[1].split(", ")]


def verdicts(request: dict, said: dict[int, str] | None = None) -> str:
    said = said or {}
    return json.dumps({"steps": [{"id": n, "why": "", "verdict": said.get(n, "correct")} for n in ids_of(request)]})


@pytest.fixture
def task_for(server):
    made, well_behaved = [], server.answering

    def make(answering, **sections):
        server.answering = well_behaved  # for the probe
        sections.setdefault(
            "judge", {"kind": "openai", "url": server.url, "model": "judge", "tries": 1, "cache": False}
        )
        task = AimeTask(recipe(**sections))
        server.requests.clear()
        server.answering = answering
        made.append(task)
        return task

    yield make
    for task in made:
        task.close()


def test_a_model_judges_steps_in_windows_of_three_and_stops_at_an_error(server, task_for):
    task = task_for(lambda request: chat(verdicts(request, {2: "uncertain", 4: "incorrect"})))
    found = task.submit(completion(TEXT)).result(timeout=30)
    assert [ids_of(request) for request in server.requests] == [[1, 2, 3], [4, 5]]
    assert [row["score"] for row in found.detail["judged_steps"]] == [1.0, 0.5, 1.0, 0.0, 0.0]
    assert dict(zip(found.steps, found.local, strict=True)) == {
        0: 0.0,
        1: -0.5,
        2: 0.0,
        3: -1.0,
        4: -1.0,
        -1: 0.0,
    }
    assert found.detail["judge"] == "openai:judge"
    assert len(found.detail["judge_replies"]) == 2
    assert found.metrics["step_calls"] == 2.0
    counters = task.counters()
    assert (counters["judge_calls"], counters["judge_ok"]) == (2.0, 2.0)
    assert task.provenance()["judge"]["model"] == "judge"


# reply for five steps in one window -> (scores, malformed, extra or repeated)
REPLIES = {
    "two verdicts for one step": (
        [(1, "correct"), (1, "incorrect"), *((n, "correct") for n in (2, 3, 4, 5))],
        5.0,
        0,
        1,
    ),
    "too few": ([(1, "correct"), (3, "correct")], 2.0, 3, 0),
    "too many": ([(n, "correct") for n in range(1, 9)], 5.0, 0, 3),
    "another order": ([(5, "incorrect"), *((n, "correct") for n in (4, 3, 2, 1))], 4.0, 0, 0),
    "nothing": ([], 0.0, 5, 0),
    "other words": ([(n, "right") for n in range(1, 6)], 0.0, 5, 5),
}


@pytest.mark.parametrize("name", REPLIES)
def test_odd_replies(task_for, name):
    pairs, total, malformed, extra = REPLIES[name]
    reply = json.dumps({"steps": [{"id": n, "why": "", "verdict": verdict} for n, verdict in pairs]})
    task = task_for(lambda request: chat(reply), reward={"steps": {"window": 5}})
    found = task.submit(completion(TEXT)).result(timeout=30)
    scores = [row["score"] for row in found.detail["judged_steps"]]
    assert sum(scores) == total
    assert (found.metrics["step_malformed"], found.metrics["step_extra"]) == (malformed, extra)
    assert found.reward == 2.0  # the outcome and the format need no judge


def test_an_unreadable_reply_scores_its_window_0_and_the_judge_goes_on(server, task_for):
    def answering(request):
        return chat("Step 1 looks fine." if 1 in ids_of(request) else verdicts(request))

    task = task_for(answering)
    found = task.submit(completion(TEXT)).result(timeout=30)
    assert [row["score"] for row in found.detail["judged_steps"]] == [0.0, 0.0, 0.0, 1.0, 1.0]
    assert found.metrics["step_malformed"] == 3.0
    assert found.detail["judge_outcomes"] == {"malformed": 1, "ok": 1}


def test_held_out_completions_are_judged_only_when_they_are_measured(server, task_for):
    for measure in (False, True):
        task = task_for(lambda request: chat(verdicts(request)), reward={"steps": {"measure": measure}})
        held_out, train = task.prompts("held-out")[0], task.prompts("train")[0]
        assert "step_score" in task.submit(completion(TEXT, train)).result(timeout=30).metrics
        server.requests.clear()
        found = task.submit(completion(TEXT, held_out)).result(timeout=30)
        assert ("step_score" in found.metrics) is measure
        assert bool(server.requests) is measure


def test_a_judge_that_refuses_every_call_ends_the_run(task_for):
    task = task_for(lambda request: error(401, "no such key"))
    with pytest.raises(RunError, match="no such key"):
        task.submit(completion(TEXT)).result(timeout=30)


def test_closing_fails_what_waits_with_words(server, task_for):
    asked, go_on = threading.Event(), threading.Event()

    def answering(request):
        asked.set()
        go_on.wait(30)
        return chat(verdicts(request))

    keys = {"kind": "openai", "url": server.url, "model": "judge", "tries": 1, "cache": False, "concurrency": 1}
    task = task_for(answering, judge=keys)
    futures = [task.submit(completion(f"{n}\n\n{TEXT}", PROBLEM)) for n in range(3)]
    assert asked.wait(30)
    task.close()
    go_on.set()
    with pytest.raises(RunError, match="closed"):
        futures[-1].result(timeout=30)


def test_without_an_address_the_recipe_loads_and_the_run_is_refused_before_anything_is_loaded():
    paper = load_recipe("aime_qwen", counts=plenty).recipe
    for check in (AimeTask.require, check_judge, make_step_judge):
        with pytest.raises(InputError, match=r"judge.url: Found nothing, and the variable BOTGRPO_JUDGE_URL") as caught:
            check(paper)
        assert "judge.model: Found nothing" in str(caught.value)
    for each in (
        load_recipe("aime_qwen", scale="tiny", counts=plenty).recipe,
        load_recipe("aime_qwen", sets=["reward.steps.strategy=none"], counts=plenty).recipe,
        load_recipe("react_qwen", counts=plenty).recipe,
    ):
        task_of(each).require(each)


def test_an_address_that_is_wrong_is_a_problem_of_the_recipe():
    with pytest.raises(InputError, match=r"judge\.url: Found 'ftp://x'"):
        load_recipe("aime_qwen", sets=["judge.url=ftp://x", "judge.model=m"], counts=plenty)
