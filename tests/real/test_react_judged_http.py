"""The React task with a model as its judge, over real HTTP on the loopback interface, and a real browser."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from botgrpo_cli.errors import InputError, RunError
from botgrpo_cli.tasks.react.task import ReactTask
from tests.judges.apps import GOOD, HACKS
from tests.judges.server import Response, Server, behave, chat, error, running
from tests.real.test_react_judged import answer
from tests.recipes import ReactRecipe

pytestmark = pytest.mark.slow
ANSWERS = {
    "aesthetic": {"why": "tidy", "not_react": False, "validity": 10, "task": 8, "aesthetic": 5},
    "score": {"why": "plain", "score": 6},
    "lines": {"lines": [{"line": 7, "impact": 4, "why": "no style"}]},
}


def keys_of(request: dict) -> set[str]:
    """The keys that a reply must have; none where no schema is sent."""
    schema = request.get("response_format", {}).get("json_schema", {}).get("schema", {})
    return set(schema.get("properties", {}))


def judge(request: dict) -> Response:
    """Answers by the keys that are asked for; the probe's questions as a good server does."""
    keys = keys_of(request)
    for key, said in ANSWERS.items():
        if key in keys and "fruit" not in keys:
            return chat(json.dumps(said))
    return behave(request)


@contextmanager
def judged(answering: Callable[[dict], Response] = judge, **vlm: object) -> Iterator[tuple[ReactTask, Server]]:
    with running() as server:
        server.answering = answering
        recipe = ReactRecipe.model_validate(
            {
                "task": {"timeout": 60},
                "reward": {"code_judge": {"weight": 1}, "vlm": vlm, "spread": {"kind": "none"}},
                "judge": {"kind": "openai", "url": server.url, "model": "m", "cache": False, "tries": 1},
            }
        )
        with ReactTask(recipe) as task:
            server.requests.clear()
            yield task, server


def pictures(request: dict) -> list[bytes]:
    content = request["messages"][-1]["content"]
    found = [] if isinstance(content, str) else [part for part in content if part["type"] == "image_url"]
    return [base64.b64decode(part["image_url"]["url"].partition("base64,")[2]) for part in found]


def test_source_and_screenshot_reach_the_model_and_its_verdict_the_score():
    with judged(mode="local-2turn", local_weight=0.5) as (task, server):
        scored, again, null, broken = (
            task.submit(answer(code)).result(300)
            for code in (GOOD, GOOD, HACKS["empty fragment"][0], GOOD.replace("</main>", ""))
        )
        counted, described = task.counters(), task.provenance()
    assert scored.terms["code_judge"] == pytest.approx(0.2 + 0.5 * 0.8 + 0.3 * 0.5)
    assert scored.terms["vlm"] == 0.6
    assert scored.detail["line_penalties"] == {7: 0.2}  # line 7 of the code, and half of its impact
    assert again.reward == scored.reward
    assert (null.terms["vlm"], null.metrics["blank_rate"], null.metrics["judge_vlm_score"]) == (0.0, 1.0, 0.0)
    assert broken.terms["vlm"] == 0.0
    assert broken.terms["code_judge"] > 0.0
    assert [len(pictures(request)) for request in server.requests].count(1) == 2  # the two turns of the one good page
    assert all(data == scored.detail["screenshot"].data for request in server.requests for data in pictures(request))
    assert (counted["judge_calls"], counted["judge_ok"], counted["judge_prompt_tokens"]) == (5, 5, 50)
    assert (scored.metrics["judge_heuristic"], scored.detail["judge"]) == (0.0, "openai:m")
    assert (described["judge"]["model"], described["simulated"]) == ("m", [])
    assert described["heuristic"] == ["hollow_rate"]


def test_failures_score_nothing_are_counted_and_are_no_low_scores():
    def rambling(request: dict) -> Response:
        return chat("no idea") if "aesthetic" in keys_of(request) else behave(request)

    with judged(rambling) as (task, _):
        scored = task.submit(answer(GOOD)).result(300)
        again = task.submit(answer(GOOD)).result(300)
        counted = task.counters()
    assert scored.terms["code_judge"] == 0.0
    assert math.isnan(scored.metrics["judge_code_score"])
    assert scored.detail["judge_code"]["outcome"] == "malformed"
    assert again.terms == scored.terms
    assert counted["judge_malformed"] == 2  # a failure is not remembered


def test_a_judge_that_goes_away_stops_the_scoring_with_its_words():
    def gone(request: dict) -> Response:
        return error(401, "the key has expired") if "aesthetic" in keys_of(request) else behave(request)

    with judged(gone) as (task, _), pytest.raises(RunError, match="the key has expired"):
        task.submit(answer(GOOD)).result(300)


def test_a_judge_without_eyes_is_refused_before_anything_starts():
    def blind(request: dict) -> Response:
        return chat(json.dumps({"colour": "yellow"})) if pictures(request) else behave(request)

    expected = r"reward\.vlm\.mode is 'global', and the judge openai:m sees no images"
    with pytest.raises(InputError, match=expected), judged(blind, mode="global"):
        pytest.fail("it started")
