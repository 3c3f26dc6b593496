"""Servers that cannot be used: wrong input, before anything starts, in words that help."""

from __future__ import annotations

import pytest

from botgrpo_cli.errors import InputError
from tests.judges.server import error


@pytest.mark.parametrize(
    ("answering", "keys", "words"),
    [
        (lambda request: error(401, "Invalid token"), {}, r"401: Invalid token\. Of the environment, no key was set"),
        (lambda request: error(404, "model not found"), {"model": "served-modl"}, "Did you mean 'served-model'"),
        (lambda request: error(400, "max_tokens is too large"), {"model": "served-model"}, "400: max_tokens is too"),
        (lambda request: error(503, "still loading"), {}, "did not answer: 503: still loading. Is the server running"),
    ],
)
def test_a_server_that_cannot_be_used_is_wrong_input_before_anything_starts(judge_for, server, answering, keys, words):
    server.answering = answering
    with pytest.raises(InputError, match=words):
        judge_for(**keys)


def test_nobody_at_the_address(judge_for):
    with pytest.raises(InputError, match="did not answer: the connection failed"):
        judge_for(url="http://127.0.0.1:9/v1")


def test_an_address_without_v1_gets_a_hint(judge_for, server):
    server.models = []
    server.answering = lambda request: error(404, "Not Found")
    with pytest.raises(InputError, match="ends in /v1"):
        judge_for(url=server.root)
