"""Where a judge is found, and every way in which that goes wrong."""

from __future__ import annotations

import pytest

from botgrpo_cli.errors import InputError
from botgrpo_cli.judges.settings import Secrets, problems, resolve
from botgrpo_cli.recipe.schema import JudgeConfig
from tests.recipe.helpers import load, problems_of, write

URL = "http://127.0.0.1:8000/v1"
PLACE = {"BOTGRPO_JUDGE_URL": URL, "BOTGRPO_JUDGE_MODEL": "m"}


def config(**keys) -> JudgeConfig:
    return JudgeConfig(**{"kind": "openai", **keys})


def test_the_environment_completes_the_recipe_and_gives_way_to_it():
    found = resolve(config(), PLACE)
    assert (found.url, found.model, found.key, found.key_from) == (URL, "m", None, None)
    found = resolve(config(url="https://host/api/", model="n"), PLACE)
    assert (found.url, found.model) == ("https://host/api", "n")


def test_keys_come_from_the_environment_in_order():
    both = {**PLACE, "BOTGRPO_JUDGE_KEY": " own ", "OPENAI_API_KEY": "other", "MY_KEY": "mine"}
    assert resolve(config(), both).key == "own"
    assert resolve(config(key_variable="MY_KEY"), both).key == "mine"
    del both["BOTGRPO_JUDGE_KEY"]
    found = resolve(config(), both)
    assert (found.key, found.key_from) == ("other", "OPENAI_API_KEY")
    with pytest.raises(InputError, match=r"judge\.key_variable: Found NOT_SET, and that variable is not set"):
        resolve(config(key_variable="NOT_SET"), both)


@pytest.mark.parametrize(
    ("keys", "environment", "key", "pieces"),
    [
        ({}, {"BOTGRPO_JUDGE_MODEL": "m"}, "url", ["BOTGRPO_JUDGE_URL is not set", "http://localhost:8000/v1"]),
        ({}, {"BOTGRPO_JUDGE_URL": URL}, "model", ["BOTGRPO_JUDGE_MODEL is not set"]),
        ({"kind": "bedrock"}, {}, "model", ["BOTGRPO_JUDGE_MODEL is not set"]),
        ({"url": "localhost:8000"}, PLACE, "url", ["Found 'localhost:8000'", "http:// or https://"]),
        ({"url": "ftp://host/v1"}, PLACE, "url", ["Found 'ftp://host/v1'"]),
        ({"url": "http://"}, PLACE, "url", ["Found 'http:"]),
        ({"url": "http://host:port/v1"}, PLACE, "url", ["cannot be read"]),
        ({"url": "http://host/v1/chat/completions"}, PLACE, "url", ["the address of one call"]),
        ({}, {**PLACE, "BOTGRPO_JUDGE_URL": "host"}, "url", ["Found 'host' (from BOTGRPO_JUDGE_URL)"]),
        ({"noise": 0.1}, PLACE, "noise", ["Found 0.1 with kind openai", "Expected 0."]),
        ({"kind": "bedrock", "model": "m", "flip": 1.0}, {}, "flip", ["only heuristic and exact"]),
        ({"attribution_error": 0.5}, PLACE, "attribution_error", ["simulate errors"]),
        ({"spurious_lines": 0.5}, PLACE, "spurious_lines", ["simulate errors"]),
        ({"prices": {"input": 1.0}}, PLACE, "prices.output", ["both or neither"]),
    ],
)
def test_one_problem(keys, environment, key, pieces):
    ((where, text),) = problems(config(**keys), environment)
    assert where == key
    assert all(piece in text for piece in pieces), text
    with pytest.raises(InputError):
        resolve(config(**keys), environment)


@pytest.mark.parametrize("key", ["two words", "line\nend", "clé-0123456789", " "])
def test_a_key_that_cannot_be_one_is_refused_and_not_repeated(key):
    ((where, text),) = problems(config(), {**PLACE, "BOTGRPO_JUDGE_KEY": key})
    assert where == "key_variable"
    assert "BOTGRPO_JUDGE_KEY" in text
    assert key.strip() not in text or not key.strip()


@pytest.mark.parametrize(
    "keys",
    [
        {"url": "http://user:sk-hidden-0123456789@host/v1"},
        {"url": "http://host/v1?key=sk-hidden-0123456789"},
        {"url": "http://host/v1#sk-hidden-0123456789"},
        {"key_variable": "sk-hidden-0123456789"},
        {"key_variable": "gsk_hidden0123456789"},
    ],
)
def test_a_key_that_stands_in_a_recipe_is_refused_and_not_repeated(keys):
    ((_, text),) = problems(config(**keys), PLACE)
    assert "hidden" not in text


def test_offline_kinds_need_nothing_and_may_simulate_errors():
    assert problems(JudgeConfig(kind="heuristic", noise=0.2, attribution_error=0.5), {}) == []
    assert problems(JudgeConfig(kind="exact", flip=0.1), {}) == []


def test_an_address_of_another_server_is_not_taken_for_bedrock():
    assert resolve(JudgeConfig(kind="bedrock", model="m"), {"BOTGRPO_JUDGE_URL": URL}).url is None


def test_the_recipe_names_its_line_and_the_variable(tmp_path):
    path = write(tmp_path, "judge:\n  kind: openai\n  noise: 0.5")
    found = problems_of(path)
    assert [line.split(": ")[:2] for line in found] == [
        ["my.yaml:2", "judge.url"],
        ["my.yaml:2", "judge.model"],
        ["my.yaml:3", "judge.noise"],
    ]
    assert "BOTGRPO_JUDGE_URL" in found[0]


def test_the_recipe_loads_with_the_environment(tmp_path, monkeypatch):
    for name, value in PLACE.items():
        monkeypatch.setenv(name, value)
    path = write(tmp_path, "judge: {kind: openai, prices: {input: 0.1, output: 0.4}, temperature: null}")
    judge = load(path).recipe.judge
    assert (judge.url, judge.prices.output, judge.temperature) == (None, 0.4, None)


def test_no_key_is_in_the_text_of_the_settings():
    assert "secret" not in repr(resolve(config(), {**PLACE, "BOTGRPO_JUDGE_KEY": "secret-0123"}))


def test_secrets_are_replaced_however_a_server_echoes_them():
    secrets = Secrets(["sk/se cret+é123", None, "", "EMPTY"])
    for echoed in (
        "sk/se cret+é123",
        "sk%2Fse%20cret%2B%C3%A9123",
        "c2svc2UgY3JldCvDqTEyMw==",
        r"sk/se cret+\u00e9123",
    ):
        assert secrets.clean(f"Bearer {echoed}!") == "Bearer [key]!"
    assert secrets.clean("EMPTY") == "EMPTY"
