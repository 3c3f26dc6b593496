"""The layers of a recipe, each typed by the task in whose recipe it stands.

What a file says in `task:` and `reward:` belongs to the task that is in force there. When what extends it is of
another task, those two sections are checked and left out: a recipe for an own task may extend a shipped one for
everything else.
"""

from __future__ import annotations

import typing
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from botgrpo_cli.errors import InputError
from botgrpo_cli.recipe.errors import Mark, Problem
from botgrpo_cli.recipe.files import RecipeFile, word_at
from botgrpo_cli.recipe.schema import Schema, schema_of
from botgrpo_cli.recipe.section import Placed, RewardSection, TaskSection
from botgrpo_cli.recipe.typed import Leaf, Section, type_section
from botgrpo_cli.recipe.yaml_strict import Mapping as Tree
from botgrpo_cli.recipe.yaml_strict import Scalar
from botgrpo_cli.tasks.base import Task
from botgrpo_cli.tasks.registry import DEFAULT, find_task, shipped_tasks

OWN = ("task", "reward")  # the sections that each task has of its own


@dataclass(frozen=True)
class Change:
    """Keys that something else than a recipe file sets: an arm of a study, an option.

    `prefix` is where they stand in their file, for messages; what does not apply (at another scale) is only checked.
    """

    tree: Tree
    folder: Path = Path()
    prefix: str = ""
    applies: bool = True


@dataclass(frozen=True)
class Named:
    """The task in force at some layer; `task` is None where its name means nothing, which is noted already."""

    task: type[Task] | None
    name: str

    @property
    def schema(self) -> Schema:
        if self.task is None:
            return schema_of(TaskSection, RewardSection)
        return schema_of(self.task.keys, self.task.rewards)


def default_task() -> Named:
    return Named(find_task(DEFAULT)[0], DEFAULT)


def task_in_force(tree: Tree, folder: Path, before: Named, problems: list[Problem], prefix: str = "") -> Named:
    """The task that `tree` names, else the one before."""
    word = word_at(tree, "task", "name")
    if word is None:
        return before
    try:
        return Named(*find_task(word.text, folder))
    except InputError as error:
        key = f"{prefix}.task.name" if prefix else "task.name"
        problems.append(Problem(word.mark, key, str(error)))
        return Named(None, word.text)


def tasks_of(chain: Sequence[RecipeFile], problems: list[Problem]) -> list[Named]:
    """The task in force in each file of a chain, which runs from the far end of `extends:` to the recipe itself."""
    found: list[Named] = []
    for file in chain:
        before = found[-1] if found else default_task()
        found.append(task_in_force(file.tree, file.path.parent, before, problems))
    return found


@dataclass(frozen=True)
class TypedFile:
    """The plain keys of a file, and its `scales:` blocks."""

    keys: Section
    scales: dict[str, Section]


def type_file(file: RecipeFile, own: Named, final: Named, problems: list[Problem]) -> TypedFile:
    """Everything wrong in it is noted, in the blocks of the other scales too."""
    tree = _without_strangers(file.tree, own, problems, quietly=file.resolved)
    if isinstance(blocks := tree.items.get("scales"), Tree):
        cleaned = {
            scale: _without_strangers(block, own, problems, f"scales.{scale}") if isinstance(block, Tree) else block
            for scale, block in blocks.items.items()
        }
        tree = replace(tree, items=tree.items | {"scales": replace(blocks, items=cleaned)})
    for scale, block in (blocks.items if isinstance(blocks, Tree) else {}).items():
        if isinstance(block, Tree) and (word := word_at(block, "task", "name")):
            text = "A recipe is of one task at every scale; expected `task: {name: ...}` outside `scales:`."
            problems.append(Problem(word.mark, f"scales.{scale}.task.name", text))
    typed = type_section(tree, own.schema.file, problems).items
    blocks, _, _ = (typed.pop(key, None) for key in ("scales", "extends", "resolved"))
    scales = blocks.items if isinstance(blocks, Section) else {}
    foreign = own != final
    return TypedFile(
        _general(Section(typed, Mark(file.shown)), foreign),
        {scale: _general(block, foreign) for scale, block in scales.items() if isinstance(block, Section)},
    )


