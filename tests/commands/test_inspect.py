from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from botgrpo_cli.app import app
from botgrpo_cli.errors import InputError


@pytest.fixture
def run(tmp_path):
    row = {"split": "train", "finished": True, "tokens": 3, "prompt": "A counter [bold]", "reward": 1.5}
    row |= {"terms": {"compile": 1.0}, "pieces": ["const x\n", "[red]", ""], "advantages": [1.0, -2.0, 0.5]}
    row |= {"local": [0.0, -1.0, 0.0], "diagnostics": [{"tool": "lint", "line": 1, "message": "unused [x]"}]}
    rows = [{**row, "step": step, "rollout": number} for step in (1, 2) for number in (0, 31)]
    rows += [{"step": 2, "split": "held-out", "rollout": 0}]
    (tmp_path / "samples.jsonl").write_text("".join(json.dumps(each) + "\n" for each in rows))
    return tmp_path


def inspect(run, *options):
    return CliRunner().invoke(app, ["inspect", str(run), *options])


def test_the_last_step_with_every_kept_rollout(run):
    done = inspect(run)
    assert done.exit_code == 0, done.output
    assert done.output.count("step 2, rollout") == 2
    assert "step 1" not in done.output
    assert " +1.00   1  const x\u21b5" in done.output
    assert " -0.75   2  [red]\u25a0" in done.output  # the mean of -2 and 0.5; brackets are text
    assert "lint: unused [x]" in done.output
    assert "A counter [bold]" in done.output


def test_one_rollout_by_its_local_signal(run):
    done = inspect(run, "--step", "1", "--rollout", "31", "--by", "local")
    assert done.output.count("step 1, rollout 31") == 1
    assert "rollout 0," not in done.output
    assert " -0.50   2  [red]" in done.output
    assert "local signal:" in done.output


def test_colour_is_that_of_the_sign(monkeypatch):
    from rich.console import Console

    from botgrpo_cli.commands.inspect import shaded
    from botgrpo_cli.report.tokens import Line, Token

    monkeypatch.delenv("NO_COLOR", raising=False)  # `--no-color` in another test leaves it behind
    console = Console(force_terminal=True, color_system="truecolor", width=80)
    with console.capture() as got:
        console.print(shaded(Line(0, (Token("up", 1.0), Token("down", -1.0))), 1.0))
    assert "48;2;97;168;207mup" in got.get()
    assert "48;2;229;155;97mdown" in got.get()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--step", "7"), "it has steps 1 to 2"),
        (("--rollout", "4"), "kept are 0, 31"),
        (("--by", "advantages"), "Did you mean 'advantage'?"),
    ],
)
def test_what_is_not_there(run, options, words):
    assert words in str(inspect(run, *options).exception)


def test_no_samples(tmp_path):
    done = inspect(tmp_path)
    assert isinstance(done.exception, InputError)
    assert "no samples.jsonl" in str(done.exception)
