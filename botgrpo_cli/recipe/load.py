"""A recipe from its layers. Later layers win:

1. the files, from the far end of the `extends:` chain to the recipe itself, their plain keys;
2. `scales/<scale>.yaml` of the shipped recipes, what holds for every recipe at that scale;
3. the `scales: {<scale>: …}` blocks of the files, in the same order as 1;
4. what an arm of a study changes;
5. `--set key.sub=value`, in the order given;
6. `--seed`, `--steps` and `--method`.

The scale is `--scale`, else the nearest `scale:` key of the chain, else `paper`. A file with `resolved: true`, as it
lies in every run's folder, is final: it has been through 2 and 3 already and stays at its scale.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from botgrpo_cli.recipe.checks import Counts, as_problem, count_check, cross_check, prompt_counts
from botgrpo_cli.recipe.dump import dump_recipe
from botgrpo_cli.recipe.errors import Mark, Problem, RecipeError
from botgrpo_cli.recipe.files import RecipeFile, read_chain, read_overlay
from botgrpo_cli.recipe.schema import Recipe
from botgrpo_cli.recipe.shipped import find_recipe, shown
from botgrpo_cli.recipe.typed import (
    Leaf,
    Section,
    expected,
    field_at,
    holds_scalars_only,
    in_free_section,
    type_section,
)
from botgrpo_cli.recipe.yaml_strict import Mapping as Tree
from botgrpo_cli.recipe.yaml_strict import Node, Scalar, parse_yaml, quote

__all__ = ["LoadedRecipe", "dump_recipe", "load_recipe"]


@dataclass(frozen=True)
class LoadedRecipe:
    """A recipe and where it came from.

    `sources[key]` is the place that set a dotted key; defaults are not in it. `notes` are sentences for the reader:
    keys of the file that gave way to what the recipe it extends says for the scale.
    """

    recipe: Recipe
    sources: Mapping[str, Mark]
    path: Path
    notes: tuple[str, ...] = ()


def load_recipe(
    name_or_path: str,
    *,
    scale: str | None = None,
    overrides: Sequence[Section] = (),
    sets: Sequence[str] = (),
    seed: int | None = None,
    steps: int | None = None,
    method: str | None = None,
    counts: Counts = prompt_counts,
) -> LoadedRecipe:
    """Load, overlay and check a recipe; nothing is written or started.

    `overrides` are typed sections of another file (an arm of a study), over the layers of the recipe's own. `sets`
    holds `key.sub=value` texts. `counts` says how many training and held-out prompts a recipe's task has, or
    None where that can't be known yet.
    Raises RecipeError with every problem that was found.
    """
    problems: list[Problem] = []
    path, missing = find_recipe(str(name_or_path), Path())
    if path is None:
        raise RecipeError([Problem(Mark(str(name_or_path)), "", missing)])
    chain = read_chain(path, problems)
    asked = _scale_option(scale, problems)
    layers = [*_file_layers(chain, asked, problems), *overrides]
    layers += [_set_layer(text, problems) for text in sets]
    for option, key, value in (
        ("--seed", "training.seed", seed),
        ("--steps", "training.steps", steps),
        ("--method", "method.name", method),
    ):
        if value is not None:
            layers.append(_option_layer(option, key, str(value), problems))
    merged = Section({"name": Leaf(path.stem, Mark(shown(path)))}, Mark(shown(path)))
    for layer in layers:
        merged = _merge(merged, layer)
    sources = dict(_sources(merged))
    recipe = _build(merged, sources, problems)
    if recipe is not None:
        _cross(recipe, sources, shown(path), counts, problems)
    if recipe is None or problems:
        raise RecipeError(problems)
    notes = _notes(chain[-1], merged, recipe.scale) if len(chain) > 1 else []
    return LoadedRecipe(recipe, sources, path, tuple(notes))


def _scale_option(scale: str | None, problems: list[Problem]) -> str | None:
    if scale is None:
        return None
    layer = _option_layer("--scale", "scale", scale, problems)
    return scale if layer.items else None


def _file_layers(chain: list[RecipeFile], asked: str | None, problems: list[Problem]) -> list[Section]:
    """Layers 1 to 3. `chain` runs from the far end of `extends:` to the recipe itself."""
    stated = next((leaf for file in reversed(chain) if isinstance(leaf := file.keys.items.get("scale"), Leaf)), None)
    scale = asked or (stated.value if stated is not None else "paper")
    final = next((file for file in chain if file.resolved), None)
    if final is not None:
        own = final.keys.items.get("scale")
        pinned = own.value if isinstance(own, Leaf) else "paper"
        if scale != pinned:
            mark = Mark("--scale") if asked else stated.mark if stated is not None else final.keys.mark
            text = (
                f"Found {scale}, but {final.shown} is resolved at {pinned}; expected {pinned}, or its original recipe."
            )
            problems.append(Problem(mark, "scale", text))
    plain = [_without_name(file.keys) for file in chain[:-1]] + [file.keys for file in chain[-1:]]
    blocks = [file.scales[scale] for file in chain if scale in file.scales]
    overlay = [] if final is not None else [read_overlay(scale, problems)]
    place = stated.mark if stated is not None and stated.value == scale else Mark("--scale" if asked else "default")
    return [*plain, *overlay, *blocks, Section({"scale": Leaf(scale, place)}, place)]


def _without_name(keys: Section) -> Section:
    """A recipe that extends another doesn't take its name."""
    return Section({key: value for key, value in keys.items.items() if key != "name"}, keys.mark)


