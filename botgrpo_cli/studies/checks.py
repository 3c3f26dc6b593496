"""What the keys of a study must fit together: arms, baseline, metrics, seeds, and that arms can be compared at all."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from botgrpo_cli.errors import InputError, nearest
from botgrpo_cli.recipe.errors import Mark, Problem
from botgrpo_cli.recipe.files import word_at
from botgrpo_cli.recipe.schema import Recipe
from botgrpo_cli.recipe.typed import Leaf, Section, either
from botgrpo_cli.recipe.yaml_strict import quote
from botgrpo_cli.studies.draft import Draft
from botgrpo_cli.studies.schema import StudyKeys
from botgrpo_cli.tasks.registry import task_of

if TYPE_CHECKING:
    from botgrpo_cli.studies.load import Arm

NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,59}")
PASS = re.compile(r"pass@([1-9][0-9]*)")
COMMON = ("reward", "local_mean", "truncated", "length", "format_rate")
SHARED = ("task.name", "evaluation", "sampling.prompts", "training.steps")


@dataclass(frozen=True)
class Given:
    """A study file as far as it could be read."""

    keys: StudyKeys
    whole: Draft
    drafts: Mapping[str, Draft]  # the arms, as the file has them
    loaded: Sequence[Arm]  # those that have a recipe
    read: Mapping[str, Recipe]  # recipes by arm, as far as they could be read
    chosen: tuple[str, ...]  # those that are to run

    def mark(self, key: str) -> Mark:
        value = self.whole.typed.items.get(key)
        return value.mark if value is not None else self.whole.mark

    def parts(self) -> Iterator[tuple[str, Draft]]:
        """The study and its arms, each with what stands before its keys in messages."""
        yield "", self.whole
        yield from ((f"arms.{name}.", draft) for name, draft in self.drafts.items())


def problems(given: Given, seeds: Sequence[int] | None) -> list[Problem]:
    """Everything that more than one key tells."""
    every = (
        _scales(given),
        _seeds(given, seeds),
        _baselines(given),
        _metrics(given),
        _kinds(given),
        _comparable(given),
    )
    return [problem for found in every for problem in found]


def choose(asked: Sequence[str] | None, there: list[str], study: str, problems: list[Problem]) -> list[str]:
    """The arms that `--arms` names; all of them without it."""
    for name in asked or ():
        if name not in there and there:
            text = f"The study {study} has no arm {quote(name)}; expected {either(there)}.{nearest(name, there)}"
            problems.append(Problem(Mark("--arms"), "", text))
    return [name for name in there if asked is None or name in asked]


def name_problems(name: str, mark: Mark) -> Iterator[Problem]:
    """An arm's name becomes the name of a folder."""
    if not NAME.fullmatch(name):
        text = f"Found the name {quote(name)}; expected small letters, digits, '.', '_' and '-'."
        yield Problem(mark, f"arms.{name}", text)


def value_of(section: Section, key: str) -> Any:
    """What a draft says at a key; None where it says nothing."""
    leaf = section.items.get(key)
    return leaf.value if isinstance(leaf, Leaf) else None


def baseline_of(name: str, draft: Section, typed: Section) -> str | None:
    """The arm that one is compared with: its own choice, else the study's; nobody is compared with themselves."""
    chosen = value_of(draft, "baseline") or value_of(typed, "baseline")
    return None if chosen == name else chosen


def _scales(given: Given) -> Iterator[Problem]:
    there = list(Recipe.model_fields["scale"].annotation.__args__)
    for scale in given.keys.at:
        if scale not in there:
            text = f"Found {quote(scale)}; expected some of {', '.join(there)}.{nearest(scale, there)}"
            yield Problem(given.mark("at"), "at", text)
    scales = {arm.recipe.scale for arm in given.loaded}
    if scales - set(given.keys.at):
        text = f"The study's arms do not differ at scale {scales.pop()}; expected {either(given.keys.at)}."
        yield Problem(given.mark("at"), "at", text)


def _seeds(given: Given, asked: Sequence[int] | None) -> Iterator[Problem]:
    for mark, key, seeds in ((Mark("--seeds"), "", asked), (given.mark("seeds"), "seeds", given.keys.seeds)):
        if seeds is None:
            continue
        if not seeds or min(seeds) < 0 or len(set(seeds)) < len(seeds):
            yield Problem(mark, key, f"Found {list(seeds)}; expected different integers of at least 0.")
    for change in (change for _, draft in given.parts() for change in draft.changes.values()):
        if seed := word_at(change.tree, "training", "seed"):
            text = "Every arm gets the study's seeds; expected `seeds:` at the top, or --seeds."
            yield Problem(seed.mark, f"{change.prefix}.training.seed", text)


