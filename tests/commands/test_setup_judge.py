"""`botgrpo setup judge`: without a server, with a good one, with a poor one, with a recipe; and doctor's line."""

from __future__ import annotations

import json
import re

import pytest

from botgrpo_cli.app import main
from botgrpo_cli.commands.doctor import examine
from tests.judges.conftest import no_environment, server  # noqa: F401
from tests.judges.server import Response, behave, chat, error, look_alike

VERDICT = {
    "why": "The reset button does nothing.",
    "not_react": False,
    "validity": 10,
    "task": 5,
    "aesthetic": 5,
    "lines": [{"line": 10, "impact": 8, "why": "no handler"}],
}


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stop:
        main(["setup", "judge", *arguments])
    return stop.value.code or 0


@pytest.fixture
def place(server, monkeypatch):  # noqa: F811
    monkeypatch.setenv("BOTGRPO_JUDGE_URL", server.url)
    monkeypatch.setenv("BOTGRPO_JUDGE_MODEL", "served-model")
    server.answering = judging
    return server


def judging(request: dict) -> Response:
    """The good server, with a verdict when it is asked for one."""
    form = request.get("response_format", {})
    wanted = form.get("json_schema", {}).get("schema", {}).get("properties", {})
    return chat(json.dumps(VERDICT)) if "not_react" in wanted else behave(request)


def lines(text: str) -> dict[str, str]:
    """Label -> rest of its line; lines without a label belong to the label above."""
    found: dict[str, str] = {}
    label = ""
    for line in text.splitlines():
        label = line[:9].strip() or label
        found[label] = f"{found.get(label, '')} {line[9:]}".strip()
    return found


def test_without_a_server_it_says_what_is_used_instead_and_how_to_get_one(capsys):
    assert run() == 0
    text = capsys.readouterr().out
    for piece in ("offline heuristic judge", "says heuristic", "vllm serve", "llama-server", "ollama", "bedrock"):
        assert piece in text
    assert re.findall(r"export (\w+)=", text) == ["BOTGRPO_JUDGE_URL", "BOTGRPO_JUDGE_MODEL", "BOTGRPO_JUDGE_KEY"]


def test_a_good_server(place, monkeypatch, capsys):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-something-long")
    assert run() == 0
    shown = lines(capsys.readouterr().out)
    assert shown["server"] == f"127.0.0.1:{place.port}, openai"
    assert shown["model"] == "served-model"
    assert shown["key"] == "from OPENAI_API_KEY"
    assert shown["replies"].startswith("json_schema: ")
    assert shown["images"].startswith("seen: ")
    assert "scores 0.60; blamed: line 10 (0.8)" in shown["sample"]
    assert re.search(r"\d\.\d\d s, 10 prompt tokens, 5 written", shown["sample"])
    assert "a run" not in shown


def test_a_poor_server(place, capsys):
    place.answering = look_alike
    assert run() == 0
    shown = lines(capsys.readouterr().out)
    assert shown["replies"].startswith("prompt: the server enforces nothing")
    assert shown["images"].startswith("not seen: of a red square")
    assert shown["sample"].startswith("malformed: Not usable: It holds no JSON object.")


def test_a_recipe_and_its_cost(place, tmp_path, capsys):
    recipe = tmp_path / "mine.yaml"
    recipe.write_text(
        "extends: react_qwen\n"
        "reward: {code_judge: {weight: 1.0}, vlm: {mode: local-2turn}}\n"
        "judge: {kind: openai, prices: {input: 1.0, output: 2.0}}\n"
        "scales:\n  tiny:\n    sampling: {prompts: 2, group_size: 4, max_new_tokens: 90}\n"
        "    training: {steps: 5, micro_batch: 8}\n    evaluation: {every: 5, prompts: 10, samples: 1}\n"
    )
    assert run("--recipe", str(recipe), "--scale", "tiny") == 0
    shown = lines(capsys.readouterr().out)
    assert "at most 180 calls" in shown["a run"]
    training = "training 2 prompts x 4 x 5 steps x 3 (1 for reward.code_judge, 2 for reward.vlm) = 120"
    assert training in shown["a run"]
    assert "evaluations 20 completions x 3 = 60" in shown["a run"]
    assert shown["win rate"].endswith("4 calls a pair (A-B, B-A, B-A, A-B), 40")
    assert shown["tokens"].startswith("about 18,000 prompt tokens and 900 written")
    assert shown["cost"] == "about 0.02 at judge.prices"


def test_a_recipe_that_stays_offline_says_how_to_change_that(place, capsys):
    assert run("--recipe", "react_qwen", "--scale", "tiny", "--set", "reward.code_judge.weight=1") == 0
    shown = lines(capsys.readouterr().out)
    assert shown["cost"].startswith("unknown")
    assert "--set judge.kind=openai" in shown["note"]


def test_a_recipe_without_a_server_still_gets_its_calls(capsys):
    assert run("--recipe", "react_qwen", "--scale", "tiny", "--set", "reward.code_judge.weight=1") == 0
    text = capsys.readouterr().out
    assert "offline heuristic judge" in text
    assert re.search(r"at most [\d,]+ calls", text)


def test_a_missing_model_is_found_among_those_of_the_server(place, monkeypatch, capsys):
    monkeypatch.delenv("BOTGRPO_JUDGE_MODEL")
    assert run() == 2
    assert "BOTGRPO_JUDGE_MODEL is not set" in (text := capsys.readouterr().err)
    assert "The models there: other-model, served-model." in text


def test_a_server_that_refuses_is_wrong_input(place, capsys):
    place.answering = lambda request: error(401, "Invalid token")
    assert run() == 2
    assert "401: Invalid token" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [("setup", "react", "--recipe", "react_qwen"), ("setup", "judge", "--scale", "tiny")]
)
def test_options_that_do_not_fit(arguments, capsys):
    with pytest.raises(SystemExit) as stop:
        main(list(arguments))
    assert stop.value.code == 2
    assert "--recipe" in capsys.readouterr().err


def judge_row():
    return next(found for found in examine() if found.part == "judge")


def test_doctor_knows_the_judge_and_asks_nobody(place, monkeypatch):
    monkeypatch.setenv("BOTGRPO_JUDGE_KEY", "sk-something-long")
    found = judge_row()
    assert (found.state, place.requests) == ("ok", [])
    assert found.found == f"served-model at 127.0.0.1:{place.port}, key from BOTGRPO_JUDGE_KEY; not asked here"
    monkeypatch.delenv("BOTGRPO_JUDGE_MODEL")
    assert judge_row().mend == "export BOTGRPO_JUDGE_MODEL=..."
    monkeypatch.delenv("BOTGRPO_JUDGE_URL")
    assert (judge_row().state, judge_row().mend) == ("absent", "botgrpo setup judge")
