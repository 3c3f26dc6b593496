"""One recipe file, its `extends:` chain, and the generic overlay of a scale. What stands in them is not typed yet."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from botgrpo_cli.recipe.errors import Mark, Problem
from botgrpo_cli.recipe.shipped import find_recipe, scale_file, shown
from botgrpo_cli.recipe.yaml_strict import Mapping as Tree
from botgrpo_cli.recipe.yaml_strict import Scalar, read_yaml


@dataclass(frozen=True)
class RecipeFile:
    """One file as it is written, and the words in it that say how to read the others."""

    path: Path
    shown: str
    tree: Tree

    @property
    def resolved(self) -> bool:
        """Whether every key is final, as in a run's folder."""
        word = word_at(self.tree, "resolved")
        return word is not None and word.text == "true"

    @property
    def scale(self) -> Scalar | None:
        return word_at(self.tree, "scale")


def read_recipe_file(path: Path, problems: list[Problem]) -> RecipeFile:
    """Read one file. What is no YAML in it is noted."""
    name = shown(path)
    return RecipeFile(path, name, read_yaml(path, name, problems) or Tree({}, Mark(name)))


def read_chain(path: Path, problems: list[Problem]) -> list[RecipeFile]:
    """The files from the far end of `extends:` to `path` itself. A chain that comes back to itself is a problem."""
    chain = [read_recipe_file(path, problems)]
    while (extends := word_at(chain[0].tree, "extends")) is not None:
        parent, missing = find_recipe(extends.text, chain[0].path.parent)
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


def read_overlay(scale: str, problems: list[Problem]) -> Tree:
    """`scales/<scale>.yaml` of the shipped recipes."""
    path = scale_file(scale)
    return read_yaml(path, shown(path), problems) or Tree({}, Mark(shown(path)))


def word_at(tree: Tree, *path: str) -> Scalar | None:
    """The word that stands at a path of keys; None where there is none, or another kind of value."""
    node = tree
    for name in path[:-1]:
        node = node.items.get(name)
        if not isinstance(node, Tree):
            return None
    found = node.items.get(path[-1])
    return found if isinstance(found, Scalar) and not found.is_null else None
