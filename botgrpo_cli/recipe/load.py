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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from pydantic import ValidationError

from botgrpo_cli.errors import nearest
from botgrpo_cli.recipe.checks import Counts, as_problem, count_check, cross_check, prompt_counts
from botgrpo_cli.recipe.dump import dump_recipe
from botgrpo_cli.recipe.errors import Mark, Problem, RecipeError
from botgrpo_cli.recipe.files import RecipeFile, read_chain, read_overlay
from botgrpo_cli.recipe.layers import (
    Change,
    Named,
    TypedFile,
    finish,
    option,
    scalar_tree,
    task_in_force,
    tasks_of,
    type_change,
    type_file,
)
from botgrpo_cli.recipe.schema import Recipe
from botgrpo_cli.recipe.shipped import find_recipe, shown
from botgrpo_cli.recipe.typed import Leaf, Section, either, expected, field_at, holds_scalars_only, in_free_section
from botgrpo_cli.recipe.yaml_strict import Mapping as Tree
from botgrpo_cli.recipe.yaml_strict import Scalar, parse_yaml, quote

__all__ = ["Change", "LoadedRecipe", "dump_recipe", "load_recipe"]

SCALES = get_args(Recipe.model_fields["scale"].annotation)


@dataclass(frozen=True)
class LoadedRecipe:
    """A recipe and where it came from.

    `sources[key]` is the place that set a dotted key; defaults are not in it. `notes` are sentences for the reader:
    keys of the file that gave way to what the recipe it extends says for the scale. `changes` are the values that the
    `changes` of the call set, by dotted key.
    """

    recipe: Recipe
    sources: Mapping[str, Mark]
    path: Path
    notes: tuple[str, ...] = ()
    changes: Mapping[str, Any] = field(default_factory=dict)


def load_recipe(
    name_or_path: str | Path,
    *,
    scale: str | None = None,
    changes: Sequence[Change] = (),
    sets: Sequence[str] = (),
    seed: int | None = None,
    steps: int | None = None,
    method: str | None = None,
    counts: Counts = prompt_counts,
) -> LoadedRecipe:
    """Load, overlay and check a recipe; nothing is written or started.

    `changes` are keys of another file (an arm of a study), over the layers of the recipe's own. `sets`
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
    tasks = tasks_of(chain, problems)
    final = tasks[-1]
    for change in changes:
        final = task_in_force(change.tree, change.folder, final, problems, change.prefix)
    for text in sets:
        key, _, value = text.partition("=")
        if key.strip() == "task.name":
            final = task_in_force(option("--set", "task.name", value).tree, Path(), final, problems)
    nearest_first = list(zip(chain, tasks, strict=True))[::-1]  # the order in which problems are told
    files = [type_file(file, own, final, problems) for file, own in nearest_first][::-1]
    changed = Section({}, Mark(shown(path)))
    for change in changes:
        typed = type_change(change, final, problems)
        changed = _merge(changed, typed) if change.applies else changed
    layers = [*_file_layers(chain, files, asked, final, problems), changed]
    layers += [type_change(_set_change(text, final, problems), final, problems) for text in sets]
    options = [
        option(name, key, str(value))
        for name, key, value in (
            ("--seed", "training.seed", seed),
            ("--steps", "training.steps", steps),
            ("--method", "method.name", method),
        )
        if value is not None
    ]
    layers += [type_change(change, final, problems) for change in options]
    merged = Section({"name": Leaf(path.stem, Mark(shown(path)))}, Mark(shown(path)))
    for layer in layers:
        merged = _merge(merged, layer)
    merged = finish(merged, final)
    sources = dict(_sources(merged))
    recipe = _build(merged, final, sources, problems)
    if recipe is not None:
        _cross(recipe, sources, shown(path), counts, problems)
    if recipe is None or problems:
        raise RecipeError(problems, read=recipe)
    notes = _notes(chain[-1], files[-1], merged, recipe.scale) if len(chain) > 1 else []
    notes += [
        f"{file.shown}: its `task:` and `reward:` are of the task {own.name} and are left out; this recipe's is "
        f"{final.name}."
        for file, own in zip(chain, tasks, strict=True)
        if own != final and {"task", "reward"} & file.tree.items.keys()
    ]
    return LoadedRecipe(recipe, sources, path, tuple(notes), {key: leaf.value for key, leaf in _leaves(changed)})


def _scale_option(scale: str | None, problems: list[Problem]) -> str | None:
    if scale is None or scale in SCALES:
        return scale
    hint = nearest(scale, SCALES)
    problems.append(Problem(Mark("--scale"), "scale", f"Found {quote(scale)}; expected {either(list(SCALES))}.{hint}"))
    return None


def _file_layers(
    chain: list[RecipeFile], files: list[TypedFile], asked: str | None, final: Named, problems: list[Problem]
) -> list[Section]:
    """Layers 1 to 3. `chain` runs from the far end of `extends:` to the recipe itself."""
    stated = next((word for file in reversed(chain) if (word := file.scale) and word.text in SCALES), None)
    scale = asked or (stated.text if stated is not None else "paper")
    resolved = next((file for file in chain if file.resolved), None)
    if resolved is not None:
        pinned = resolved.scale.text if resolved.scale else "paper"
        if scale != pinned:
            mark = Mark("--scale") if asked else stated.mark if stated is not None else resolved.tree.mark
            text = (
                f"Found {scale}, but {resolved.shown} is resolved at {pinned}; expected {pinned}, or its original "
                "recipe."
            )
            problems.append(Problem(mark, "scale", text))
    plain = [_without_name(file.keys) for file in files[:-1]] + [file.keys for file in files[-1:]]
    blocks = [file.scales[scale] for file in files if scale in file.scales]
    overlay = [] if resolved is not None else [type_change(Change(read_overlay(scale, problems)), final, problems)]
    place = stated.mark if stated is not None and stated.text == scale else Mark("--scale" if asked else "default")
    return [*plain, *overlay, *blocks, Section({"scale": Leaf(scale, place)}, place)]


def _without_name(keys: Section) -> Section:
    """A recipe that extends another doesn't take its name."""
    return Section({key: value for key, value in keys.items.items() if key != "name"}, keys.mark)