def _baselines(given: Given) -> Iterator[Problem]:
    there = list(given.drafts)
    for place, draft in given.parts():
        section = draft.typed
        name = value_of(section, "baseline")
        if name is not None and name not in there:
            text = f"Found {quote(name)}; expected an arm of this study: {either(there)}.{nearest(name, there)}"
            yield Problem(section.items["baseline"].mark, f"{place}baseline", text)


def _metrics(given: Given) -> Iterator[Problem]:
    mark, names = given.mark("metrics"), given.keys.metrics
    if not names or len(set(names)) < len(names):
        yield Problem(mark, "metrics", f"Found {names}; expected different names of metrics.")
    if not given.keys.thresholds or any(not 0 < level <= 1 for level in given.keys.thresholds):
        text = f"Found {given.keys.thresholds}; expected shares above 0, at most 1."
        yield Problem(given.mark("thresholds"), "thresholds", text)
    for arm, recipe in given.read.items():
        if not recipe.task.name:
            continue  # an unknown task, which is said
        task = task_of(recipe)
        logged = task.metrics(recipe)
        known = (*(names if logged is None else logged), *COMMON)
        for name in names:
            if name not in known:
                text = f"Found {quote(name)}, which the task {task.name} does not log; expected one of "
                yield Problem(mark, "metrics", f"{text}{', '.join(known)}.{nearest(name, known)}")
            elif (k := PASS.fullmatch(name)) and int(k[1]) > recipe.evaluation.samples:
                text = f"{name} needs at least {k[1]} samples a prompt, and evaluation.samples of the arm {arm} is"
                yield Problem(mark, "metrics", f"{text} {recipe.evaluation.samples}.")
            elif why := task.why_not(recipe, name):
                yield Problem(mark, "metrics", f"{name} has no value in the arm {arm}: {why}.")


def _kinds(given: Given) -> Iterator[Problem]:
    keys = given.keys
    for name in keys.draw or ():
        if name not in keys.metrics:
            text = (
                f"Found {quote(name)}; expected some of `metrics`: {either(keys.metrics)}.{nearest(name, keys.metrics)}"
            )
            yield Problem(given.mark("draw"), "draw", text)
    if keys.kind == "panels" and keys.panels == "metric" and len(keys.draw or ()) < 2:
        yield Problem(given.mark("draw"), "draw", "A panel a metric needs at least two metrics in `draw`.")
    if (keys.kind == "winrate") != (keys.winrate is not None):
        text = "expected the section `winrate:` with kind: winrate, and only with it."
        yield Problem(
            given.mark("winrate" if keys.winrate else "kind"), "winrate", f"Found one without the other; {text}"
        )
    elif keys.winrate is not None:
        there = list(given.drafts)
        if keys.winrate.arm not in there:
            text = f"Found {quote(keys.winrate.arm)}; expected an arm of this study: {either(there)}."
            yield Problem(given.mark("winrate"), "winrate.arm", f"{text}{nearest(keys.winrate.arm, there)}")
        elif keys.winrate.arm not in given.chosen or len(given.chosen) < 2:
            text = f"A comparison needs {keys.winrate.arm} and another arm; found {', '.join(given.chosen) or 'none'}."
            yield Problem(Mark("--arms"), "", text)
        else:
            for recipe in (arm.recipe for arm in given.loaded[:1]):
                try:
                    task_of(recipe).comparison(recipe)
                except InputError as error:
                    yield Problem(given.mark("kind"), "kind", f"Found winrate. {error}")


def _comparable(given: Given) -> Iterator[Problem]:
    """Arms share prompts, held-out set and length, what they start from is that of their recipe, and no two are the
    same run."""
    seen: dict[str, str] = {}
    for arm in given.loaded if given.loaded and given.loaded[0].recipe.scale in given.keys.at else ():
        first = given.loaded[0]
        prompt_keys = task_of(first.recipe).prompt_keys
        for key in (*SHARED, *("task" if name == "*" else f"task.{name}" for name in prompt_keys)):
            one, other = _at(first.recipe, key), _at(arm.recipe, key)
            if one != other:
                text = f"Found {_short(other)} at {key}, and {_short(one)} in the arm {first.name}; expected the same."
                yield Problem(given.drafts[arm.name].mark, f"arms.{arm.name}", text)
        what = arm.recipe.model_copy(update={"name": ""}).model_dump_json()
        if what in seen:
            text = f"Found the same run as the arm {seen[what]} at scale {arm.recipe.scale}; expected a change."
            yield Problem(given.drafts[arm.name].mark, f"arms.{arm.name}", text)
        seen.setdefault(what, arm.name)


def _at(recipe: Recipe, key: str) -> Any:
    value: Any = recipe
    for name in key.split("."):
        value = getattr(value, name)
    return value


def _short(value: Any) -> str:
    return quote(str(value), 120)
