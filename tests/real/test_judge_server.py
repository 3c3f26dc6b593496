"""A real model behind a real server over HTTP: llama.cpp (xllamacpp) with SmolLM2-135M-Instruct.

A model of 135 million weights tests the plumbing, not anyone's judgement.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest

from botgrpo_cli.judges.base import Ask, Image
from botgrpo_cli.judges.client import JudgeClient, make_judge
from botgrpo_cli.judges.connect import open_transport
from botgrpo_cli.judges.pairwise import App, ModelPairJudge, judge_pair, share_of
from botgrpo_cli.judges.probe import square_png
from botgrpo_cli.judges.settings import resolve
from botgrpo_cli.judges.transport import Fault, Prompt
from botgrpo_cli.policy.small import DEFAULT, GGUF_FILE, small_folder
from botgrpo_cli.recipe.schema import JudgeConfig
from botgrpo_cli.tasks.aime.step_judge import ModelStepJudge
from botgrpo_cli.tasks.aime.verdicts import VERDICTS, judge_steps
from botgrpo_cli.tasks.base import Prompt as TaskPrompt
from botgrpo_cli.tasks.react.judges.code import code_ask, code_verdict
from botgrpo_cli.tiny import chains
from tests.judges.asks import SCHEMA, ask
from tests.judges.conftest import NoWait, no_environment  # noqa: F401

pytestmark = pytest.mark.slow

SERVE = """
import sys
import xllamacpp
params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.hostnames = ["127.0.0.1"]
params.n_ctx, params.n_parallel, params.warmup = 8192, 2, False
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
"""
MODEL = small_folder(DEFAULT).with_name(f"{DEFAULT}-gguf") / GGUF_FILE  # before the fixture that moves the cache


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The server lives until its standard input is closed."""
    assert MODEL.is_file(), "These tests read the model that `make server-model` puts into the cache; run it first."
    with subprocess.Popen(
        [sys.executable, "-c", SERVE, MODEL],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        line = next((line for line in process.stdout if line.startswith("http://")), "")
        assert line, "the server did not start"
        yield f"{line.strip()}/v1"
        process.stdin.close()


@pytest.fixture
def judge(address) -> Iterator[JudgeClient]:
    config = JudgeConfig(kind="openai", url=address, model="smollm2", max_tokens=96, tries=2, timeout=300)
    made = make_judge(config, patience=NoWait(2))
    yield made
    made.close()


def test_the_probe_finds_schemas_and_no_images(judge, address):
    found = judge.describe()
    assert found["structured_output"] == "json_schema"
    assert found["reports_tokens"]
    assert not judge.sees_images
    assert found["images"].startswith("the server refuses images: 500: image input is not supported")


def test_a_schema_is_enforced_whatever_the_model_would_say(judge):
    replies = [judge.submit(ask(f"Write a poem about the number {number}.")) for number in range(4)]
    for reply in (future.result() for future in replies):
        assert reply.outcome == "ok", reply.text
        assert sorted(reply.value) == sorted(SCHEMA["properties"])
        assert isinstance(reply.value["score"], int)
        assert 0 <= reply.value["score"] <= 10
        assert reply.prompt_tokens > 10
        assert reply.completion_tokens > 5
    counted = judge.counters()
    assert (counted["ok"], counted["calls"]) == (4, 4)
    assert counted["seconds_p50"] > 0


def test_a_reply_that_is_cut_off_is_malformed(address):
    judge = make_judge(JudgeConfig(kind="openai", url=address, model="smollm2", max_tokens=4), patience=NoWait(2))
    try:
        reply = judge.ask(ask())
    finally:
        judge.close()
    assert reply.outcome == "malformed"
    assert "cut off at 4 tokens" in reply.text


def test_the_second_time_comes_from_the_cache(judge):
    first, second = judge.ask(ask("Once.")), judge.ask(ask("Once."))
    assert (first.cached, second.cached) == (False, True)
    assert first.value == second.value


def test_the_code_judges_prompt_and_schema_go_through(judge):
    code = "export default function App() {\n  return <button>Add</button>;\n}"
    asked: Ask = code_ask(TaskPrompt("p", "A button that adds one.", "easy"), code, lines=True)
    reply = judge.ask(asked)
    verdict = code_verdict(reply, code)
    assert reply.outcome in ("ok", "malformed"), reply.text
    assert 0 <= verdict.score <= 1
    assert (verdict.outcome == "ok") == (reply.outcome == "ok")


def test_verdicts_on_the_steps_of_a_solution(judge):
    task = chains.tasks("held-out")[0]
    texts = [step.strip() for step in chains.solution(task.chain).split("\n\n")][:3]
    ask = ModelStepJudge(judge).about(task.prompt.text)
    found = judge_steps(texts, ask, window=2, strategy="context-aware").result()
    assert found.calls == 2
    assert set(found.outcomes) <= {"ok", "malformed"}  # it may write reasons until it is cut off
    assert len(found.scores) == 3
    for verdict, score in zip(found.verdicts, found.scores, strict=True):
        assert verdict in (None, *VERDICTS)
        assert verdict is not None or score == 0
    assert found.malformed == found.verdicts.count(None)


def test_four_rounds_over_a_pair_of_sources(judge):
    apps = [App(f"export default function App() {{\n  return <h1>{word}</h1>;\n}}") for word in ("Timer", "Nothing")]
    pairs = ModelPairJudge(judge, shown="sources", prompt="pairwise-sources")
    result = judge_pair(pairs, TaskPrompt("p", "A heading that says Timer.", "easy"), *apps)
    assert [each.order for each in result.rounds] == ["AB", "BA", "BA", "AB"]
    assert {each.outcome for each in result.rounds} <= {"ok", "malformed"}
    assert result.a_share == share_of(result.rounds)
    assert pairs.counters()["calls"] >= 4  # one that is cut off is asked once more


def test_an_image_is_refused_with_the_servers_own_words(address):
    config = JudgeConfig(kind="openai", url=address, model="smollm2")
    transport = open_transport(resolve(config), config)
    prompt = Prompt("", ("What is it?", Image(square_png((255, 0, 0)))), {"type": "object"}, "prompt", 0.0, 16)
    try:
        with pytest.raises(Fault, match="500: image input is not supported"):
            transport.send(prompt)
    finally:
        transport.close()


def test_setup_judge_on_the_command_line(address, tmp_path, monkeypatch):
    monkeypatch.setenv("BOTGRPO_JUDGE_URL", address)
    monkeypatch.setenv("BOTGRPO_JUDGE_MODEL", "smollm2")
    done = subprocess.run(
        [sys.executable, "-m", "botgrpo_cli", "setup", "judge"], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert "json_schema: the server enforces JSON schemas" in done.stdout
    assert "prompt tokens" in done.stdout
    assert json.dumps(done.stdout).count("sample") == 1