def _set_layer(text: str, problems: list[Problem]) -> Section:
    mark = Mark("--set")
    key, equals, value = text.partition("=")
    path = key.strip().split(".")
    if not equals or not all(path):
        problems.append(Problem(mark, "", f"Found {quote(text)}; expected key.sub=value, as in training.steps=20."))
        return Section({}, mark)
    if path[0] in ("scale", "scales", "extends", "resolved"):
        instead = "use --scale" if path[0] == "scale" else "it can only stand in a file"
        problems.append(Problem(mark, path[0], f"This key can't be set here; {instead}."))
        return Section({}, mark)
    info = field_at(Recipe, path)
    # A key that holds one value takes the text as it stands, so that braces and colons need no second quoting.
    plain = holds_scalars_only(info) if info is not None else not in_free_section(Recipe, path)
    node = Scalar(value, True, mark) if plain else parse_yaml(value, "--set", problems, option_key=key.strip())
    return _nested(path, node, problems) if node is not None else Section({}, mark)


def _option_layer(option: str, key: str, value: str, problems: list[Problem]) -> Section:
    return _nested(key.split("."), Scalar(value, True, Mark(option)), problems)


def _nested(path: list[str], node: Node, problems: list[Problem]) -> Section:
    for name in reversed(path):
        node = Tree({name: node}, node.mark, {name: node.mark})
    return type_section(node, Recipe, problems)


def _merge(below: Section, above: Section) -> Section:
    """`above` over `below`: sections are merged key by key, anything else is replaced."""
    items = dict(below.items)
    for name, value in above.items.items():
        old = items.get(name)
        items[name] = _merge(old, value) if isinstance(old, Section) and isinstance(value, Section) else value
    return Section(items, above.mark)


def _sources(section: Section, prefix: str = "") -> list[tuple[str, Mark]]:
    found = []
    for name, value in section.items.items():
        found.append((f"{prefix}{name}", value.mark))
        if isinstance(value, Section):
            found += _sources(value, f"{prefix}{name}.")
    return found


def _leaves(section: Section, prefix: str = "") -> list[tuple[str, Leaf]]:
    found = []
    for name, value in section.items.items():
        found += [(f"{prefix}{name}", value)] if isinstance(value, Leaf) else _leaves(value, f"{prefix}{name}.")
    return found


def _plain(section: Section) -> dict[str, Any]:
    return {name: _plain(value) if isinstance(value, Section) else value.value for name, value in section.items.items()}


def _notes(file: RecipeFile, merged: Section, scale: str) -> list[str]:
    """Which plain keys of `file` an overlay of `scale` has changed: a surprise to whoever wrote them."""
    wanted, got = dict(_leaves(file.keys)), dict(_leaves(merged))
    notes = []
    for key, leaf in wanted.items():
        other = got.get(key)
        if other is None or other.value == leaf.value or other.mark.line is None or other.mark.file == file.shown:
            continue
        notes.append(
            f"{leaf.mark}: {key}: {leaf.value} gives way to {other.value} from {other.mark} at scale {scale}; "
            f"put it below `scales: {scale}:` to keep it."
        )
    return notes


def _build(merged: Section, sources: Mapping[str, Mark], problems: list[Problem]) -> Recipe | None:
    """The recipe without the keys that have problems; None when a key that must be there is not."""
    try:
        return Recipe.model_validate(_plain(merged))
    except ValidationError as error:
        bad = _bad_keys(problems)
        for item in error.errors():
            path = [str(part) for part in item["loc"]]
            key = ".".join(path)
            info = field_at(Recipe, path)
            mark = next((sources[up] for up in _upwards(path) if up in sources), merged.mark)
            if key not in bad:
                wanted = f"expected {expected(info)}" if info is not None else item["msg"]
                problems.append(Problem(mark, key, f"The key is missing; {wanted}."))
    return None


def _bad_keys(problems: list[Problem]) -> set[str]:
    """Keys with a problem, those of `scales:` blocks as the keys that they would have set."""
    return {re.sub(r"^scales\.\w+\.", "", problem.key) for problem in problems}


def _upwards(path: list[str]) -> list[str]:
    return [".".join(path[:end]) for end in range(len(path), 0, -1)]


def _cross(recipe: Recipe, sources: Mapping[str, Mark], fallback: str, counts: Counts, problems: list[Problem]) -> None:
    """Adds what the keys say together, unless one of them has a problem of its own."""
    bad = _bad_keys(problems)
    if any(not problem.key and problem.mark.file[:2] != "--" for problem in problems):
        return  # a file could not be read at all: what it says is not known
    there = counts(recipe)
    for finding in [*cross_check(recipe), *(count_check(recipe, *there) if there else [])]:
        if not bad.intersection(finding[0]):
            problems.append(as_problem(finding, sources, fallback))
