"""The layers of a recipe, typed values, and YAML 1.1."""

from __future__ import annotations

import os

import pytest

from botgrpo_cli.recipe.dump import dump_recipe
from botgrpo_cli.recipe.errors import RecipeError
from tests.recipe.helpers import load, problems_of, write


def test_layers_in_order(tmp_path):
    write(tmp_path, "training: {steps: 1, kl: 0.1, seed: 1}\nscales: {tiny: {training: {seed: 2}}}", "far.yaml")
    write(tmp_path, "extends: far.yaml\ntraining: {steps: 2, warmup_steps: 1}", "parent.yaml")
    path = write(tmp_path, "extends: ./parent.yaml\ntraining: {steps: 3}\nscales: {tiny: {training: {steps: 4}}}")
    paper, tiny = load(path), load(path, scale="tiny")
    assert (paper.recipe.training.steps, tiny.recipe.training.steps) == (3, 4)
    assert (paper.recipe.training.seed, tiny.recipe.training.seed) == (1, 2)
    assert (tiny.recipe.training.kl, tiny.recipe.training.warmup_steps) == (0.1, 1)
    assert (tiny.recipe.name, tiny.recipe.scale) == ("my", "tiny")
    assert tiny.recipe.policy.dtype == "float32"  # from scales/tiny.yaml
    by_set = load(path, scale="tiny", sets=["training.steps=5", "training.steps=6"])
    assert by_set.recipe.training.steps == 6
    by_option = load(path, scale="tiny", sets=["training.steps=5"], steps=7, seed=8, method="grpo").recipe
    assert (by_option.training.steps, by_option.training.seed, by_option.method.name) == (7, 8, "grpo")


def test_sources_name_the_place_that_won(tmp_path):
    write(tmp_path, "training:\n  kl: 0.1\n  seed: 5", "parent.yaml")
    path = write(tmp_path, "extends: parent.yaml\ntraining:\n  steps: 9")
    sources = load(path, sets=["evaluation.every=2"], seed=1).sources
    assert str(sources["training.kl"]).endswith("parent.yaml:2")
    assert str(sources["training.steps"]).endswith("my.yaml:3")
    assert str(sources["evaluation.every"]) == "--set"
    assert str(sources["training.seed"]) == "--seed"
    assert "training.weight_decay" not in sources


def test_extends_is_relative_to_the_file_and_knows_shipped_names(tmp_path):
    write(tmp_path, "training: {steps: 11}", "base/root.yaml")
    middle = write(tmp_path, "extends: ../base/root.yaml", "deep/middle.yaml")
    assert load(middle).recipe.training.steps == 11
    shipped = load(write(tmp_path, "extends: react_qwen\ntraining: {steps: 12}"))
    assert (shipped.recipe.training.steps, shipped.recipe.sampling.max_new_tokens) == (12, 2048)
    assert shipped.recipe.name == "my"


@pytest.mark.parametrize("length", [1, 2, 3])
def test_circles_are_refused(tmp_path, length):
    for index in range(length):
        write(tmp_path, f"extends: r{(index + 1) % length}.yaml", f"r{index}.yaml")
    (line,) = problems_of(str(tmp_path / "r0.yaml"))
    assert line.startswith(f"r{length - 1}.yaml:1: extends: The recipes extend each other in a circle: ")
    assert line.count(" -> ") == length


def test_a_parent_that_is_missing_or_broken_is_told_with_the_rest(tmp_path):
    found = problems_of(write(tmp_path, "\nextends: react_qwin\nstepz: 1"))
    assert found[0].startswith("my.yaml:2: extends: Found no recipe 'react_qwin'; expected a path or a shipped recipe")
    assert "Did you mean 'react_qwen'?" in found[0]
    assert found[1].startswith("my.yaml:3: stepz")
    write(tmp_path, "training: {steps: -1}", "parent.yaml")
    found = problems_of(write(tmp_path, "extends: parent.yaml\nstepz: 1"))
    assert [line.split(": Found")[0] for line in found] == ["my.yaml:2: stepz", "parent.yaml:1: training.steps"]


def test_the_scale_of_the_file_is_the_default(tmp_path):
    write(tmp_path, "scale: tiny\nscales: {tiny: {training: {steps: 4}}, small: {training: {steps: 5}}}", "parent.yaml")
    path = write(tmp_path, "extends: parent.yaml")
    assert (load(path).recipe.scale, load(path).recipe.training.steps) == ("tiny", 4)
    assert load(path, scale="small").recipe.training.steps == 5
    assert load(path, scale="paper").recipe.training.steps == 60
    assert load(write(tmp_path, "scale: small", "other.yaml")).recipe.scale == "small"


