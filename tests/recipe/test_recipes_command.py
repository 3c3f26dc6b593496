"""botgrpo recipes list | show | copy."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from botgrpo_cli.commands.recipes import app
from botgrpo_cli.errors import InputError
from botgrpo_cli.recipe.shipped import shipped_dir, shipped_names
from tests.recipe.helpers import load, write


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_list_names_every_recipe():
    lines = run("list").splitlines()
    assert {name for name in shipped_names() if any(line.startswith(name) for line in lines)} == set(shipped_names())
    assert "BoT-GRPO trains a policy" in " ".join(lines)


def test_show_prints_a_recipe_that_loads_again(tmp_path):
    text = run("show", "react_qwen", "--scale", "tiny", "--set", "training.steps=7")
    assert "\x1b" not in text
    assert "# from --set\n  steps: 7\n" in text
    again = load(write(tmp_path, text)).recipe
    assert again == load("react_qwen", scale="tiny", sets=["training.steps=7"]).recipe


def test_show_of_a_bad_recipe_is_wrong_input(tmp_path):
    with pytest.raises(InputError, match=r"training\.stepz"):
        run("show", write(tmp_path, "training: {stepz: 1}"))


def test_copy(tmp_path):
    run("copy", "react_qwen", str(tmp_path / "mine.yaml"))
    assert (tmp_path / "mine.yaml").read_bytes() == (shipped_dir() / "react_qwen.yaml").read_bytes()
    assert load(str(tmp_path / "mine.yaml"), scale="tiny").recipe.name == "mine"
    run("copy", "react_qwen", str(tmp_path))
    assert (tmp_path / "react_qwen.yaml").exists()


def test_copy_of_a_file_for_accelerate_says_how_it_is_used(tmp_path):
    for name in ("ddp", "fsdp"):
        said = run("copy", f"accelerate/{name}", str(tmp_path))
        assert f"accelerate launch --config_file {tmp_path / name}.yaml -m botgrpo_cli train RECIPE" in said
        assert (tmp_path / f"{name}.yaml").read_bytes() == (shipped_dir() / "accelerate" / f"{name}.yaml").read_bytes()


def test_copy_never_overwrites(tmp_path):
    (tmp_path / "mine.yaml").write_text("precious")
    with pytest.raises(InputError, match="exists already and was left as it is"):
        run("copy", "react_qwen", str(tmp_path / "mine.yaml"))
    assert (tmp_path / "mine.yaml").read_text() == "precious"


def test_copy_to_nowhere_and_of_nothing(tmp_path):
    with pytest.raises(InputError, match=r"can't be written: No such file or directory"):
        run("copy", "react_qwen", str(tmp_path / "no" / "mine.yaml"))
    with pytest.raises(InputError, match=r"There is no shipped recipe 'react_qwn'.*Did you mean 'react_qwen'\?"):
        run("copy", "react_qwn", str(tmp_path / "mine.yaml"))
    assert list(tmp_path.iterdir()) == []
