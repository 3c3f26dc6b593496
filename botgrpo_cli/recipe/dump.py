"""A resolved recipe as YAML that loads again to an equal recipe."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import yaml

from botgrpo_cli.recipe.errors import Mark
from botgrpo_cli.recipe.schema import Recipe
from botgrpo_cli.recipe.typed import field_at
from botgrpo_cli.recipe.yaml_strict import Mapping as Tree
from botgrpo_cli.recipe.yaml_strict import parse_yaml

HEAD = "# Resolved by botgrpo: every key is final and loads again as it stands, at this scale only.\n"


class _Dumper(yaml.SafeDumper):
    """Texts of several lines become literal blocks."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    # Readers turn NEL and the Unicode line separators into \n outside double quotes, where they are escaped.
    odd = re.search(r"[^\n\x20-\x7e\xa0-\u2027\u202a-\ufefe\U00010000-\U0010ffff]", text)
    style = '"' if odd else "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def dump_recipe(recipe: Recipe, *, sources: Mapping[str, Mark] | None = None) -> str:
    """`recipe` as YAML with `resolved: true`.

    With `sources`, above each key stands what it means and, for a value, which place set it.
    """
    values = recipe.model_dump()
    ordered = {"resolved": True, "name": values.pop("name"), "scale": values.pop("scale"), **values}
    body = yaml.dump(ordered, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)
    return HEAD + (body if sources is None else _explained(body, type(recipe), sources))


def _explained(body: str, model: type[Recipe], sources: Mapping[str, Mark]) -> str:
    tree = parse_yaml(body, "", [])
    lines = body.split("\n")[:-1]
    for line, comment in sorted(_comments(tree, model, sources, ()), reverse=True):
        indent = re.match(" *", lines[line - 1]).group()
        gap = [""] if not indent and line > 1 else []
        lines[line - 1 : line - 1] = [*gap, *(f"{indent}# {part}" for part in comment)]
    return "\n".join(lines) + "\n"


def _comments(
    tree: Tree, model: type[Recipe], sources: Mapping[str, Mark], path: tuple[str, ...]
) -> list[tuple[int, list[str]]]:
    """(line, comment lines) of every key in `tree`."""
    found: list[tuple[int, list[str]]] = []
    for name, node in tree.items.items():
        key = [*path, name]
        info = field_at(model, key)
        if info is None:
            continue
        comment = [" ".join((info.description or "").split())]
        if not isinstance(node, Tree):
            place: Any = sources.get(".".join(key))
            comment.append(f"from {place}" if place else "the default")
        found.append((node.mark.line or 1, comment))
        if isinstance(node, Tree):
            found += _comments(node, model, sources, (*path, name))
    return found