def test_a_key_that_gives_way_to_an_inherited_overlay_is_noted(tmp_path):
    path = write(tmp_path, "extends: react_qwen\ntraining:\n  steps: 7\n  seed: 3")
    assert load(path).notes == ()
    (note,) = load(path, scale="tiny").notes
    assert "my.yaml:3: training.steps: 7 gives way to " in note
    assert "react_qwen.yaml:" in note
    assert "put it below `scales: tiny:`" in note
    assert load(path, scale="tiny", steps=9).notes == ()  # the command line is no surprise


def test_null_replaces_a_section_and_a_section_replaces_null(tmp_path):
    write(tmp_path, "policy: {lora: {rank: 4, alpha: 8}}", "parent.yaml")
    path = write(tmp_path, "extends: parent.yaml")
    assert load(path).recipe.policy.lora.rank == 4
    assert load(path, sets=["policy.lora=null"]).recipe.policy.lora is None
    assert load(path, sets=["policy.lora="]).recipe.policy.lora is None
    again = load(path, sets=["policy.lora=null", "policy.lora.rank=2"]).recipe.policy.lora
    assert (again.rank, again.alpha) == (2, 32.0)  # alpha was dropped with the section
    assert load(path, sets=["policy.lora={rank: 3}"]).recipe.policy.lora.alpha == 8.0
    assert load(path, sets=["policy.lora.targets=[q_proj, v_proj]"]).recipe.policy.lora.targets == ["q_proj", "v_proj"]


SETS = [
    ("training.learning_rate=1e-6", ("training", "learning_rate"), 1e-6),
    ("training.learning_rate=.5", ("training", "learning_rate"), 0.5),
    ("training.kl=0", ("training", "kl"), 0.0),
    ("training.steps=+7", ("training", "steps"), 7),
    ("policy.gradient_checkpointing=true", ("policy", "gradient_checkpointing"), True),
    ("policy.model=no", ("policy", "model"), "no"),
    ("policy.model=1e-6", ("policy", "model"), "1e-6"),
    ("policy.model=tiny:react-qwen2", ("policy", "model"), "tiny:react-qwen2"),
    ("policy.model=a=b # c", ("policy", "model"), "a=b # c"),
    ("task.instruction={brief}", ("task", "instruction"), "{brief}"),
    ("method.ratio=null", ("method", "ratio"), None),
    ("evaluation.max_new_tokens=32", ("evaluation", "max_new_tokens"), 32),
    ("reward.lint={weight: 0.5}", ("reward", "lint", "weight"), 0.5),
]


@pytest.mark.parametrize(("text", "path", "value"), SETS)
def test_set_is_typed_by_the_schema(tmp_path, text, path, value):
    got = load(write(tmp_path, "training: {micro_batch: 8}"), sets=[text]).recipe
    for name in path:
        got = getattr(got, name)
    assert got == value
    assert type(got) is type(value)


BAD_SETS = [
    ("training.steps", "--set: Found 'training.steps'; expected key.sub=value"),
    ("=3", "--set: Found '=3'; expected key.sub=value"),
    ("training..steps=3", "expected key.sub=value"),
    ("training.stps=3", "--set: training.stps: Found an unknown key; expected steps"),
    ("steps=3", "Did you mean 'training.steps'?"),
    ("training.steps=1e3", "--set: training.steps: Found '1e3'; expected an integer of at least 1. Write 1000."),
    ("training.steps.x=1", "--set: training.steps: Found keys below it; expected an integer"),
    ("training=3", "--set: training: Found '3'; expected a section"),
    ("policy.gradient_checkpointing=no", "expected true or false. Did you mean 'false'?"),
    ("policy.lora={rank: 1, rank: 2}", "--set: policy.lora.rank: This key is there twice; remove one of them."),
    ("policy.lora={rank", "--set: policy.lora: This is not valid YAML"),
    ("policy.lora=&a {}", "--set: policy.lora: Found the anchor &a"),
    ("scale=tiny", "--set: scale: This key can't be set here; use --scale."),
    ("extends=react_qwen", "--set: extends: This key can't be set here"),
]


@pytest.mark.parametrize(("text", "message"), BAD_SETS)
def test_bad_sets(tmp_path, text, message):
    (line,) = problems_of(write(tmp_path, "{}"), sets=[text])
    assert message in line


