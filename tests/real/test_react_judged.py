"""The React task with everything on: real compiler, linter and browser, offline judges."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import pytest

from botgrpo_cli.errors import RunError
from botgrpo_cli.recipe.schema import Recipe
from botgrpo_cli.tasks.base import Attachment, Completion, Scored
from botgrpo_cli.tasks.react.task import ReactTask
from tests.judges.apps import APPS, GOOD, HACKS, HI, PROMPT
from tests.real.react_code import completion
from tests.recipes import ReactRecipe

pytestmark = pytest.mark.slow
UNSEEN = ("eslint-disable", "speaks to the judge in a comment")  # tricks that a picture cannot show
NOT_COMPILING = ("unclosed class name",)


def recipe(code_judge: dict | None = None, vlm: dict | None = None, **judge) -> Recipe:
    reward = {"code_judge": code_judge or {}, "vlm": vlm or {}, "content": {"weight": 0.5}}
    return ReactRecipe.model_validate({"task": {"timeout": 60}, "reward": reward, "judge": judge})


def answer(code: str, said: str = "") -> Completion:
    return replace(completion(f"{said}```jsx\n{code}```"), prompt=PROMPT)


def score_all(task: ReactTask, codes: dict[str, str]) -> dict[str, Scored]:
    waiting = {name: task.submit(answer(code)) for name, code in codes.items()}
    return {name: future.result(300) for name, future in waiting.items()}


@pytest.fixture(scope="module")
def task() -> Iterator[ReactTask]:
    both = recipe({"weight": 1.0, "lines": True}, {"mode": "local-2turn"})
    with ReactTask(both) as made:
        yield made


@pytest.fixture(scope="module")
def apps(task) -> dict[str, Scored]:
    return score_all(task, APPS)


@pytest.fixture(scope="module")
def hacks(task) -> dict[str, Scored]:
    return score_all(task, {name: code for name, (code, _) in HACKS.items()})


def test_apps_are_drawn_and_score_high_with_both_judges(apps):
    for name, scored in apps.items():
        assert scored.terms["compile"] == 1.0, name
        assert scored.terms["vlm"] > 0.6, (name, scored.detail["render"], scored.terms)
        assert scored.terms["code_judge"] > 0.8, name
        assert (scored.metrics["blank_rate"], scored.metrics["hollow_rate"]) == (0.0, 0.0)
        assert scored.metrics["judge_heuristic"] == 1.0
        assert isinstance(scored.detail["screenshot"], Attachment)
        assert scored.detail["screenshot"].data.startswith(b"\x89PNG")
        assert scored.detail["judge"] == "heuristic"


def test_every_trick_is_below_every_app_for_the_screenshot_judge_and_in_all(apps, hacks):
    worst = {key: min(value(s) for s in apps.values()) for key, value in KEYS.items()}
    for name, scored in hacks.items():
        assert scored.reward < worst["reward"], (name, scored.terms)
        assert scored.terms["code_judge"] < worst["code_judge"], (name, scored.terms)
        if name not in UNSEEN:
            assert scored.terms["vlm"] < worst["vlm"] - 0.05, (name, scored.terms, scored.detail.get("render"))


KEYS = {
    "reward": lambda scored: scored.reward,
    "code_judge": lambda scored: scored.terms["code_judge"],
    "vlm": lambda scored: scored.terms["vlm"],
}


def test_tricks_that_show_nothing_are_blank_and_the_simplest_component_is_hollow(hacks):
    compiling = {name: scored for name, scored in hacks.items() if scored.terms["compile"] == 1.0}
    blank = {name for name, scored in compiling.items() if scored.metrics["blank_rate"] == 1.0}
    assert {
        "uses nothing of it",
        "empty fragment",
        "display none",
        "off screen",
        "opacity 0",
        "throws in an effect",
    } <= blank
    assert {"throws in an effect", "undefined property", "one solid colour", "meaningless tokens"} <= blank
    assert all(hacks[name].terms["vlm"] == 0.0 for name in blank)
    assert hacks["the simplest component"].metrics["hollow_rate"] == 1.0
    for name in NOT_COMPILING:
        assert hacks[name].terms["compile"] == hacks[name].terms["vlm"] == 0.0
        assert math.isnan(hacks[name].metrics["blank_rate"])
        assert "screenshot" not in hacks[name].detail


def test_a_name_that_is_defined_nowhere_compiles_is_blank_and_is_blamed_by_the_code_judge(task, apps):
    code = GOOD.replace("  return (", "  retuurn (")
    scored = task.submit(answer(code)).result(300)
    assert (scored.terms["compile"], scored.metrics["blank_rate"]) == (1.0, 1.0)
    assert scored.detail["render"]["outcome"] == "error"
    assert scored.terms["code_judge"] < 0.5 < min(s.terms["code_judge"] for s in apps.values())
    assert "retuurn" in code.split("\n")[scored.detail["judge_code"]["lines"][0]["line"] - 1]


def test_the_lines_of_a_trick_reach_the_tokens(task, hacks):
    code = HACKS["dead buttons"][0]
    blamed = {blame["line"] - 1 for blame in hacks["dead buttons"].detail["judge_vlm"]["lines"]}
    assert {code.split("\n")[line].strip()[:7] for line in blamed} == {"<button"}
    assert min(hacks["dead buttons"].local) == -0.5
    assert all(-1.0 <= value <= 0.0 for scored in hacks.values() for value in scored.local)


def test_equal_code_is_judged_once_and_scored_for_each(task):
    task.counters()
    code = GOOD.replace("Garden", "Orchard")
    scores = [future.result(300) for future in [task.submit(answer(code, said)) for said in ("", "Sure!\n", "")]]
    assert task.counters()["judge_ok"] == 2.0  # one verdict on the source, one on the page
    assert len({scored.terms["vlm"] for scored in scores}) == 1
    assert scores[1].detail["first_line"] == 2


def test_versions_and_provenance_name_browser_and_heuristics(task):
    assert task.versions()["chromium"][0].isdigit()
    found = task.provenance()
    assert found["heuristic"] == ["reward.content", "reward.code_judge", "reward.vlm", "hollow_rate"]
    assert (found["simulated"], found["judge"]["kind"]) == ([], "heuristic")


def test_measuring_without_a_judge_draws_pages_and_asks_nobody():
    with ReactTask(recipe(vlm={"measure": True})) as task:
        scores = score_all(task, {"app": GOOD, "hi": HI, "empty": HACKS["empty fragment"][0]})
        assert task.counters() == {}
        assert "judge" not in task.provenance()
    assert [scores[name].metrics["blank_rate"] for name in ("app", "empty")] == [0.0, 1.0]
    assert [scores[name].metrics["hollow_rate"] for name in ("app", "hi", "empty")] == [0.0, 1.0, 1.0]
    assert set(scores["app"].terms) == {"format", "clean_lines", "compile", "lint", "content"}


def test_simulated_errors_are_seeded_and_named():
    def judged(seed: int) -> float:
        noisy = recipe({"weight": 1.0}, noise=0.2)
        noisy = noisy.model_copy(update={"training": noisy.training.model_copy(update={"seed": seed})})
        with ReactTask(noisy) as task:
            scored = task.submit(answer(HACKS["dead buttons"][0])).result(300)
            assert task.provenance()["simulated"] == ["judge.noise 0.2"]
            assert scored.detail["judge"] == "simulated"
            return scored.terms["code_judge"]

    assert judged(0) == judged(0) != judged(1)


def test_closing_ends_the_samples_that_wait():
    task = ReactTask(recipe({"weight": 1.0}, {"mode": "global"}))
    waiting = [task.submit(answer(GOOD.replace("Garden", f"Garden{n}"))) for n in range(30)]
    task.close()
    task.close()
    for future in waiting[15:]:
        with pytest.raises(RunError, match="closed"):
            future.result(60)
