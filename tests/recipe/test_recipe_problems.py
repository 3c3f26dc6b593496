"""Bad recipes: where each problem is, what was found, what was expected, and the nearest word."""

from __future__ import annotations

import pytest

from botgrpo_cli.errors import InputError
from botgrpo_cli.recipe.checks import check_counts
from botgrpo_cli.recipe.errors import RecipeError
from tests.recipe.helpers import load, problems_of, write
from tests.recipes import ReactRecipe

# text of the file, pieces of the one problem
TABLE = [
    # unknown keys
    ("trainng:\n  steps: 3", ["my.yaml:1: trainng: Found an unknown key", "Did you mean 'training'?"]),
    ("training:\n  stpes: 3", ["my.yaml:2: training.stpes: ", "expected steps, learning_rate", "'steps'?"]),
    ("\nsteps: 3", ["my.yaml:2: steps: ", "Did you mean 'training.steps'?"]),
    ("training.steps: 3", ["my.yaml:1: training.steps: Found an unknown key"]),
    ("scales:\n  tny: {}", ["my.yaml:2: scales.tny: ", "expected paper, small or tiny", "'tiny'?"]),
    ("scales:\n  tiny:\n    training: {stepz: 1}", ["my.yaml:3: scales.tiny.training.stepz: ", "'steps'?"]),
    ("scales:\n  tiny: {scale: small}", ["my.yaml:2: scales.tiny.scale: Found an unknown key"]),
    # types and bounds
    ("training: {steps: many}", ["my.yaml:1: training.steps: Found 'many'; expected an integer of at least 1."]),
    ("training: {steps: 0}", ["Found '0'; expected an integer of at least 1."]),
    ("training: {steps: 60.0}", ["Found '60.0'; expected an integer", "Write 60."]),
    ("training: {steps: 1e2}", ["Found '1e2'; expected an integer", "Write 100."]),
    ("training: {steps: 1.5}", ["Found '1.5'; expected an integer of at least 1."]),
    ('training: {steps: "60"}', ["Found the quoted text '60'; expected an integer", "Write it without quotes."]),
    ("training: {steps: [1]}", ["training.steps: Found a list; expected an integer"]),
    ("training: {steps: {a: 1}}", ["training.steps: Found keys below it; expected an integer"]),
    ("training: {steps: }", ["training.steps: Found nothing; expected an integer"]),
    ("training: {learning_rate: 1e400}", ["expected a number above 0 and at most 1."]),
    ("training:\n  learning_rate: 0,1", ["my.yaml:2: training.learning_rate: ", "The decimal mark is a point."]),
    ("training: {steps: " + "9" * 5000 + "}", ["training.steps: Found '999", "expected an integer"]),
    ("sampling: {temperature: 0}", ["sampling.temperature: Found '0'; expected a number above 0 and at most 5."]),
    ("sampling: {group_size: 1}", ["sampling.group_size: Found '1'; expected an integer of at least 2."]),
    ("reward: {lint: {weight: -1}}", ["reward.lint.weight: Found '-1'; expected a number from 0 to 10."]),
    ("reward: {local: {lint_error: 1.01}}", ["reward.local.lint_error: ", "expected a number from 0 to 1."]),
    ("reward:\n  lint: {}", ["my.yaml:2: reward.lint.weight: The key is missing; expected a number from 0 to 10."]),
    ("method: {clip_low: 1}", ["method.clip_low: ", "expected a number above 0 and below 1 or null."]),
    ("task: {prompts: easy-brief}", ["expected briefs, easy-briefs or generated. Did you mean 'easy-briefs'?"]),
    ("policy: {dtype: Float32}", ["policy.dtype: Found 'Float32'", "Did you mean 'float32'?"]),
    ("policy: {model: null}", ["policy.model: Found 'null' (null); expected text. Quote it to mean the word."]),
    ("policy: {lora: 16}", ["policy.lora: Found '16'; expected a section or null."]),
    ("policy: {lora: {targets: q_proj}}", ["policy.lora.targets: ", "expected all-linear or a list of words."]),
    ("policy: {lora: {targets: [[q]]}}", ["policy.lora.targets: Found a list"]),
    ("policy: {lora: {targets: []}}", ["policy.lora.targets: Found an empty list; expected names of modules"]),
    ("sampling:", ["my.yaml:1: sampling: Found nothing; expected a section. Leave the line out"]),
    ("sampling: [1, 2]", ["my.yaml:1: sampling: Found a list; expected a section"]),
    ("scale: big", ["my.yaml:1: scale: Found 'big'; expected paper, small or tiny."]),
    ("extends: [a]", ["my.yaml:1: extends: Found a list; expected text or null."]),
    # more than one key
    (
        "sampling: {prompts: 4, group_size: 9}",
        [
            "my.yaml:1: training.micro_batch: Found 16, which does not divide the rollouts of a step, ",
            "4 prompts x 9 = 36; expected 12 or 18, or keep 16 and set sampling.prompts to 16.",
        ],
    ),
    (
        "training:\n  micro_batch: 7",
        ["my.yaml:2: training.micro_batch: Found 7", "8 prompts x 8 = 64; expected 4 or 8", "prompts to 7 or 14."],
    ),
    (
        "training: {warmup_steps: 61}",
        ["training.warmup_steps: Found 61, but the run has 60 steps; expected at most 60."],
    ),
    ("task: {instruction: Write it.}", ["task.instruction: Found 'Write it.'; expected a text with {brief}"]),
    ("policy: {device: cudda}", ["policy.device: Found 'cudda'; expected auto, cpu, cuda", "Did you mean 'cuda'?"]),
    ("method: {name: bot-grop}", ["method.name: Found 'bot-grop'; expected ", "Did you mean 'bot-grpo'?"]),
    ("method: {advantage: grup}", ["method.advantage: Found 'grup'; expected ", "Did you mean 'group'?"]),
    ("method: {name: grpo, credit: to-go}", ["my.yaml:1: method.credit: 'to-go' changes nothing for the advantage"]),
    (
        "method: {local_weight: 0}\nreward:\n  format: {weight: 0}\n  clean_lines: {weight: 0}\n"
        "  compile: {weight: 0}\n  lint: {weight: 0}",
        ["my.yaml:5: reward.compile.weight: Every reward weight is 0, so nothing can be learnt"],
    ),
    (
        "reward: {vlm: {mode: global, weight: 0}}",
        ["my.yaml:1: reward.vlm.mode: Found 'global'", "expected a weight above 0, measure: true, or mode none."],
    ),
    (
        "reward: {vlm: {mode: local-1turn, weight: 0, local_weight: 0}}",
        ["reward.vlm.mode: Found 'local-1turn'", "expected a weight above 0, a local_weight above 0, measure: true"],
    ),
    ("reward: {vlm: {mode: local-2turns}}", ["reward.vlm.mode: ", "Did you mean 'local-2turn'?"]),
    (
        "reward: {code_judge: {weight: 1}}\njudge: {kind: exact}",
        ["my.yaml:2: judge.kind: Found 'exact'", "expected heuristic, openai or bedrock with reward.code_judge"],
    ),
    # strict YAML
    ("training: {steps: 1}\nscale: tiny\ntraining: {}", ["my.yaml:3: training: ", "first on line 1, again on line 3"]),
    ("training:\n  steps: 1\n  steps: 1", ["my.yaml:3: training.steps: This key is there twice: first on line 2"]),
    ("training: &a {steps: 1}", ["my.yaml:1: training: Found the anchor &a"]),
    ("training:\n  <<: {steps: 1}", ["my.yaml:2: training.<<: Found a merge key; use `extends:`"]),
    ("training: {steps: !!int 5}", ["my.yaml:1: training.steps: Found the tag !!int"]),
    ("policy: {model: !env HOME}", ["my.yaml:1: policy.model: Found the tag !env"]),
    ("? [a, b]\n: 1", ["my.yaml:1: ?: Found an unknown key"]),
    ("", ["my.yaml: The file is empty; expected `key: value` lines."]),
    ("# only a comment\n", ["my.yaml: The file is empty"]),
    ("- a\n- b", ["my.yaml:1: Found a list at the top; expected `key: value` lines."]),
    ("\nhello", ["my.yaml:2: Found the text 'hello' at the top"]),
    ("scale: tiny\n---\nscale: small", ["my.yaml:2: A second document starts here"]),
    ("training:\n\tsteps: 1", ["my.yaml:2: This is not valid YAML: ", "Indent with spaces."]),
    ("training: {steps: 1", ["my.yaml:1: This is not valid YAML: "]),
    ("scale: 'tiny", ["my.yaml:1: This is not valid YAML: "]),
    ("scale: tiny\na\x00b: 1", ["my.yaml:2: Found the control character U+0000; expected printable text."]),
    ("task: " + "[" * 3000, ["my.yaml:1: task[0]", "Nested more than 20 levels deep"]),
]