# What YAML 1.1 reads into a plain scalar must not matter: text is kept, anything else is refused in words.
SURPRISES = ["no", "NO", "off", "on", "yes", "y", "True", "1_000", "0o17", "017", "0x1F", "0b11", "1:30", "190:20:30"]
SURPRISES += [".inf", "-.inf", ".nan", "NaN", "Infinity", "2026-11-29", "2026-11-29 10:00:00", "=", "1e3", "Null"]


@pytest.mark.parametrize("word", SURPRISES)
def test_yaml_1_1_words_stay_text_and_are_no_numbers(tmp_path, word):
    for text in (word, f"'{word}'", f'"{word}"'):
        assert load(write(tmp_path, f"policy: {{model: {text}}}")).recipe.policy.model == word
    assert load(write(tmp_path, "{}"), sets=[f"policy.model={word}"]).recipe.policy.model == word
    for key, kind in (
        ("training.steps", "an integer"),
        ("sampling.temperature", "a number"),  # 1e3 is one, but above the bound
        ("policy.gradient_checkpointing", "true or false"),
    ):
        section, name = key.split(".")
        (line,) = problems_of(write(tmp_path, f"{section}: {{{name}: {word}}}"))
        assert line.startswith(f"my.yaml:1: {key}: Found '{word}'; expected {kind}")
        assert problems_of(write(tmp_path, "{}"), sets=[f"{key}={word}"])[0].startswith(f"--set: {key}: Found '{word}'")


HINTS = {"1_000": "Write 1000.", "0o17": "decimal digits", "017": "leading zero", "0x1F": "decimal", "1:30": "colons"}


@pytest.mark.parametrize(("word", "hint"), HINTS.items())
def test_surprising_numbers_get_a_hint(tmp_path, word, hint):
    (line,) = problems_of(write(tmp_path, f"training: {{steps: {word}}}"))
    assert hint in line


@pytest.mark.parametrize(
    ("text", "value"), [("1e-6", 1e-6), ("1E-6", 1e-6), ("1.e-6", 1e-6), ("0.000001", 1e-6), ("1", 1.0)]
)
def test_floats_are_floats(tmp_path, text, value):
    assert load(write(tmp_path, f"training: {{learning_rate: {text}}}")).recipe.training.learning_rate == value


@pytest.mark.parametrize("text", ["null", "~", ""])
def test_null(tmp_path, text):
    assert load(write(tmp_path, f"method:\n  ratio: {text}")).recipe.method.ratio is None
    quoted = problems_of(write(tmp_path, f"method:\n  ratio: '{text}'"))
    assert "expected token, sequence or null" in quoted[0]
    assert problems_of(write(tmp_path, f"policy:\n  model: {text}"))[0].startswith("my.yaml:2: policy.model: Found ")


def test_quoted_words_are_text(tmp_path):
    recipe = load(write(tmp_path, "policy: {model: 'null', device: \"cpu\"}\nmethod: {name: 'grpo'}")).recipe
    assert (recipe.policy.model, recipe.policy.device, recipe.method.name) == ("null", "cpu", "grpo")


def test_loading_writes_nothing(tmp_path):
    path = write(tmp_path, "training: {steps: 3}")
    before = sorted(os.listdir(tmp_path))
    load(path, scale="tiny")
    with pytest.raises(RecipeError):
        load(path, steps=0)
    assert sorted(os.listdir(tmp_path)) == before


def test_what_trl_is_given_keeps_its_own_types_and_layers_merge(tmp_path):
    text = "extends: react_qwen\ntraining:\n  trl:\n    use_vllm: true\n    vllm_mode: colocate\n    seed_of: '3'\n"
    path = write(tmp_path, text + "    usage: 0.3\n    deepspeed: {zero_optimization: {stage: 2}}\n")
    sets = ("training.trl.vllm_mode=server", "training.trl.top_k=5", "training.trl.stops=[1, a]")
    given = load(path, sets=sets).recipe.training.trl
    assert given == {
        "use_vllm": True,
        "vllm_mode": "server",
        "seed_of": "3",
        "usage": 0.3,
        "deepspeed": {"zero_optimization": {"stage": 2}},
        "top_k": 5,
        "stops": [1, "a"],
    }
    assert load(write(tmp_path, dump_recipe(load(path, sets=sets).recipe), "again.yaml")).recipe.training.trl == given
    assert "expected a section" in problems_of("react_qwen", sets=("training.trl=vllm",))[0]
