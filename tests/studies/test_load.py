"""Study files: every shipped one resolves, and whatever is wrong in one is named with its line before anything runs."""

from __future__ import annotations

import re
from functools import cache

import pytest

from botgrpo_cli.recipe.errors import RecipeError
from botgrpo_cli.recipe.shipped import shipped_dir
from botgrpo_cli.studies import needs
from botgrpo_cli.studies.load import load_study
from botgrpo_cli.studies.shipped import study_names, sweep_names
from tests.recipe.helpers import plenty
from tests.studies.toy import RECIPE, STUDY, write_study

shipped = cache(load_study)
PAPER = {
    *("baselines", "winrate", "base-models", "reward-stack", "aime", "aime-models", "local-strategy", "local-weight"),
    *("step-window", "vlm-stability", "reward-hacking"),
}


def load(path, **options):
    return load_study(str(path), **{"scale": "tiny", "counts": plenty, **options})


def problems(path, **options):
    with pytest.raises(RecipeError) as caught:
        load(path, **options)
    assert str(caught.value).startswith("The study has ")
    return [str(problem).removeprefix(f"{path.parent}/") for problem in caught.value.problems]


def changed(tmp_path, old, new, count=1):
    assert old in STUDY
    return write_study(tmp_path, STUDY.replace(old, new, count))


# --- the shipped ones ------------------------------------------------------------------------------------------------
def test_the_studies_of_the_paper_and_ours():
    assert set(study_names()) == PAPER | {"bag"}


@pytest.mark.parametrize("scale", ["tiny", "small", "paper"])
@pytest.mark.parametrize("name", study_names())
def test_a_shipped_study_resolves_with_different_arms(name, scale):
    if scale == "small" and name in ("base-models", "aime-models"):
        with pytest.raises(RecipeError, match="do not differ at scale small"):
            load_study(name, scale=scale)
        return
    study = shipped(name, scale=scale)
    assert study.scale == scale
    assert study.keys.title
    assert study.keys.paper or study.keys.figure == "ours"
    assert all(arm.recipe.scale == scale for arm in study.arms)
    assert len({arm.recipe.model_dump_json() for arm in study.arms}) == len(study.arms) >= 2
    assert all(arm.baseline for arm in study.arms) is False  # somebody is the baseline


def rates_of(name):
    """The learning rates that each method of a sweep sees."""
    rates = {}
    for arm in load_study(name, scale="tiny").arms:
        rates.setdefault(arm.recipe.method.name, []).append(arm.recipe.training.learning_rate)
        assert arm.label == f"{arm.recipe.training.learning_rate:.0e}".replace("e-0", "e-")
    return rates


@pytest.mark.parametrize("name", [name for name in sweep_names() if not name.endswith("-seeds")])
def test_every_method_of_a_sweep_sees_the_same_rates(name):
    rates = rates_of(name)
    assert len(rates) >= 2
    assert len(set(map(tuple, rates.values()))) == 1
    assert len(rates["grpo"]) == 4


def test_more_seeds_are_of_rates_that_the_sweep_had_and_decide_between_two():
    swept, again = rates_of("learning-rate-react"), rates_of("learning-rate-react-seeds")
    for method, rates in again.items():
        assert len(rates) == 2
        assert set(rates) < set(swept[method])


def test_minutes_are_stated_wherever_a_study_runs():
    for name in study_names():
        keys = shipped(name, scale="tiny").keys
        assert all(getattr(keys.minutes, scale) for scale in keys.at), name


def test_the_estimate_goes_by_the_steps_that_are_asked_for():
    usual, short = shipped("baselines", scale="tiny"), shipped("baselines", scale="tiny", steps=6)
    assert needs.minutes(usual, runs=1) == usual.keys.minutes.tiny
    assert needs.minutes(short, runs=1) == pytest.approx(usual.keys.minutes.tiny / 10)


