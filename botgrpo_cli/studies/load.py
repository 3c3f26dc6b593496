"""A study from its file: every arm's recipe is resolved, so that whatever is wrong shows before anything runs.

An arm is the study's recipe at the scale asked for, with these changes, later ones winning: the study's `set:`, the
study's `scales:` block of the scale, the arm's `set:`, the arm's `scales:` block. They win over the recipe's own
`scales:` blocks, as `--set` does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from botgrpo_cli.recipe.checks import Counts, prompt_counts
from botgrpo_cli.recipe.errors import Mark, Problem, RecipeError
from botgrpo_cli.recipe.files import read_chain
from botgrpo_cli.recipe.load import SCALES, load_recipe
from botgrpo_cli.recipe.schema import Recipe
from botgrpo_cli.recipe.shipped import find_recipe, shown
from botgrpo_cli.recipe.typed import Leaf, Section, expected
from botgrpo_cli.recipe.yaml_strict import Mapping, Node, Scalar, read_yaml
from botgrpo_cli.studies import checks
from botgrpo_cli.studies.draft import Draft, read_draft
from botgrpo_cli.studies.schema import ArmKeys, StudyKeys
from botgrpo_cli.studies.shipped import find_study


@dataclass(frozen=True)
class Arm:
    """One line of a study's figure: a recipe, complete but for the seed."""

    name: str
    label: str
    baseline: str | None  # the arm that this one is compared with
    recipe: Recipe
    changes: tuple[str, ...]  # `key.sub=value`, what makes this arm of the study's recipe

    def at(self, seed: int) -> Recipe:
        training = self.recipe.training.model_copy(update={"seed": seed})
        return self.recipe.model_copy(update={"training": training})


@dataclass(frozen=True)
class Study:
    """A study at one scale, checked. `keys.arms` is empty: the arms are here."""

    name: str
    path: Path
    scale: str
    keys: StudyKeys
    seeds: tuple[int, ...]
    arms: tuple[Arm, ...]
    chosen: tuple[str, ...]  # names of the arms to run
    steps: int | None = None  # where they are not the recipe's own

    def arm(self, name: str) -> Arm:
        return next(arm for arm in self.arms if arm.name == name)


def load_study(
    name_or_path: str,
    *,
    scale: str | None = None,
    seeds: Sequence[int] | None = None,
    steps: int | None = None,
    arms: Sequence[str] | None = None,
    counts: Counts = prompt_counts,
) -> Study:
    """Load and check a study; nothing is written or started.

    `arms` names those to run; all of them are checked. Raises RecipeError with every problem that was found.
    """
    problems: list[Problem] = []
    path, missing = find_study(str(name_or_path))
    if path is None:
        raise RecipeError([Problem(Mark(str(name_or_path)), "", missing)], kind="study")
    tree = read_yaml(path, shown(path), problems)
    if tree is None:
        raise RecipeError(problems, kind="study")
    whole = read_draft(tree, StudyKeys, path.parent, problems)
    keys = _keys(whole.typed, "arms" in tree.items, problems)
    drafts = dict(_arms(tree.items.get("arms"), path.parent, problems))
    chosen = checks.choose(arms, list(drafts), path.stem, problems)
    loaded: list[Arm] = []
    read: dict[str, Recipe] = {}  # also of arms that have problems
    for name, draft in drafts.items():
        arm = _load_arm(name, draft, whole, path, scale, steps, counts, problems, read)
        if arm is not None:
            loaded.append(arm)
    if keys is not None:
        given = checks.Given(keys, whole, drafts, loaded, read, tuple(chosen))
        problems += checks.problems(given, seeds)
    if keys is None or problems:
        raise RecipeError(_once(problems), kind="study")
    seeds = keys.seeds if seeds is None else seeds
    return Study(path.stem, path, loaded[0].recipe.scale, keys, tuple(seeds), tuple(loaded), tuple(chosen), steps)


def _keys(typed: Section, arms: bool, problems: list[Problem]) -> StudyKeys | None:
    """The study's own keys; None when one that must be there is not."""
    values = _values(typed) | ({"arms": {}} if arms else {})
    try:
        return StudyKeys.model_validate(values)
    except ValidationError as error:
        bad = {problem.key for problem in problems}
        for item in error.errors():
            key = ".".join(str(part) for part in item["loc"])
            info = StudyKeys.model_fields.get(key)
            if key not in bad:
                wanted = f"expected {expected(info)}" if info is not None else item["msg"]
                problems.append(Problem(typed.mark, key, f"The key is missing; {wanted}."))
    return None


def _values(section: Section) -> dict[str, Any]:
    return {
        name: _values(value) if isinstance(value, Section) else value.value for name, value in section.items.items()
    }


def _arms(node: Node | None, folder: Path, problems: list[Problem]) -> Iterator[tuple[str, Draft]]:
    if node is None:
        return
    if not isinstance(node, Mapping) or not node.items:
        problems.append(Problem(node.mark, "arms", "Found no arms; expected `name: …`, one for each run to compare."))
        return
    for name, arm in node.items.items():
        key = f"arms.{name}"
        if isinstance(arm, Scalar) and arm.is_null:  # an arm that changes nothing
            arm = Mapping({}, arm.mark)
        if not isinstance(arm, Mapping):
            problems.append(Problem(arm.mark, key, "Found a value; expected the keys of an arm, or nothing."))
            continue
        problems += checks.name_problems(name, arm.mark)
        yield name, read_draft(arm, ArmKeys, folder, problems, key)


def _load_arm(
    name: str,
    draft: Draft,
    whole: Draft,
    study: Path,
    scale: str | None,
    steps: int | None,
    counts: Counts,
    problems: list[Problem],
    read: dict[str, Recipe],
) -> Arm | None:
    own = draft.typed.items.get("recipe")
    named = own or whole.typed.items.get("recipe")
    if not isinstance(named, Leaf) or named.value is None:
        return None  # noted already, or it will be
    path, missing = find_recipe(named.value, study.parent)
    if path is None:
        problems.append(Problem(named.mark, "recipe", missing))
        return None
    at = scale or _own_scale(path)
    asked = [change for source in (whole, draft) for change in source.at(at)]
    try:
        found = load_recipe(path, scale=scale, changes=asked, steps=steps, counts=counts)
    except RecipeError as error:
        problems += error.problems
        if error.read is not None:
            read[name] = error.read
        return None
    read[name] = found.recipe
    changes = ({"recipe": named.value} if own else {}) | dict(found.changes)
    return Arm(
        name=name,
        label=checks.value_of(draft.typed, "label") or name,
        baseline=checks.baseline_of(name, draft.typed, whole.typed),
        recipe=found.recipe,
        changes=tuple(f"{key}={value}" for key, value in changes.items()),
    )


def _own_scale(path: Path) -> str:
    """The scale that a recipe takes when none is asked for."""
    for file in reversed(read_chain(path, [])):
        if (word := file.scale) and word.text in SCALES:
            return word.text
    return "paper"


def _once(problems: list[Problem]) -> list[Problem]:
    """A problem of what all arms share is met once an arm."""
    return list({str(problem): problem for problem in problems}.values())
