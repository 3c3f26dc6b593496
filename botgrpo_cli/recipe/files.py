"""One recipe file, its `extends:` chain, and the generic overlay of a scale."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from botgrpo_cli.recipe.errors import Mark, Problem
from botgrpo_cli.recipe.schema import Recipe, RecipeFileKeys
from botgrpo_cli.recipe.shipped import find_recipe, scale_file, shown
from botgrpo_cli.recipe.typed import Leaf, Section, type_section
from botgrpo_cli.recipe.yaml_strict import read_yaml


@dataclass(frozen=True)
class RecipeFile:
    """One file, typed: its plain keys, its `scales:` blocks, and what it extends."""

    path: Path
    shown: str
    keys: Section
    scales: dict[str, Section] = field(default_factory=dict)
    extends: Leaf | None = None
    resolved: bool = False


def read_recipe_file(path: Path, problems: list[Problem]) -> RecipeFile:
    """Read and type one file. Everything wrong in it is noted, in the blocks of the other scales too."""
    name = shown(path)
    tree = read_yaml(path, name, problems)
    if tree is None:
        return RecipeFile(path, name, Section({}, Mark(name)))
    typed = type_section(tree, RecipeFileKeys, problems).items
    blocks, extends, resolved = (typed.pop(key, None) for key in ("scales", "extends", "resolved"))
    scales = blocks.items if isinstance(blocks, Section) else {}
    return RecipeFile(
        path,
        name,
        Section(typed, Mark(name)),
        {scale: block for scale, block in scales.items() if isinstance(block, Section)},
        extends if isinstance(extends, Leaf) and extends.value is not None else None,
        isinstance(resolved, Leaf) and resolved.value,
    )


def read_chain(path: Path, problems: list[Problem]) -> list[RecipeFile]:
    """The files from the far end of `extends:` to `path` itself. A chain that comes back to itself is a problem."""
    chain = [read_recipe_file(path, problems)]
    while (extends := chain[0].extends) is not None:
        parent, missing = find_recipe(extends.value, chain[0].path.parent)
        if parent is None:
            problems.append(Problem(extends.mark, "extends", missing))
            break
        if any(parent.resolve() == file.path.resolve() for file in chain):
            way = " -> ".join([*(file.shown for file in reversed(chain)), shown(parent)])
            text = f"The recipes extend each other in a circle: {way}; expected an end."
            problems.append(Problem(extends.mark, "extends", text))
            break
        chain.insert(0, read_recipe_file(parent, problems))
    return chain


def read_overlay(scale: str, problems: list[Problem]) -> Section:
    """`scales/<scale>.yaml` of the shipped recipes."""
    path = scale_file(scale)
    tree = read_yaml(path, shown(path), problems)
    return Section({}, Mark(shown(path))) if tree is None else type_section(tree, Recipe, problems)
