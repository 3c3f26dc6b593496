"""The client against a real server on the loopback interface that misbehaves as it is told."""

from __future__ import annotations

import pytest

from botgrpo_cli.errors import RunError
from botgrpo_cli.judges.base import Image
from botgrpo_cli.judges.client import make_judge
from botgrpo_cli.judges.probe import square_png
from botgrpo_cli.recipe.schema import JudgeConfig
from tests.judges.asks import GOOD, GOOD_TEXT, SCHEMA, ask
from tests.judges.server import Response, chat, cut_body, error, look_alike, reset, stall

FAILED = "No answer, tried up to 6 times: "


def test_offline_kinds_need_no_client():
    assert make_judge(JudgeConfig(kind="heuristic")) is None
    assert make_judge(JudgeConfig(kind="exact")) is None


def test_a_good_reply(judge_for, server):
    judge = judge_for()
    server.script.append(chat(GOOD_TEXT))
    reply = judge.ask(ask())
    assert (reply.outcome, reply.value, reply.text, reply.cached) == ("ok", GOOD, GOOD_TEXT, False)
    assert (reply.prompt_tokens, reply.completion_tokens) == (10, 5)
    assert reply.seconds > 0


def test_what_is_sent(judge_for, server):
    judge = judge_for(max_tokens=77, temperature=0.25)
    picture = Image(square_png((255, 0, 0)))
    server.script.append(chat(GOOD_TEXT))
    judge.ask(ask("Before.", picture, parts=("Before.", picture, "After.")))
    (sent,) = server.requests
    assert (sent["model"], sent["max_tokens"], sent["temperature"]) == ("named-model", 77, 0.25)
    assert sent["response_format"]["json_schema"]["schema"] == SCHEMA
    system, user = sent["messages"]
    assert system == {"role": "system", "content": "You judge."}
    assert [part["type"] for part in user["content"]] == ["text", "image_url", "text"]
    assert user["content"][1]["image_url"]["url"].startswith("data:image/png;base64,iVBORw0KGgo")
    assert server.headers[0]["authorization"] == "Bearer none"


def test_text_alone_is_sent_as_text_and_no_temperature_where_none_is_wanted(judge_for, server):
    judge = judge_for(temperature=None)
    server.script.append(chat(GOOD_TEXT))
    judge.ask(ask(parts=("One.", "Two.")))
    (sent,) = server.requests
    assert sent["messages"][1]["content"] == "One.\n\nTwo."
    assert "temperature" not in sent


def test_429_with_retry_after_is_waited_for(judge_for, server):
    judge = judge_for()
    server.script += [error(429, "slow down", Retry_After="7"), chat(GOOD_TEXT)]
    assert judge.ask(ask()).outcome == "ok"
    assert judge.patience.waited == [8.0]  # 7 and the upper bound of a second's jitter
    assert judge.counters()["calls"] == 2


def test_503_then_good(judge_for, server):
    judge = judge_for()
    server.script += [error(503), error(503), chat(GOOD_TEXT)]
    assert judge.ask(ask()).value == GOOD
    assert judge.patience.waited == [1.0, 2.0]


def test_always_503_is_a_failure_in_transport_and_no_low_score(judge_for, server):
    judge = judge_for()
    server.answering = lambda request: error(503, "loading the model")
    reply = judge.ask(ask())
    assert (reply.outcome, reply.value) == ("transport_failed", None)
    assert reply.text == FAILED + "503: loading the model."
    assert (reply.prompt_tokens, reply.completion_tokens) == (None, None)
    assert len(server.requests) == 6


@pytest.mark.parametrize(
    ("trouble", "words"),
    [
        (reset, "the connection failed"),
        (cut_body, "the connection failed"),
        (lambda: Response(body="<html>Welcome</html>"), "it answered with a page"),
        (lambda: Response(body={"error": {"message": "no backend"}}), "it answered without a choice: no backend"),
        (lambda: Response(body={"choices": []}), "it answered without a choice"),
        (lambda: Response(body={"choices": [{"message": "x"}]}), "it answered without a choice"),
        (lambda: Response(body=[1]), "it answered without a choice: no reason given"),
    ],
)
def test_a_broken_answer_is_tried_again(judge_for, server, trouble, words):
    judge = judge_for(tries=2)
    server.script += [trouble(), chat(GOOD_TEXT)]
    assert judge.ask(ask()).value == GOOD
    server.script += [trouble(), trouble()]
    reply = judge.ask(ask("Another."))
    assert reply.outcome == "transport_failed"
    assert words in reply.text


def test_a_server_that_says_nothing_is_tried_again(judge_for, server):
    judge = judge_for(timeout=1.5)
    server.script += [stall(), chat(GOOD_TEXT)]
    assert judge.ask(ask()).value == GOOD
    assert judge.patience.waited[0] == 1.0


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_what_no_call_can_mend_stops_the_run_with_the_servers_words(judge_for, server, status):
    judge = judge_for()
    server.script.append(error(status, "Your quota is used up"))
    with pytest.raises(RunError, match=rf"openai:named-model at 127.0.0.1:\d+ .* {status}: Your quota is used up"):
        judge.ask(ask())
    assert judge.patience.waited == []
    with pytest.raises(RunError, match="Your quota is used up"):
        judge.ask(ask("Another."))
    assert len(server.requests) == 1, "a stopped judge asks nobody"
    future = judge.submit(ask("A third."))
    assert isinstance(future.exception(), RunError)


