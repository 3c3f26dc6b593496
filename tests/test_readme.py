"""What the README says is run: its Python blocks, and every botgrpo command in it is one that exists."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import typer

from botgrpo_cli.app import app
from botgrpo_cli.methods.advantages import bag_of_tokens

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def python_blocks() -> list[str]:
    return re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_the_bag_with_and_without_the_package_is_the_same():
    blocks = python_blocks()
    assert len(blocks) == 3
    names: dict = {}
    exec(blocks[0], names)
    whole = names["advantages"]
    exec(blocks[1], names)
    torch.testing.assert_close(whole, names["advantages"], rtol=0, atol=1e-4)
    assert torch.equal(whole, bag_of_tokens(names["rewards"], names["mask"], names["group"]))


@pytest.mark.slow
def test_the_example_for_trl_runs_as_printed(tmp_path):
    pytest.importorskip("trl", reason="TRL is an extra: pip install 'botgrpo[trl]'")
    example = python_blocks()[2]
    assert "BagOfTokensTrainer" in example
    done = subprocess.run([sys.executable, "-c", example], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "train_runtime" in done.stdout


def test_commands_in_the_readme_exist():
    there = set(typer.main.get_command(app).commands)
    used = set(re.findall(r"^botgrpo ([a-z]+)", README, re.MULTILINE)) | set(re.findall(r"`botgrpo ([a-z]+)", README))
    assert used
    assert used <= there


def test_files_that_the_readme_shows_are_there():
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