def _set_change(text: str, final: Named, problems: list[Problem]) -> Change:
    """What one `--set` sets; nothing when it is none, which is noted."""
    mark, nothing = Mark("--set"), Change(Tree({}, Mark("--set")))
    key, equals, value = text.partition("=")
    path = key.strip().split(".")
    if not equals or not all(path):
        problems.append(Problem(mark, "", f"Found {quote(text)}; expected key.sub=value, as in training.steps=20."))
        return nothing
    if path[0] in ("scale", "scales", "extends", "resolved"):
        instead = "use --scale" if path[0] == "scale" else "it can only stand in a file"
        problems.append(Problem(mark, path[0], f"This key can't be set here; {instead}."))
        return nothing
    model = final.schema.recipe
    info = field_at(model, path)
    # A key that holds one value takes the text as it stands, so that braces and colons need no second quoting.
    plain = holds_scalars_only(info) if info is not None else not in_free_section(model, path)
    node = Scalar(value, True, mark) if plain else parse_yaml(value, "--set", problems, option_key=".".join(path))
    return Change(scalar_tree(path, node)) if node is not None else nothing


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


def _notes(file: RecipeFile, typed: TypedFile, merged: Section, scale: str) -> list[str]:
    """Which plain keys of `file` an overlay of `scale` has changed: a surprise to whoever wrote them."""
    wanted, got = dict(_leaves(typed.keys)), dict(_leaves(merged))
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


def _build(merged: Section, final: Named, sources: Mapping[str, Mark], problems: list[Problem]) -> Recipe | None:
    """The recipe without the keys that have problems; None when a key that must be there is not."""
    try:
        return final.schema.recipe.model_validate(_plain(merged))
    except ValidationError as error:
        bad = _bad_keys(problems)
        for item in error.errors():
            path = [str(part) for part in item["loc"]]
            key = ".".join(path)
            info = field_at(final.schema.recipe, path)
            mark = next((sources[up] for up in _upwards(path) if up in sources), merged.mark)
            if key not in bad:
                wanted = f"expected {expected(info)}" if info is not None else item["msg"]
                problems.append(Problem(mark, key, f"The key is missing; {wanted}."))
    return None


def _bad_keys(problems: list[Problem]) -> set[str]:
    """Keys with a problem, those of `scales:` blocks and of arms as the keys that they would have set."""
    return {re.sub(r"^(arms\.[^.]+\.)?(set|scales\.\w+)\.", "", problem.key) for problem in problems}


def _upwards(path: list[str]) -> list[str]:
    return [".".join(path[:end]) for end in range(len(path), 0, -1)]


def _cross(recipe: Recipe, sources: Mapping[str, Mark], fallback: str, counts: Counts, problems: list[Problem]) -> None:
    """Adds what the keys say together, unless one of them has a problem of its own."""
    bad = _bad_keys(problems)
    if "task.name" in bad or any(not problem.key and problem.mark.file[:2] != "--" for problem in problems):
        return  # the task, or a file that could not be read at all: what it says is not known
    there = counts(recipe)
    for finding in [*cross_check(recipe), *(count_check(recipe, *there) if there else [])]:
        if not bad.intersection(finding[0]):
            problems.append(as_problem(finding, sources, fallback))