# --- what a study says -----------------------------------------------------------------------------------------------
def test_arms_are_the_recipe_with_their_changes(tmp_path):
    path = write_study(
        tmp_path,
        STUDY.replace(
            "arms:\n",
            "set:\n  training: {learning_rate: 1e-4}\nscales:\n  tiny:\n    sampling: {group_size: 8}\n"
            "  small:\n    sampling: {group_size: 16}\narms:\n",
        ).replace(GRPO, f"{GRPO}\n      training: {{learning_rate: 2e-4}}"),
    )
    study = load(path, seeds=[3, 1], steps=7)
    assert study.seeds == (3, 1)
    bag, group = study.arms
    assert (bag.recipe.training.learning_rate, group.recipe.training.learning_rate) == (1e-4, 2e-4)
    assert bag.recipe.sampling.group_size == 8
    assert bag.recipe.training.steps == 7
    assert bag.at(3).training.seed == 3
    assert (bag.baseline, group.baseline) == ("grpo", None)
    assert group.changes == ("training.learning_rate=0.0002", "sampling.group_size=8", "method.name=grpo")


def test_an_arm_wins_over_the_scale_blocks_of_its_recipe(tmp_path):
    path = write_study(tmp_path, recipe=RECIPE + "scales:\n  tiny:\n    method: {name: pure}\n")
    assert [arm.recipe.method.name for arm in load(path).arms] == ["bot-grpo", "grpo"]


def test_the_scale_is_the_recipes_own_without_an_option(tmp_path):
    path = write_study(tmp_path, recipe=RECIPE + "scale: tiny\n")
    assert load(path, scale=None).scale == "tiny"
    path.write_text(STUDY.replace("arms:\n", "scales:\n  tiny:\n    sampling: {group_size: 8}\narms:\n"))
    assert load(path, scale=None).arms[0].recipe.sampling.group_size == 8


def test_arms_can_be_chosen(tmp_path):
    path = write_study(tmp_path)
    assert load(path, arms=["grpo"]).chosen == ("grpo",)
    assert len(load(path, arms=["grpo"]).arms) == 2  # all are checked


def test_an_arm_may_change_nothing_or_have_its_own_recipe_and_baseline(tmp_path):
    (tmp_path / "other.yaml").write_text(RECIPE.replace("3e-3", "1e-3"))
    more = "arms:\n  plain:\n  third: {recipe: other.yaml, baseline: plain, label: 3rd}\n"
    bag = "  bot-grpo:\n    set:\n      method: {name: bot-grpo}\n"
    path = write_study(tmp_path, STUDY.replace("arms:\n", more).replace(bag, ""))
    study = load(path)
    assert [arm.name for arm in study.arms] == ["plain", "third", "grpo"]
    third = study.arm("third")
    assert (third.baseline, third.label, third.recipe.training.learning_rate) == ("plain", "3rd", 1e-3)
    assert third.changes == ("recipe=other.yaml",)


