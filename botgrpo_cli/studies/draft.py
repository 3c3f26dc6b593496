"""The parts of a study's file: its own keys, its arms, and what both change of the recipe.

What is changed of the recipe is typed where the recipe is loaded, by the sections of its task.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel

from botgrpo_cli.errors import nearest
from botgrpo_cli.recipe.errors import Mark, Problem
from botgrpo_cli.recipe.load import SCALES, Change
from botgrpo_cli.recipe.typed import Section, either, type_section
from botgrpo_cli.recipe.yaml_strict import Mapping, Node, Scalar

CHANGES = ("set", "scales")


@dataclass(frozen=True)
class Draft:
    """A study, or an arm of one, as its file has it. `changes` by the scale at which they hold; None: at every one."""

    typed: Section  # its keys without the changes
    changes: dict[str | None, Change] = field(default_factory=dict)

    @property
    def mark(self) -> Mark:
        return self.typed.mark

    def at(self, scale: str) -> Iterator[Change]:
        """The changes in their order; those of other scales are only checked."""
        for block, change in self.changes.items():
            applies = block in (None, scale)
            yield Change(change.tree, change.folder, change.prefix, applies)


def read_draft(tree: Mapping, keys: type[BaseModel], folder: Path, problems: list[Problem], prefix: str = "") -> Draft:
    """Its own keys, typed; what they are not is noted."""
    own = {name: node for name, node in tree.items.items() if name not in (*CHANGES, "arms")}
    typed = type_section(Mapping(own, tree.mark, tree.key_marks), keys, problems, prefix, also=(*CHANGES, "arms"))
    return Draft(typed, dict(_changes(tree, folder, problems, f"{prefix}." if prefix else "")))


def _changes(tree: Mapping, folder: Path, problems: list[Problem], prefix: str) -> Iterator[tuple[str | None, Change]]:
    for name in CHANGES:
        node = tree.items.get(name)
        if node is None or _is_null(node):
            continue
        key = f"{prefix}{name}"
        if not isinstance(node, Mapping):
            problems.append(Problem(node.mark, key, "Found a value; expected keys of the recipe below it."))
        elif name == "set":
            yield None, Change(node, folder, key)
        else:
            yield from _blocks(node, folder, problems, key)


def _blocks(node: Mapping, folder: Path, problems: list[Problem], key: str) -> Iterator[tuple[str, Change]]:
    for scale, block in node.items.items():
        if scale not in SCALES:
            text = f"Found an unknown key; expected {either(list(SCALES))}.{nearest(scale, SCALES)}"
            problems.append(Problem(block.mark, f"{key}.{scale}", text))
        elif isinstance(block, Mapping):
            yield scale, Change(block, folder, f"{key}.{scale}")
        elif not _is_null(block):
            problems.append(Problem(block.mark, f"{key}.{scale}", "Found a value; expected keys of the recipe."))


def _is_null(node: Node) -> bool:
    return isinstance(node, Scalar) and node.is_null
