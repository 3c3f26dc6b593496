"""A server that echoes the key wherever it can: it reaches no file, no log, no error and no screen."""

from __future__ import annotations

import base64
import json
import logging
import traceback
from pathlib import Path

import pytest

from botgrpo_cli.app import main
from botgrpo_cli.errors import InputError, RunError
from botgrpo_cli.recipe.load import dump_recipe
from botgrpo_cli.recipe.schema import JudgeConfig
from botgrpo_cli.records.manifest import write_manifest
from tests.judges.asks import ask
from tests.judges.server import Response, behave, chat, error
from tests.recipes import ReactRecipe

KEY = "sk-live-9f8e7d6c5b4a/3210"
FORMS = [KEY, KEY.replace("/", "%2F"), base64.b64encode(KEY.encode()).decode(), "9f8e7d6c5b4a"]
OPEN = {"type": "object", "properties": {"why": {"type": "string"}}, "required": ["why"]}


@pytest.fixture(autouse=True)
def everything_is_logged(caplog, monkeypatch):
    monkeypatch.setenv("BOTGRPO_JUDGE_KEY", KEY)
    caplog.set_level(logging.DEBUG)


def leaks(text: str) -> list[str]:
    return [form for form in FORMS if form in text]


def written(folder: Path) -> str:
    return "\n".join(path.read_bytes().decode("latin-1") for path in folder.rglob("*") if path.is_file())


def echo(request: dict) -> Response:
    """The key in the reply, as it stands and in base64, and in the name of the model."""
    response = behave(request)
    if request["messages"][-1]["content"] == "Echo.":
        response = chat(json.dumps({"why": f"Your header was Bearer {KEY}, or {FORMS[2]}, or {FORMS[1]}."}))
    response.body["model"] = KEY
    return response


def test_the_key_is_sent_and_is_in_nothing_else(judge_for, server, tmp_path, caplog, capfd):
    judge = judge_for(probe_with=echo)
    assert judge.describe()["served_model"] == "[key]"
    server.answering = echo
    replies = [judge.ask(ask("Echo.", schema=OPEN)) for _ in range(2)]
    assert [reply.outcome for reply in replies] == ["ok", "ok"]
    assert [reply.cached for reply in replies] == [False, True]
    assert server.headers[0]["authorization"] == f"Bearer {KEY}", "else this test proves nothing"
    server.answering = lambda request: chat(f"no JSON but {KEY}")
    replies.append(judge.ask(ask("Malformed.")))
    server.answering = lambda request: error(503, f"{KEY} is busy")
    replies.append(judge.ask(ask("Failing.")))
    assert [reply.outcome for reply in replies[2:]] == ["malformed", "transport_failed"]
    (tmp_path / "samples.jsonl").write_text("\n".join(f"{reply}" for reply in replies))
    write_manifest(tmp_path, {"judge": judge.describe(), "counters": judge.counters()})
    recipe = ReactRecipe(judge=judge.config)
    (tmp_path / "recipe.yaml").write_text(dump_recipe(recipe))
    judge.close()
    (tmp_path / "log").write_text(caplog.text + repr(judge) + repr(vars(judge)) + str(recipe))
    text = written(tmp_path)
    for there in ('{"why": "Your header was Bearer [key], or [key], or [key]."}', "[key] is busy", "named-model"):
        assert there in text
    assert leaks(text) == []
    out = capfd.readouterr()
    assert leaks(out.out + out.err) == []


@pytest.mark.parametrize("status", [400, 401, 403, 404, 503])
def test_errors_and_their_tracebacks(judge_for, server, status):
    judge = judge_for(tries=1)
    server.answering = lambda request: error(status, f"Incorrect key: {KEY}")
    if status < 500:
        with pytest.raises(RunError) as caught:
            judge.ask(ask())
        shown = "".join(traceback.format_exception(caught.value))
        assert "Incorrect key: [key]" in shown
        assert leaks(shown) == []
    with pytest.raises(InputError) as refused:
        judge_for(tries=1, cache=False)
    shown = "".join(traceback.format_exception(refused.value))
    assert "Incorrect key: [key]" in shown
    assert leaks(shown) == []


def test_the_command_line(server, monkeypatch, capfd, caplog):
    monkeypatch.setenv("BOTGRPO_JUDGE_URL", server.url)
    monkeypatch.setenv("BOTGRPO_JUDGE_MODEL", "named-model")
    for answering, code in ((echo, 0), (lambda request: error(401, f"Incorrect key: {KEY}"), 2)):
        server.answering = answering
        with pytest.raises(SystemExit) as stop:
            main(["-v", "setup", "judge"])
        assert (stop.value.code or 0) == code
    monkeypatch.setenv("BOTGRPO_JUDGE_URL", f"http://me:{KEY.replace('/', '')}@127.0.0.1/v1")
    with pytest.raises(SystemExit):
        main(["setup", "judge"])
    shown = capfd.readouterr()
    assert "BOTGRPO_JUDGE_KEY" in shown.out
    assert "Incorrect key: [key]" in shown.err
    assert leaks(shown.out + shown.err + caplog.text) == []


def test_a_key_in_the_recipe_is_no_key_of_the_schema():
    assert not {"key", "api_key", "token"} & set(JudgeConfig.model_fields)