# --- what is wrong with one ------------------------------------------------------------------------------------------
METRICS = "metrics: [compile_rate, length]"
BOT, GRPO = "{name: bot-grpo}", "      method: {name: grpo}"
BAD = [
    (METRICS, "metrcs: [length]", "4: metrcs", "Found an unknown key; expected title, .* Did you mean 'metrics'"),
    ("title: Letters\n", "", "title", "The key is missing; expected text"),
    ("recipe: toy.yaml", "recipe: toi.yaml", "3: recipe", "Found no recipe 'toi.yaml'"),
    (BOT, "{name: bot-gpro}", "10: method.name", "Found 'bot-gpro'; .*Did you mean 'bot-grpo'"),
    (BOT, "{nam: bot-grpo}", "10: arms.bot-grpo.set.method.nam", "Found an unknown key.*Did you mean 'name'"),
    (BOT, "{local_weight: high}", "10: arms.bot-grpo.set.method.local_weight", "Found 'high'; expected a number"),
    (f"method: {BOT}", "sampling: {group_size: 5}", "training.micro_batch", "Found 4, which does not divide"),
    ("baseline: grpo", "baseline: gpro", "6: baseline", "Found 'gpro'; expected an arm .*Did you mean 'grpo'"),
    (METRICS, "metrics: [compil_rate]", "4: metrics", "the task react does not log.*Did you mean 'compile_rate'"),
    (
        METRICS,
        "metrics: [blank_rate]",
        "4: metrics",
        "in the arm bot-grpo: it is logged only where pages are drawn, which needs reward.vlm.measure: true",
    ),
    (METRICS, "metrics: []", "4: metrics", r"Found \[\]; expected different names"),
    ("[0.2, 0.5]", "[50]", "5: thresholds", r"Found \[50.0\]; expected shares above 0, at most 1"),
    ("baseline: grpo", "seeds: [0, 0]", "6: seeds", r"Found \[0, 0\]; expected different integers"),
    ("  grpo:\n", "  GRPO 2:\n", "11: arms.GRPO 2", "Found the name 'GRPO 2'; expected small letters"),
    ("{name: grpo}", "{name: bot-grpo}", "11: arms.grpo", "Found the same run as the arm bot-grpo at scale tiny"),
    (GRPO, f"{GRPO}\n      evaluation: {{every: 2}}", "11: arms.grpo", "at evaluation, .* in the arm bot-grpo"),
    (GRPO, "      training: {seed: 3}", "13: arms.grpo.set.training.seed", "Every arm gets the study's seeds"),
    ("baseline: grpo", "kind: curvs", "6: kind", "expected curves, panels, .* Did you mean 'curves'"),
    ("baseline: grpo", "kind: panels", "draw", "A panel a metric needs at least two metrics"),
    ("baseline: grpo", "draw: [lenght]", "6: draw", "expected some of `metrics`: .* Did you mean 'length'"),
    ("baseline: grpo", "kind: winrate", "6: winrate", "Found one without the other"),
    ("baseline: grpo", "kind: winrate\nwinrate: {arm: bot}", "7: winrate.arm", "Found 'bot'; expected an arm"),
    ("baseline: grpo", "at: [tine]", "6: at", "expected some of paper, small, tiny. Did you mean 'tiny'"),
    ("baseline: grpo", "minutes: {tiny: -1}", "6: minutes.tiny", "Found '-1'; expected a number above 0 or null"),
]


@pytest.mark.parametrize(("old", "new", "place", "says"), BAD, ids=[place for _, _, place, _ in BAD])
def test_what_is_wrong_is_named_with_its_line(tmp_path, old, new, place, says):
    found = problems(changed(tmp_path, old, new))
    assert any(re.search(rf"{re.escape(place)}: .*{says}", problem) for problem in found), found


def test_everything_is_said_at_once_and_what_arms_share_once(tmp_path):
    path = write_study(
        tmp_path,
        STUDY.replace("baseline: grpo", "baseline: nobody\nset:\n  sampling: {prompts: many}")
        .replace("{name: bot-grpo}", "{name: nothing}")
        .replace("[compile_rate, length]", "[compile_rate, lenght]"),
    )
    found = problems(path)
    assert len(found) == 4
    for words in ("baseline", "set.sampling.prompts", "method.name", "metrics"):
        assert sum(words in problem for problem in found) == 1, words


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "The file is empty"),
        ("arms: [a, b]\n", "arms: Found no arms; expected `name: …`"),
        ("arms:\n  a: 3\n", "arms.a: Found a value; expected the keys of an arm, or nothing"),
        ("- a\n", "Found a list at the top"),
        ("title: [\n", "not valid YAML"),
    ],
)
def test_a_file_that_is_no_study(tmp_path, text, says):
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    assert any(says in problem for problem in problems(path))


def test_names_and_options(tmp_path):
    with pytest.raises(RecipeError, match=r"Found no study 'baseline'.* Did you mean 'baselines'"):
        load_study("baseline")
    path = write_study(tmp_path)
    assert "Did you mean 'grpo'" in problems(path, arms=["gprpo"])[0]
    assert "--seeds" in problems(path, seeds=[1, 1])[0]
    assert "--seeds" in problems(path, seeds=[])[0]
    assert any("--scale" in problem for problem in problems(path, scale="tin"))
    assert any("--steps" in problem for problem in problems(path, steps=0))


def test_the_example_in_the_readme_works(tmp_path):
    text = (shipped_dir() / "README.md").read_text(encoding="utf-8")
    example = next(block for block in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL) if "arms:" in block)
    path = tmp_path / "rates.yaml"
    path.write_text(example)
    tiny, small = load_study(str(path), scale="tiny"), load_study(str(path), scale="small")
    assert [arm.recipe.training.learning_rate for arm in tiny.arms] == [1e-4, 4e-4]
    assert [arm.recipe.training.learning_rate for arm in small.arms] == [1e-4, 5e-4]
