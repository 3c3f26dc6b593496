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
from tests.program import botgrpo

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


DOCS = sorted((ROOT / "docs").glob("*.md"))
TINY = ("--set", "policy.model=tiny:aime-qwen2", "--set", "training.threads=1", "--steps", "1")


def blocks_of(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def python_blocks() -> list[str]:
    """But for the file of reward functions."""
    return [block for block in blocks_of(README, "python") if not block.startswith("# sums.py")]


def test_the_own_task_works_as_printed(tmp_path):
    (functions,) = [block for block in blocks_of(README, "python") if block.startswith("# sums.py")]
    (recipe,) = [block for block in blocks_of(README, "yaml") if block.startswith("# sums.yaml")]
    (tmp_path / "sums.py").write_text(functions)
    (tmp_path / "sums.yaml").write_text(recipe)
    rows = [f'{{"prompt": "{a} + {a} =", "answer": {2 * a}}}\n' for a in range(60)]
    (tmp_path / "sums.jsonl").write_text("".join(rows))
    done = botgrpo("train", "sums.yaml", *TINY, "--dry-run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "nothing was trained or written" in done.stdout


def test_the_class_in_the_docs_works_as_printed(tmp_path):
    (code,) = blocks_of((ROOT / "docs" / "tasks.md").read_text(encoding="utf-8"), "python")
    (tmp_path / "short.py").write_text(code)
    sizes = "sampling: {prompts: 2, group_size: 4, max_new_tokens: 16}\ntraining: {micro_batch: 8}\n"
    (tmp_path / "short.yaml").write_text("task: {name: ./short.py}\nevaluation: {prompts: 2}\n" + sizes)
    done = botgrpo("train", "short.yaml", *TINY, "--out", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "held-out short rate" in done.stdout


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
    for text in (README, *(path.read_text(encoding="utf-8") for path in DOCS)):
        used = {*re.findall(r"^botgrpo ([a-z]+)", text, re.MULTILINE), *re.findall(r"`botgrpo ([a-z]+)", text)}
        assert used <= there


def test_files_that_the_readme_shows_are_there():
    for path in (ROOT / "README.md", ROOT / "examples" / "README.md", *DOCS):
        for target in re.findall(r"\]\((?!http)([^)#]+)\)", path.read_text(encoding="utf-8")):
            assert (path.parent / target).exists(), f"{path.name}: {target}"