def type_change(change: Change, final: Named, problems: list[Problem]) -> Section:
    tree = _without_strangers(change.tree, final, problems, change.prefix)
    return type_section(tree, final.schema.recipe, problems, change.prefix)


def finish(merged: Section, final: Named) -> Section:
    """Names and paths as they hold from any folder."""
    merged = _placed(merged, final.schema.recipe)
    task = merged.items.get("task")
    if isinstance(task, Section) and isinstance(named := task.items.get("name"), Leaf):
        task = Section(task.items | {"name": Leaf(final.name, named.mark)}, task.mark)
        return Section(merged.items | {"task": task}, merged.mark)
    return merged


def _general(section: Section, foreign: bool) -> Section:
    """Without what is of another task than the recipe."""
    if not foreign:
        return section
    return Section({key: value for key, value in section.items.items() if key not in OWN}, section.mark)


def _without_strangers(
    tree: Tree, own: Named, problems: list[Problem], prefix: str = "", *, quietly: bool = False
) -> Tree:
    """`tree` without the keys of other tasks: they would change nothing. They are a problem, but for a resolved recipe,
    which earlier versions wrote with the keys of every task. Where the task is unknown, so are all of its keys."""
    items = dict(tree.items)
    for section, part in _parts(own):
        node = items.get(section)
        if not isinstance(node, Tree):
            continue
        if own.task is None:
            del items[section]
            continue
        kept = {}
        for name, value in node.items.items():
            other = next(
                (task for task in shipped_tasks() if name in dict(_parts_of(task))[section].model_fields), None
            )
            if name in part.model_fields or other is None:
                kept[name] = value
            elif not quietly:
                key = ".".join(filter(None, (prefix, section, name)))
                text = (
                    f"This key is of the task '{other.name}' and changes nothing for '{own.task.name}'; leave it out."
                )
                problems.append(Problem(value.mark, key, text))
        items[section] = replace(node, items=kept)
    return replace(tree, items=items)


def _parts(own: Named) -> list[tuple[str, type[BaseModel]]]:
    return _parts_of(own.task) if own.task else [("task", TaskSection), ("reward", RewardSection)]


def _parts_of(task: type[Task]) -> list[tuple[str, type[BaseModel]]]:
    return [("task", task.keys), ("reward", task.rewards)]


def _placed(section: Section, model: type[BaseModel]) -> Section:
    items: dict[str, Any] = {}
    for name, value in section.items.items():
        info = model.model_fields.get(name)
        below = list(typing.get_args(info.annotation) or (info.annotation,)) if info else []
        if isinstance(value, Section):
            inner = next((m for m in below if isinstance(m, type) and issubclass(m, BaseModel)), None)
            items[name] = _placed(value, inner) if inner else value
        elif info and isinstance(value.value, str) and _is_place(info):
            items[name] = Leaf(_absolute(value), value.mark)
        else:
            items[name] = value
    return Section(items, section.mark)


def _is_place(info: FieldInfo) -> bool:
    marks = list(info.metadata)
    for member in typing.get_args(info.annotation):
        marks += getattr(member, "__metadata__", ())
    return any(isinstance(mark, Placed) for mark in marks)


def _absolute(leaf: Leaf) -> str:
    """A path that is there, from any folder; another text (the id of a hub data set) stays."""
    folder = Path(leaf.mark.file).parent if leaf.mark.line is not None else Path()
    path = folder / Path(leaf.value).expanduser()
    return str(path.absolute()) if path.exists() else leaf.value


def scalar_tree(path: Sequence[str], node: Any) -> Tree:
    """`node` below a path of keys."""
    for name in reversed(path):
        node = Tree({name: node}, node.mark, {name: node.mark})
    return node


def option(option: str, key: str, value: str) -> Change:
    """What an option of the command line sets."""
    return Change(scalar_tree(key.split("."), Scalar(value, True, Mark(option))))