def test_more_than_a_fifth_of_failures_stops_the_run(judge_for, server):
    judge = judge_for(tries=1)
    server.answering = lambda request: error(503, "overloaded")
    for number in range(19):
        assert judge.ask(ask(f"{number}")).outcome == "transport_failed"
    with pytest.raises(RunError, match="20 of the last 20 calls failed in transport, the last with 503: overloaded"):
        judge.ask(ask("19"))


@pytest.mark.parametrize("text", [f"Well: {GOOD_TEXT} I hope that helps.", f"```json\n{GOOD_TEXT}\n```"])
def test_prose_around_the_json(judge_for, server, text):
    judge = judge_for()
    server.script.append(chat(text))
    assert judge.ask(ask()).value == GOOD


@pytest.mark.parametrize(
    "text", [GOOD_TEXT[:12], "A is better.", '{"score": true, "side": "A"}', '{"score": 70, "side": "A"}']
)
def test_an_unusable_reply_is_asked_for_once_more(judge_for, server, text):
    judge = judge_for()
    server.script += [chat(text), chat(GOOD_TEXT)]
    reply = judge.ask(ask())
    assert (reply.outcome, reply.value) == ("ok", GOOD)
    assert (reply.prompt_tokens, reply.completion_tokens) == (20, 10)
    first, second = (request["messages"][1]["content"] for request in server.requests)
    assert second.startswith(first)
    assert "Your last reply could not be used." in second


def test_two_unusable_replies_are_malformed(judge_for, server):
    judge = judge_for()
    server.answering = lambda request: chat('{"score": 70, "side": "A"}')
    reply = judge.ask(ask())
    assert (reply.outcome, reply.value) == ("malformed", None)
    assert reply.text.startswith("Not usable: score: 70 is greater than the maximum of 10")
    assert reply.text.endswith('The model wrote: {"score": 70, "side": "A"}')
    assert len(server.requests) == 2
    assert judge.patience.waited == []


def test_a_check_of_the_asker_decides_and_its_sentence_is_sent_back(judge_for, server):
    def only_b(value: dict) -> None:
        if value.get("side") != "B":
            raise ValueError(f"'side' is {value.get('side')!r}; expected B.")

    judge = judge_for()
    server.script += [chat(GOOD_TEXT), chat('{"side": "B", "lines": [{"line": "x"}]}')]
    reply = judge.ask(ask(check=only_b))
    assert reply.value == {"side": "B", "lines": [{"line": "x"}]}, "the schema alone does not refuse what a check takes"
    assert "'side' is 'A'; expected B." in server.requests[1]["messages"][1]["content"]


def test_a_reply_that_was_cut_off_is_malformed_even_when_it_parses(judge_for, server):
    judge = judge_for(max_tokens=9)
    server.answering = lambda request: chat(GOOD_TEXT, finish="length")
    reply = judge.ask(ask())
    assert reply.outcome == "malformed"
    assert "cut off at 9 tokens" in reply.text


@pytest.mark.parametrize(
    "response",
    [
        lambda: chat(None, refusal="I can't rate this."),
        lambda: chat("", finish="content_filter"),
        lambda: chat("I'm sorry, but I cannot help with that."),
        lambda: error(400, "The prompt was filtered", code="content_filter"),
    ],
)
def test_refusals_are_their_own_outcome_and_are_not_asked_again(judge_for, server, response):
    judge = judge_for()
    server.script.append(response())
    reply = judge.ask(ask())
    assert (reply.outcome, reply.value) == ("refused", None)
    assert len(server.requests) == 1


def test_a_failure_in_the_re_ask_is_a_failure_in_transport(judge_for, server):
    judge = judge_for(tries=1)
    server.script += [chat("no"), error(503)]
    reply = judge.ask(ask())
    assert (reply.outcome, reply.prompt_tokens) == ("transport_failed", 10)


def test_without_enforcement_the_schema_stands_in_the_prompt(judge_for, server):
    judge = judge_for(probe_with=look_alike)
    server.script.append(chat(f"Sure! {GOOD_TEXT}"))
    assert judge.ask(ask()).value == GOOD
    (sent,) = server.requests
    assert "response_format" not in sent
    assert '"maximum":10' in sent["messages"][0]["content"]


def test_images_for_a_model_that_does_not_see_them_are_never_sent(judge_for, server):
    judge = judge_for(probe_with=look_alike)
    assert not judge.sees_images
    for error_of in (judge.submit(ask("Look.", Image(b"png"))).exception, lambda: _raised(judge)):
        assert "does not see images" in str(error_of())
    assert server.requests == []


def _raised(judge) -> RunError:
    with pytest.raises(RunError) as caught:
        judge.ask(ask("Look.", Image(b"png")))
    return caught.value


def test_the_other_name_of_the_token_limit(judge_for, server):
    words = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."

    def picky(request: dict) -> Response:
        return error(400, words) if "max_tokens" in request else chat(GOOD_TEXT)

    judge = judge_for(probe_with=picky)
    server.answering = picky
    assert judge.ask(ask()).value == GOOD
    assert server.requests[0]["max_completion_tokens"] == 1024
