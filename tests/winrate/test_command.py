"""What `botgrpo winrate` refuses before it starts anything, and what it takes for its judge."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from botgrpo_cli.app import app
from botgrpo_cli.commands.winrate import judge_config, warn_of_same_judge
from botgrpo_cli.errors import InputError
from botgrpo_cli.tasks.react.prompts import load_prompts
from tests.winrate.pages import StandIn


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Two folders of components, and nothing else."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BOTGRPO_JUDGE_URL", raising=False)
    for name in ("rich", "poor"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{load_prompts('briefs', 'held-out')[0].id}.jsx").write_text("x")
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("poor", "nowhere/at/all"), "There is no folder nowhere/at/all"),
        (("poor", "rich", "--judge", "heuristics"), "Did you mean 'heuristic'?"),
        (("poor", "rich", "--show", "screenshot"), "Did you mean 'screenshots'?"),
        (("poor", "rich", "--set", "training.seed=1"), "no setting of the judge"),
        (("poor", "rich", "--set", "judge.temprature=1"), "temperature"),
        (("poor", "rich", "--checkpoints", "all"), "leave --checkpoints out"),
        (("poor", "rich", "--out", "poor"), "holds something else than a comparison"),
        (("poor", "rich", "--format", "gif"), "not a figure format"),
        (("poor", "rich", "--judge", "openai:m"), "BOTGRPO_JUDGE_URL"),
    ],
)
def test_wrong_input_starts_nothing(folder, arguments, words):
    done = CliRunner().invoke(app, ["winrate", *arguments])
    assert isinstance(done.exception, InputError), done.output
    assert words in str(done.exception)


def test_the_judge_is_the_server_where_there_is_one(monkeypatch):
    monkeypatch.delenv("BOTGRPO_JUDGE_URL", raising=False)
    assert judge_config(None, []).kind == "heuristic"
    monkeypatch.setenv("BOTGRPO_JUDGE_URL", "http://localhost:1/v1")
    monkeypatch.setenv("BOTGRPO_JUDGE_MODEL", "served")
    assert judge_config(None, []).kind == "openai"
    named = judge_config("openai:Qwen/Qwen2.5-VL-7B-Instruct", ["judge.temperature=0.5"])
    assert (named.model, named.temperature) == ("Qwen/Qwen2.5-VL-7B-Instruct", 0.5)


class Judge:
    label = "openai:m"

    def describe(self):
        return {"kind": "openai", "model": "m", "host": "h"}


@pytest.mark.parametrize(
    ("taught", "warned"),
    [({"kind": "openai", "model": "m"}, True), ({"kind": "openai", "model": "n"}, False), ({}, False)],
)
def test_a_judge_that_taught_a_side_is_named(capsys, taught, warned):
    side = StandIn("mine")
    side.judge = taught
    warn_of_same_judge(Judge(), (side, StandIn("other")))
    assert ("mine learnt from this same judge" in capsys.readouterr().err) == warned