@pytest.mark.parametrize(("text", "pieces"), TABLE, ids=[text[:40] for text, _ in TABLE])
def test_one_problem(tmp_path, text, pieces):
    found = problems_of(write(tmp_path, text))
    fitting = [line for line in found if all(piece in line for piece in pieces)]
    assert len(fitting) == 1, found
    # A list as a key is told twice: once as a key of the wrong kind, once as an unknown one.
    assert len(found) == (2 if text.startswith("?") else 1), found


def test_alias_is_refused_with_its_anchor(tmp_path):
    found = problems_of(write(tmp_path, "sampling: &a\n  prompts: 8\ntraining: *a"))
    assert any("my.yaml:3: training: Found the alias *a" in line for line in found)
    assert any("my.yaml:1: sampling: Found the anchor &a" in line for line in found)


def test_bytes_that_are_not_utf8(tmp_path):
    (tmp_path / "my.yaml").write_bytes(b"scale: tiny\nname: \xff\n")
    (line,) = problems_of(str(tmp_path / "my.yaml"))
    assert line == "my.yaml:2: Found byte 0xff, which is not UTF-8; save the file as UTF-8."


def test_a_byte_order_mark_is_no_problem(tmp_path):
    (tmp_path / "my.yaml").write_bytes(b"\xef\xbb\xbftraining: {steps: 3}\r\n")
    assert load(str(tmp_path / "my.yaml")).recipe.training.steps == 3


