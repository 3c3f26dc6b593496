"""What the keys of a study must fit together: arms, baseline, metrics, seeds, and that arms can be compared at all."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from botgrpo_cli.errors import nearest
from botgrpo_cli.recipe.errors import Mark, Problem
from botgrpo_cli.recipe.schema import Recipe
from botgrpo_cli.recipe.typed import Leaf, Section, either
from botgrpo_cli.recipe.yaml_strict import quote
from botgrpo_cli.studies.schema import StudyKeys

if TYPE_CHECKING:
    from botgrpo_cli.studies.load import Arm

NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,59}")
PASS = re.compile(r"pass@([1-9][0-9]*)")
COMMON = ("reward", "local_mean", "truncated", "length", "format_rate")
METRICS = {  # held-out metrics that a task logs; a task that is not here is not checked
    "react": (
        *("compile_rate", "lint_clean_rate", "lint_errors", "lint_warnings", "blank_rate", "hollow_rate"),
        *("judge_code_score", "judge_vlm_score"),
        *(f"term_{name}" for name in ("format", "clean_lines", "compile", "lint", "content", "code_judge", "vlm")),
    ),
    "aime": (
        *("solved", "parsed_rate", "status_no_box", "status_unclosed", "status_not_int", "status_multi"),
        *("step_score", "first_error", "steps", "pass@1", "pass@2", "pass@4", "pass@8"),
        *(f"term_{name}" for name in ("outcome", "format", "steps")),
    ),
}
RENDERED = ("blank_rate", "hollow_rate")
SHARED = ("task.name", "task.prompts", "task.problems", "evaluation", "sampling.prompts", "training.steps")


@dataclass(frozen=True)
class Given:
    """A study file as far as it could be read."""

    keys: StudyKeys
    typed: Section
    drafts: Mapping[str, Section]  # the arms, as the file has them
    loaded: Sequence[Arm]  # those that have a recipe
    chosen: tuple[str, ...]  # those that are to run

    def mark(self, key: str) -> Mark:
        value = self.typed.items.get(key)
        return value.mark if value is not None else self.typed.mark


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
    for place, section in (("", given.typed), *((f"arms.{name}.", draft) for name, draft in given.drafts.items())):
        for key, changes in _changes(section):
            training = changes.items.get("training")
            if isinstance(training, Section) and "seed" in training.items:
                mark = training.items["seed"].mark
                text = "Every arm gets the study's seeds; expected `seeds:` at the top, or --seeds."
                yield Problem(mark, f"{place}{key}.training.seed", text)


def _changes(section: Section) -> Iterator[tuple[str, Section]]:
    if isinstance(own := section.items.get("set"), Section):
        yield "set", own
    if isinstance(blocks := section.items.get("scales"), Section):
        for scale, block in blocks.items.items():
            if isinstance(block, Section):
                yield f"scales.{scale}", block


def _baselines(given: Given) -> Iterator[Problem]:
    there = list(given.drafts)
    for place, section in (("", given.typed), *((f"arms.{name}.", draft) for name, draft in given.drafts.items())):
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
    for arm in given.loaded:
        known = (*METRICS.get(arm.recipe.task.name, names), *COMMON)
        for name in names:
            if name not in known:
                text = f"Found {quote(name)}, which the task {arm.recipe.task.name} does not log; expected one of "
                yield Problem(mark, "metrics", f"{text}{', '.join(known)}.{nearest(name, known)}")
            elif (k := PASS.fullmatch(name)) and int(k[1]) > arm.recipe.evaluation.samples:
                text = f"{name} needs at least {k[1]} samples a prompt, and evaluation.samples of the arm {arm.name} is"
                yield Problem(mark, "metrics", f"{text} {arm.recipe.evaluation.samples}.")
            elif name in RENDERED and not arm.recipe.reward.vlm.rendered:
                text = (
                    f"{name} is logged only where pages are drawn; the arm {arm.name} needs reward.vlm.measure: true."
                )
                yield Problem(mark, "metrics", text)


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
        elif any(arm.recipe.task.name != "react" for arm in given.loaded):
            yield Problem(given.mark("kind"), "kind", "Found winrate; apps are compared, so the task must be react.")


def _comparable(given: Given) -> Iterator[Problem]:
    """Arms share prompts, held-out set and length, what they start from is that of their recipe, and no two are the
    same run."""
    seen: dict[str, str] = {}
    for arm in given.loaded if given.loaded and given.loaded[0].recipe.scale in given.keys.at else ():
        first = given.loaded[0]
        for key in SHARED:
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
