"""What the probe finds out of servers that enforce, ignore, drop and refuse."""

from __future__ import annotations

import io
import json

import pytest

from botgrpo_cli.errors import InputError
from botgrpo_cli.judges.probe import square_png
from tests.judges.server import Response, behave, chat, error, instance, look_alike


def has(request: dict, kind: str) -> bool:
    return request.get("response_format", {}).get("type") == kind


def pictured(request: dict) -> bool:
    return not isinstance(request["messages"][-1]["content"], str)


def test_a_server_that_does_everything(judge_for):
    found = judge_for().describe()
    assert (found["structured_output"], found["sees_images"]) == ("json_schema", True)
    assert (found["served_model"], found["reports_tokens"]) == ("served-model", True)


def test_a_server_that_ignores_schemas_and_drops_pictures_with_http_200(judge_for):
    found = judge_for(probe_with=look_alike).describe()
    assert (found["structured_output"], found["sees_images"]) == ("prompt", False)
    assert found["images"] == "of a red square the model said no colour, so images do not arrive"


def test_a_model_that_guesses_without_seeing_cannot_be_right_twice(judge_for):
    def guess(request: dict) -> Response:
        return chat('{"colour": "red"}') if pictured(request) else behave(request)

    found = judge_for(probe_with=guess).describe()
    assert not found["sees_images"]
    assert "of a red and blue square the model said red and red" in found["images"]


@pytest.mark.parametrize("status", [400, 422, 500, 501])
def test_a_refused_feature_is_a_lower_rung_and_not_waited_for_long(judge_for, status):
    def refuse(request: dict) -> Response:
        refused = has(request, "json_schema") or pictured(request)
        return error(status, "not supported here") if refused else behave(request)

    judge = judge_for(probe_with=refuse)
    found = judge.describe()
    assert (found["structured_output"], found["sees_images"]) == ("json_object", False)
    assert found["images"] == f"the server refuses images: {status}: not supported here"
    assert sum(judge.probe_waits) <= 2


def test_a_schema_that_is_taken_for_any_json_is_not_enforced(judge_for):
    def any_json(request: dict) -> Response:
        return chat('{"hello": "world"}') if "response_format" in request else behave(request)

    assert judge_for(probe_with=any_json).describe()["structured_output"] == "json_object"


def test_ranges_and_enums_in_the_schema_count(judge_for):
    def sloppy(request: dict) -> Response:
        if not has(request, "json_schema") or pictured(request):
            return behave(request)
        schema = request["response_format"]["json_schema"]["schema"]
        return chat(json.dumps({**instance(schema), "lines": [{"line": 1}]}))

    assert judge_for(probe_with=sloppy).describe()["structured_output"] == "json_object"


def test_json_with_words_around_it_is_not_enforced(judge_for):
    def talk(request: dict) -> Response:
        answer = behave(request)
        if "response_format" in request:
            answer.body["choices"][0]["message"]["content"] = f"Sure: {answer.body['choices'][0]['message']['content']}"
        return answer

    assert judge_for(probe_with=talk).describe()["structured_output"] == "prompt"


@pytest.mark.parametrize("status", [401, 403, 429])
def test_a_busy_server_or_a_wrong_key_is_not_taken_for_a_missing_feature(judge_for, status):
    def refuse(request: dict) -> Response:
        return error(status, "not now") if has(request, "json_schema") else behave(request)

    with pytest.raises(InputError, match=f"{status}: not now"):
        judge_for(probe_with=refuse)


def test_missing_usage_is_reported_as_missing(judge_for, server):
    judge = judge_for(probe_with=lambda request: chat("Hello!", usage=False))
    assert judge.describe()["reports_tokens"] is False


def test_the_square_is_a_png_of_one_colour():
    from PIL import Image

    picture = Image.open(io.BytesIO(square_png((0, 0, 255), side=40)))
    assert (picture.format, picture.size, picture.mode) == ("PNG", (40, 40), "RGB")
    assert picture.getcolors() == [(1600, (0, 0, 255))]
