"""The real `botgrpo winrate`: a run, a model, folders of components; real compiler, real browser, a judge over HTTP."""

from __future__ import annotations

import json
import shutil
from random import Random

import pytest

from botgrpo_cli.records.manifest import read_manifest, run_digest
from botgrpo_cli.tasks.react.prompts import load_prompts
from botgrpo_cli.tiny.react import tasks, write
from botgrpo_cli.winrate.tables import read_table
from tests.judges.server import behave, chat, running
from tests.program import FEW, botgrpo, cold
from tests.real.test_react_render import needs_browser

pytestmark = [pytest.mark.slow, needs_browser]
APP = "export default function App() {\n  return <main><h1>%s</h1></main>;\n}\n"
BROKEN = "export default function App() {\n  return <main>;\n}\n"
*PROMPTS, LAST = (prompt.id for prompt in load_prompts("generated", "held-out")[:4])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two folders of components for the same three prompts; those in `rich` do what was asked."""
    folder = tmp_path_factory.mktemp("winrate")
    for name in ("rich", "poor"):
        (folder / name).mkdir()
    for prompt, task in zip(PROMPTS, tasks("held-out"), strict=False):
        (folder / "rich" / f"{prompt}.jsx").write_text(write(task, Random(0)))
        (folder / "poor" / f"{prompt}.jsx").write_text(APP % prompt)
    (folder / "rich" / f"{LAST}.md").write_text(f"An app:\n```jsx\n{APP % 'Last'}```\n")
    (folder / "poor" / f"{LAST}.tsx").write_text(BROKEN)
    return folder


def first(request):
    """The judge that always prefers what it is shown first."""
    form = request.get("response_format", {}).get("json_schema", {}).get("schema", {})
    return (
        chat(json.dumps({"why": "", "better": "first"})) if "better" in form.get("properties", {}) else behave(request)
    )


def test_an_always_first_judge_over_http_gives_exactly_one_half(folder):
    with running() as server:
        server.answering = first
        # Without the pair that is decided without a judge.
        (folder / "three").mkdir()
        for prompt in PROMPTS:
            shutil.copy(folder / "poor" / f"{prompt}.jsx", folder / "three")
        options = ("--judge", "openai:m", "--set", f"judge.url={server.url}", "--set", "judge.cache=false")
        done = cold("winrate", "rich", "three", "--out", "half", *options, cwd=folder)
        assert done.returncode == 0, done.stderr
        asked = sum("better" in json.dumps(request.get("response_format", {})) for request in server.requests)
    [row] = read_table(folder / "half" / "winrate.csv").to_dict("records")
    assert (row["rate"], row["tie"], row["n"], row["first_position_rate"], row["flip_rate"]) == (0.5, 1.0, 3, 1.0, 1.0)
    assert row["judge"] == "openai:m"
    assert asked == 12
    manifest = json.loads((folder / "half" / "manifest.json").read_text())
    assert manifest["heuristic"] == []
    assert manifest["judge"]["model"] == "m"


def test_both_orders_give_w_and_one_minus_w(folder):
    rates = {}
    for a, b in (("rich", "poor"), ("poor", "rich")):
        done = botgrpo("winrate", a, b, "--judge", "heuristic", "--out", f"{a}-first", cwd=folder)
        assert done.returncode == 0, done.stderr
        assert "The judge is heuristic" in done.stdout
        rates[a] = read_table(folder / f"{a}-first" / "winrate.csv")["rate"][0]
    assert rates["rich"] == 1 - rates["poor"] > 0.5
    made = {file.name for file in (folder / "rich-first").iterdir()}
    assert made == {"winrate.csv", "pairs.jsonl", "gallery.html", "manifest.json", "figure.png", "figure.svg"}
    assert (folder / "rich-first" / "gallery.html").read_text().count("<img ") == 7
    lines = map(json.loads, (folder / "rich-first" / "pairs.jsonl").read_text().splitlines())
    [forfeit] = [line for line in lines if line["forfeit"]]
    assert (forfeit["prompt"], forfeit["a_share"]) == (LAST, 1.0)
    assert forfeit["b"]["problem"].startswith("It does not compile:")


def test_checkpoints_of_a_run_against_the_model_it_started_from(folder):
    keep = ("--set", "checkpoint.every=1", "--set", "checkpoint.keep_last=9", "--set", "training.threads=1")
    done = botgrpo("train", "react_judged", "--scale", "tiny", "--steps", 1, "--out", "run", *FEW, *keep, cwd=folder)
    assert done.returncode == 0, done.stderr
    command = ("winrate", "run", "tiny:react-qwen2", "--checkpoints", "all", "--prompts", 4, "--out", "curve")
    done = botgrpo(*command, "--judge", "heuristic", cwd=folder)
    assert done.returncode == 0, done.stderr
    table = read_table(folder / "curve" / "winrate.csv")
    assert table["step_a"].tolist() == [1]
    assert table["step_b"].isna().all()
    assert table["method_a"].unique().tolist() == ["bot-grpo"]
    sides = read_manifest(folder / "curve")["sides"]
    assert [side["run"] for side in sides] == [run_digest(folder / "run"), None]
    assert (table["n"] + table["invalid"]).tolist() == [4]
    assert "learnt from this same judge (heuristic)" in done.stderr