def test_a_folder_and_a_missing_file(tmp_path):
    with pytest.raises(RecipeError, match="This is a directory; expected a YAML file"):
        load(str(tmp_path))
    with pytest.raises(RecipeError, match=r"Found no recipe .*expected a path or a shipped recipe: .*'react_qwen'"):
        load(str(tmp_path / "react_qwem.yaml"))
    for odd in ("", "\0", "x" * 5000):
        with pytest.raises(RecipeError, match="Found no recipe"):
            load(odd)


def test_every_problem_is_reported_at_once_in_order(tmp_path):
    path = write(
        tmp_path,
        "trainng: {}\n"
        "training:\n  steps: x\n  warmup_steps: 99\n  steps: 3\n"
        "sampling: {group_size: 9}\n"
        "task: {instruction: no brief}\n"
        "scales:\n  small: {training: {kl: -1}}\n",
    )
    found = problems_of(path, scale="tinny", sets=["evaluation.every=0", "nonsense"], seed=-1, method="gpro")
    places = [line.split(": Found")[0].split(": This")[0] for line in found]
    assert places == [
        "my.yaml:1: trainng",
        "my.yaml:3: training.steps",
        "my.yaml:5: training.steps",
        "my.yaml:6: training.micro_batch",  # the group size is what was written, so its line is named
        "my.yaml:7: task.instruction",
        "my.yaml:9: scales.small.training.kl",
        "--scale: scale",
        "--set: evaluation.every",
        "--set",
        "--seed: training.seed",
        "--method: method.name",
    ]


def test_a_bad_key_brings_no_follow_up_problem(tmp_path):
    # 7 does not divide 64, but prompts is not known, so nothing is said of micro_batch.
    found = problems_of(write(tmp_path, "sampling: {prompts: x}\ntraining: {micro_batch: 7}"))
    assert len(found) == 1
    assert "sampling.prompts" in found[0]


def test_the_error_is_wrong_input_and_holds_the_problems(tmp_path):
    path = write(tmp_path, "a: 1\nb: 2")
    with pytest.raises(InputError) as caught:
        load(path)
    first, second = caught.value.problems
    assert (first.mark.line, first.key, second.mark.line, second.key) == (1, "a", 2, "b")
    assert str(caught.value).startswith("The recipe has 2 problems; nothing was started.\n")


def test_prompt_counts_are_checked_with_the_others(tmp_path):
    path = write(tmp_path, "evaluation:\n  prompts: 50\nsampling:\n  prompts: 16")
    assert problems_of(path, counts=lambda recipe: (12, 40)) == [
        f"my.yaml:{line}: {key}: Found {found}; the prompt set 'briefs' has {there} {what} prompts, "
        f"expected at most {there}."
        for line, key, found, there, what in (
            (2, "evaluation.prompts", 50, 40, "held-out"),
            (4, "sampling.prompts", 16, 12, "training"),
        )
    ]


def test_check_counts_alone():
    check_counts(ReactRecipe(), train=8, held_out=96)
    with pytest.raises(RecipeError, match=r"evaluation.prompts: Found 96; .* has 95 held-out prompts"):
        check_counts(ReactRecipe(), train=8, held_out=95)
    with pytest.raises(RecipeError, match="'briefs' has no training prompts"):
        check_counts(ReactRecipe(), train=0, held_out=96)
