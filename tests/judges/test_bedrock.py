"""The real boto3 against a server that speaks Bedrock's `converse` on the loopback interface."""

from __future__ import annotations

import base64
import json
import logging
from urllib.parse import unquote

import pytest

from botgrpo_cli.errors import InputError, RunError
from botgrpo_cli.judges.base import Image
from botgrpo_cli.judges.client import JudgeClient, make_judge
from botgrpo_cli.recipe.schema import JudgeConfig
from tests.judges.asks import GOOD, GOOD_TEXT, SCHEMA, ask
from tests.judges.conftest import NoWait
from tests.judges.server import Response, colour_of, instance, reset

SECRET = "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY"


def converse(text: str, stop: str = "end_turn") -> Response:
    output = {"message": {"role": "assistant", "content": [{"text": text}]}}
    usage = {"inputTokens": 11, "outputTokens": 6, "totalTokens": 17}
    return Response(body={"output": output, "stopReason": stop, "usage": usage, "metrics": {"latencyMs": 1}})


def refuse(status: int, code: str, words: str, **headers: str) -> Response:
    named = {"x-amzn-ErrorType": code, **{name.replace("_", "-"): value for name, value in headers.items()}}
    return Response(status, {"message": words}, named)


def behave(request: dict) -> Response:
    content = request["messages"][0]["content"]
    pictures = [part["image"] for part in content if "image" in part]
    if pictures:
        assert pictures[0]["format"] == "png"
        return converse(json.dumps({"colour": colour_of(base64.b64decode(pictures[0]["source"]["bytes"]))}))
    form = request.get("outputConfig", {}).get("textFormat", {}).get("structure", {}).get("jsonSchema")
    return converse(json.dumps(instance(json.loads(form["schema"]))) if form else "Hello!")


@pytest.fixture
def credentials(monkeypatch, tmp_path):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE12345")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    for name in ("AWS_PROFILE", "AWS_BEARER_TOKEN_BEDROCK", "AWS_SESSION_TOKEN", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def bedrock(server, credentials):
    made = []

    def make(probe_with=behave, **keys) -> JudgeClient:
        config = JudgeConfig(kind="bedrock", url=server.root, model="vendor.model-v1:0", **keys)
        server.answering = probe_with
        judge = make_judge(config, patience=NoWait(config.tries))
        server.requests.clear()
        made.append(judge)
        return judge

    yield make
    for judge in made:
        judge.close()


def test_the_probe_and_a_good_reply(bedrock, server):
    judge = bedrock(max_tokens=55)
    found = judge.describe()
    assert (found["kind"], found["structured_output"], found["sees_images"]) == ("bedrock", "json_schema", True)
    assert judge.label == "bedrock:vendor.model-v1:0"
    server.script.append(converse(GOOD_TEXT))
    reply = judge.ask(ask("Look.", Image(b"png")))
    assert (reply.outcome, reply.value) == ("ok", GOOD)
    assert (reply.prompt_tokens, reply.completion_tokens) == (11, 6)
    (sent,) = server.requests
    assert sent["inferenceConfig"] == {"maxTokens": 55, "temperature": 0.0}
    assert sent["system"] == [{"text": "You judge."}]
    assert [sorted(part) for part in sent["messages"][0]["content"]] == [["text"], ["image"]]
    schema = sent["outputConfig"]["textFormat"]["structure"]["jsonSchema"]["schema"]
    assert json.loads(schema) == SCHEMA


def test_a_model_without_structured_output_gets_the_schema_in_the_prompt(bedrock, server):
    def old(request: dict) -> Response:
        return refuse(400, "ValidationException", "no outputConfig") if "outputConfig" in request else behave(request)

    judge = bedrock(probe_with=old)
    assert judge.describe()["structured_output"] == "prompt"
    server.script.append(converse(f"Sure: {GOOD_TEXT}"))
    assert judge.ask(ask()).value == GOOD
    assert '"maximum":10' in server.requests[0]["system"][0]["text"]


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (429, "ThrottlingException"),
        (503, "ServiceUnavailableException"),
        (408, "ModelTimeoutException"),
        (424, "ModelErrorException"),
    ],
)
def test_what_may_pass_is_tried_again_by_us_alone(bedrock, server, status, code):
    judge = bedrock()
    server.script += [refuse(status, code, "later", Retry_After="3"), reset(), converse(GOOD_TEXT)]
    assert judge.ask(ask()).value == GOOD
    assert len(server.requests) == 3
    assert judge._patience.waited[-2:] == [4.0, 2.0]


@pytest.mark.parametrize(("status", "code"), [(400, "ValidationException"), (403, "AccessDeniedException")])
def test_what_cannot_pass_stops_the_run_in_the_services_words(bedrock, server, status, code):
    judge = bedrock()
    server.script.append(refuse(status, code, f"You may not, with {SECRET}"))
    with pytest.raises(RunError, match=rf"{status}: {code}: You may not, with \[key\]"):
        judge.ask(ask())


@pytest.mark.parametrize(
    ("stop", "outcome"),
    [("content_filtered", "refused"), ("guardrail_intervened", "refused"), ("max_tokens", "malformed")],
)
def test_stop_reasons(bedrock, server, stop, outcome):
    judge = bedrock()
    server.answering = lambda request: converse(GOOD_TEXT, stop)
    assert judge.ask(ask()).outcome == outcome


def test_the_secret_is_in_no_log(bedrock, server, caplog):
    caplog.set_level(logging.DEBUG)
    bedrock().ask(ask())
    assert SECRET not in unquote(caplog.text)


def test_without_credentials_or_region(server, credentials, monkeypatch):
    config = JudgeConfig(kind="bedrock", url=server.root, model="m")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(InputError, match="finds no credentials"):
        make_judge(config)
    monkeypatch.delenv("AWS_REGION")
    with pytest.raises(InputError, match="Set AWS_REGION"):
        make_judge(config)
