"""Every recipe in the package: it loads at every scale, and says of every key what it is and whose value it has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from pydantic_core import PydanticUndefined

from botgrpo_cli.recipe.load import load_recipe
from botgrpo_cli.recipe.schema import RecipeFileKeys, schema_of
from botgrpo_cli.recipe.shipped import scale_file, shipped_dir, shipped_names
from botgrpo_cli.recipe.typed import dotted_keys, expected, field_at
from botgrpo_cli.recipe.yaml_strict import Mapping, Scalar, read_yaml
from botgrpo_cli.tasks.aime.task import AimeTask
from botgrpo_cli.tasks.react.task import ReactTask
from tests.recipe.helpers import load, write
from tests.recipes import AimeRecipe, ReactRecipe

REACT, AIME = (schema_of(task.keys, task.rewards).file for task in (ReactTask, AimeTask))
FILES = [
    path
    for path in sorted(shipped_dir().rglob("*.yaml"))
    if path.parent.name not in ("studies", "sweeps", "accelerate")
]
# Of both tasks; the name is that of the file.
KEYS = list(dict.fromkeys(key for recipe in (ReactRecipe, AimeRecipe) for key in dotted_keys(recipe) if key != "name"))


def walk(tree: Mapping, prefix: str = ""):
    for name, node in tree.items.items():
        key = f"{prefix}{name}"
        yield key, node
        if isinstance(node, Mapping):
            yield from walk(node, f"{key}.")


def read(path: Path) -> Mapping:
    problems = []
    tree = read_yaml(path, path.name, problems)
    assert problems == []
    return tree


def comment_above(lines: list[str], line: int) -> str:
    """The block of comment lines right above line `line` (from 1), joined."""
    indent = re.match(" *", lines[line - 1]).group()
    parts = []
    for text in reversed(lines[: line - 1]):
        if not text.startswith(f"{indent}# "):
            break
        parts.insert(0, text.removeprefix(f"{indent}# "))
    return " ".join(parts)


def test_there_are_recipes():
    assert "react_qwen" in shipped_names()
    assert {path.name for path in FILES} >= {"react_qwen.yaml", "tiny.yaml", "small.yaml", "paper.yaml"}


@pytest.mark.parametrize("scale", ["paper", "small", "tiny"])
@pytest.mark.parametrize("name", shipped_names())
def test_loads_at_every_scale_with_the_prompts_there_are(name, scale):
    loaded = load_recipe(name, scale=scale)
    assert (loaded.recipe.name, loaded.recipe.scale, loaded.notes) == (name, scale, ())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_comment_above_every_key(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    for key, node in walk(read(path)):
        line = node.mark.line
        assert re.match(rf" *{key.rpartition('.')[2]}:", lines[line - 1]), f"{key} needs a line of its own"
        comment = comment_above(lines, line)
        found = re.fullmatch(r"(.{8,}[.:]) \[(.+)\]", comment)
        assert found, f"{path.name}:{line}: {key}: no comment of the form `What it is. [what it takes; …; ours]`"
        parts = found.group(2).split("; ")
        assert parts[-1] in ("paper", "ours"), f"{path.name}:{line}: {key}: whose value is it?"
        known = re.sub(r"^scales(\.\w+\.?)?", "", key)
        if isinstance(node, Mapping):
            assert parts[0] == "section" or known == "policy.lora"
        if known and parts[0] != "section":
            check_bracket(f"{path.name}:{line}: {key}", AIME if path.name.startswith("aime") else REACT, known, parts)


def check_bracket(place: str, schema: type[RecipeFileKeys], key: str, parts: list[str]) -> None:
    """What the bracket says of type and default is what the schema says."""
    info = field_at(schema, key.split("."))
    assert parts[0] == expected(info), place
    default = next(part for part in parts if "default" in part)
    if info.default is PydanticUndefined:
        assert default == "no default", place
    elif default != "default: this text":
        word = default.removeprefix("default ")
        value = float(word) if isinstance(info.default, float) else yaml.safe_load(word)
        assert value == info.default, place


BASES = ("react_qwen", "aime_qwen")  # the second for the keys that only its task has


def test_the_recipes_that_others_extend_hold_every_key():
    keys = [key for name in BASES for key, _ in walk(read(shipped_dir() / f"{name}.yaml"))]
    assert set(KEYS) <= {re.sub(r"^scales\.\w+\.", "", key) for key in keys}
    plain = {key for key in keys if not key.startswith("scales")}
    # null stands for adapters at the paper's scale, so that their keys can only stand below a scale
    assert set(KEYS) - plain == {f"policy.lora.{key}" for key in ("rank", "alpha", "targets", "adapter")}


@pytest.mark.parametrize("scale", ["paper", "small", "tiny"])
def test_the_overlays_name_their_scale(scale):
    assert read(scale_file(scale)).items["scale"].text == scale


def test_the_first_line_is_a_title():
    for name in shipped_names():
        assert re.match(r"# \w.{20,}\.\n", (shipped_dir() / f"{name}.yaml").read_text(encoding="utf-8"))


def test_no_shipped_recipe_extends_by_path():
    for name in shipped_names():  # `botgrpo recipes copy` would break it
        parent = read(shipped_dir() / f"{name}.yaml").items.get("extends")
        assert parent is None or parent.text in shipped_names()


def test_readme_has_every_key_with_the_value_and_source_of_the_file():
    paths = [shipped_dir() / f"{name}.yaml" for name in BASES]
    files = [(path.read_text(encoding="utf-8").splitlines(), dict(walk(read(path)))) for path in paths]
    rows = {}
    for line in (shipped_dir() / "README.md").read_text(encoding="utf-8").splitlines():
        if line.startswith(("| `", "| **`")):
            key, *cells = [cell.strip() for cell in line.strip("|").split("|")]
            rows[key.strip("*`")] = cells
    assert set(rows) == set(KEYS)
    for key, (meaning, _unit, value, source, why) in rows.items():
        assert min(len(meaning), len(why)) > 8, key
        lines, node = next(((lines, tree[key]) for lines, tree in files if key in tree), (None, None))
        if node is None:
            continue
        assert source == comment_above(lines, node.mark.line).rstrip("]").rpartition("; ")[2], key
        if isinstance(node, Scalar) and key != "task.instruction":
            assert value == f"`{node.text}`", key


def test_the_example_in_the_readme_works(tmp_path):
    text = (shipped_dir() / "README.md").read_text(encoding="utf-8")
    path = write(tmp_path, re.search(r"```yaml\n(.*?)```", text, re.DOTALL).group(1))
    assert load(path).recipe.training.steps == 100
    assert load(path, scale="tiny").recipe.training.steps == 20
    assert load(path, scale="tiny").recipe.policy.model == "tiny:react-qwen2"


def test_the_recipes_in_the_package_win_over_the_checkout(tmp_path, monkeypatch):
    monkeypatch.setattr("botgrpo_cli.__file__", str(tmp_path / "botgrpo_cli" / "__init__.py"))
    assert shipped_dir() == tmp_path / "recipes"
    write(tmp_path, "# A recipe.\n{}", "botgrpo_cli/_recipes/mine.yaml")
    assert shipped_dir() == tmp_path / "botgrpo_cli" / "_recipes"
    assert shipped_names() == ["mine"]
