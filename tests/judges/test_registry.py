"""Which judges a recipe gets: none, offline ones, or a model; and what the records are told of them."""

from __future__ import annotations

import pytest

from botgrpo_cli.errors import InputError
from botgrpo_cli.judges import client as client_module
from botgrpo_cli.recipe.schema import JudgeConfig, Recipe
from botgrpo_cli.tasks.react.compare import AppComparison
from botgrpo_cli.tasks.react.judges.code import ModelCodeJudge
from botgrpo_cli.tasks.react.judges.registry import make_judges
from botgrpo_cli.tasks.react.judges.screenshot import ModelScreenJudge
from botgrpo_cli.tasks.react.render import Probe, Rendered
from tests.judges.apps import GOOD, PROMPT
from tests.judges.scripted import scripted
from tests.recipes import ReactRecipe

PAGE = Rendered("drawn", screenshot=b"png", probe=Probe(text="Garden Plus Reset"))


def recipe(code_judge=None, vlm=None, **judge) -> Recipe:
    reward = {"code_judge": code_judge or {}, "vlm": vlm or {}}
    return ReactRecipe.model_validate({"reward": reward, "judge": judge})


@pytest.mark.parametrize(
    ("code_judge", "vlm", "on"),
    [
        ({}, {}, (False, False, False)),
        ({"weight": 1}, {}, (True, False, False)),
        ({"measure": True}, {}, (True, False, False)),
        ({"lines": True}, {}, (True, False, False)),
        ({"lines": True, "line_weight": 0}, {}, (False, False, False)),
        ({}, {"mode": "global"}, (False, True, True)),
        ({}, {"mode": "global", "weight": 0, "measure": True}, (False, True, True)),
        ({}, {"mode": "local-1turn", "weight": 0}, (False, True, True)),
        ({}, {"measure": True}, (False, False, True)),
    ],
)
def test_what_is_on(code_judge, vlm, on):
    made = recipe(code_judge, vlm)
    judges = make_judges(made)
    assert (judges.code is not None, judges.screen is not None, made.reward.vlm.rendered) == on
    assert judges.label == ("heuristic" if any(on[:2]) else "")
    judges.close()


def test_nobody_is_asked_when_everything_is_off():
    """A judge that can't be reached is no obstacle for a run that has no use for it."""
    judges = make_judges(recipe(kind="openai", url="http://127.0.0.1:9/v1", model="m"))
    assert (judges.code, judges.screen, judges.client) == (None, None, None)
    assert (judges.counters(), judges.describe(), judges.heuristic, judges.simulated) == ({}, {}, [], [])


def test_offline_judges_say_what_they_are_and_count_their_verdicts():
    judges = make_judges(recipe({"weight": 1, "lines": True}, {"mode": "local-2turn"}))
    assert judges.code.submit(PROMPT, GOOD).result(60).score > 0.8
    assert judges.screen.submit(PROMPT, GOOD, PAGE).result(60).score > 0
    counted = judges.counters()
    assert (counted["ok"], counted["calls"], counted["transport_failed"]) == (2.0, 0.0, 0.0)
    assert judges.counters()["ok"] == 0.0
    assert (judges.offline, judges.heuristic) == (True, ["reward.code_judge", "reward.vlm"])
    assert judges.describe() == {"kind": "heuristic", "errors": []}
    judges.close()


def test_simulated_errors_are_named():
    judges = make_judges(recipe({"weight": 1}, noise=0.1, attribution_error=0.25))
    assert judges.label == "simulated"
    assert judges.simulated == ["judge.noise 0.1", "judge.attribution_error 0.25"]
    judges.close()


def pair_judge(config: JudgeConfig, shown: str):
    return AppComparison(recipe()).judge(config, shown, lambda _: None)


def use(monkeypatch, judge):
    monkeypatch.setattr(client_module, "make_judge", lambda config, *, say: judge)


def test_a_model_gets_the_protocols(monkeypatch):
    judge, _ = scripted(lambda prompt: {})
    use(monkeypatch, judge)
    judges = make_judges(recipe({"weight": 1}, {"mode": "global"}, kind="openai", url="http://x/v1", model="m"))
    assert isinstance(judges.code, ModelCodeJudge)
    assert isinstance(judges.screen, ModelScreenJudge)
    assert (judges.label, judges.offline, judges.heuristic) == ("openai:scripted", False, [])
    assert judges.describe()["model"] == "scripted"


def test_a_vlm_mode_needs_a_judge_that_sees_and_a_code_judge_does_not(monkeypatch):
    judge, _ = scripted(lambda prompt: {}, images=False)
    use(monkeypatch, judge)
    online = {"kind": "openai", "url": "http://x/v1", "model": "m"}
    with pytest.raises(InputError, match=r"reward\.vlm\.mode is 'local-1turn', and the judge openai:scripted sees no"):
        make_judges(recipe({}, {"mode": "local-1turn"}, **online))
    with pytest.raises(InputError, match="a blue square was called red"):
        pair_judge(JudgeConfig(**online), "screenshots")
    assert make_judges(recipe({"weight": 1}, **online)).code is not None
    assert pair_judge(JudgeConfig(**online), "sources").label == "openai:scripted"


def test_the_exact_judge_knows_nothing_of_react():
    with pytest.raises(InputError, match=r"judge\.kind is 'exact'"):
        make_judges(recipe({"weight": 1}, kind="exact"))


def test_the_pairwise_judge_offline():
    assert pair_judge(JudgeConfig(), "screenshots").label == "heuristic"
    assert pair_judge(JudgeConfig(flip=0.1), "screenshots").label == "simulated"
