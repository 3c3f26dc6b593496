"""What is on disk decides what is kept, taken over, gone on with or refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from botgrpo_cli.errors import InputError
from botgrpo_cli.records.manifest import read_manifest, write_manifest
from botgrpo_cli.records.rooms import rooms_there
from botgrpo_cli.studies.load import load_study
from botgrpo_cli.studies.state import checkpoint_steps, free_root, plan, taken
from botgrpo_cli.tiny import weights_digest
from botgrpo_cli.training.run import kept_labels
from tests.recipe.helpers import plenty
from tests.studies.runs import write_run
from tests.studies.toy import STUDY, write_study


@pytest.fixture
def study(tmp_path):
    return load_study(str(write_study(tmp_path)), scale="tiny", counts=plenty)


def states(study, folder, *, resume=True, **options):
    return {run.name: run.state for run in plan(study, folder, resume=resume, **options)}


def test_nothing_there(study, tmp_path):
    folder = tmp_path / "results/letters"
    assert states(study, folder, resume=False) == {"bot-grpo-seed0": "new", "grpo-seed0": "new"}
    assert not folder.exists()


def test_finished_runs_are_kept_and_broken_ones_gone_on_with(study, tmp_path):
    folder = tmp_path / "results/letters"
    write_run(folder / "bot-grpo-seed0", study.arm("bot-grpo").at(0))
    write_run(folder / "grpo-seed0", study.arm("grpo").at(0), status="interrupted", done=4)
    assert states(study, folder) == {"bot-grpo-seed0": "kept", "grpo-seed0": "resume"}
    with pytest.raises(InputError, match=r"holds runs of this study already \(2: bot-grpo-seed0.*--resume"):
        states(study, folder, resume=False)


def test_more_steps_go_on_and_fewer_are_refused(tmp_path):
    path = write_study(tmp_path)
    short = load_study(str(path), scale="tiny", counts=plenty, steps=4)
    folder = tmp_path / "results/letters"
    write_run(folder / "grpo-seed0", short.arm("grpo").at(0))
    whole = load_study(str(path), scale="tiny", counts=plenty)
    assert states(whole, folder)["grpo-seed0"] == "resume"
    assert states(short, folder)["grpo-seed0"] == "kept"
    shorter = load_study(str(path), scale="tiny", counts=plenty, steps=2)
    with pytest.raises(InputError, match=r"grpo-seed0 has 4 steps already, more than the 2 asked for; .*--steps 4"):
        states(shorter, folder)


def test_a_changed_recipe_is_refused_with_the_difference(tmp_path):
    path = write_study(tmp_path)
    study = load_study(str(path), scale="tiny", counts=plenty)
    folder = tmp_path / "results/letters"
    for name in ("bot-grpo", "grpo"):
        write_run(folder / f"{name}-seed0", study.arm(name).at(0))
    path.write_text(STUDY.replace("arms:\n", "set:\n  training: {learning_rate: 1e-2}\narms:\n"))
    changed = load_study(str(path), scale="tiny", counts=plenty)
    with pytest.raises(InputError) as caught:
        states(changed, folder)
    lines = str(caught.value).splitlines()
    assert "nothing was started" in lines[0]
    assert lines.count("  -training.learning_rate: 0.003") == 2  # every run that differs is named
    assert lines.count("  +training.learning_rate: 0.01") == 2


def test_threads_and_checkpoints_change_no_number(study, tmp_path):
    recipe = study.arm("grpo").at(0)
    training = recipe.training.model_copy(update={"threads": 7})
    checkpoint = recipe.checkpoint.model_copy(update={"keep_last": 9})
    folder = tmp_path / "results/letters"
    write_run(folder / "grpo-seed0", recipe.model_copy(update={"training": training, "checkpoint": checkpoint}))
    assert states(study, folder)["grpo-seed0"] == "kept"


def test_what_a_start_that_was_killed_at_once_left_starts_again(study, tmp_path):
    folder = tmp_path / "results/letters/grpo-seed0"
    folder.mkdir(parents=True)
    for name in ("metrics.csv", ".manifest.json.12.partial"):
        (folder / name).write_text("run,")
    assert states(study, folder.parent)["grpo-seed0"] == "new"
    (folder / "thesis.txt").write_text("precious")
    with pytest.raises(InputError, match="holds something that is no run"):
        states(study, folder.parent)


def test_the_same_run_of_a_study_beside_it_is_taken(study, tmp_path):
    other = write_run(tmp_path / "results/other/first-seed0", study.arm("grpo").at(0))
    planned = {run.name: run for run in plan(study, tmp_path / "results/letters", resume=False)}
    assert (planned["grpo-seed0"].state, planned["grpo-seed0"].folder) == ("reused", other)
    assert planned["bot-grpo-seed0"].state == "new"
    own = tmp_path / "results/letters"
    assert states(study, own, compared={("grpo", 0)})["grpo-seed0"] == "new"  # it has no checkpoints to compare
    for step in checkpoint_steps(study.arm("grpo").recipe):
        (other / f"checkpoints/step-{step}").mkdir(parents=True)
        (other / f"checkpoints/step-{step}/trainer.json").write_text("{}")
    assert states(study, own, compared={("grpo", 0)})["grpo-seed0"] == "reused"


def test_a_study_of_taken_runs_is_there_as_well(study, tmp_path):
    write_run(tmp_path / "results/other/first-seed0", study.arm("grpo").at(0))
    folder = tmp_path / "results/letters"
    assert taken(study, folder) == []
    tell(folder, study)
    assert taken(study, folder) == [folder / "manifest.json"]
    assert taken(replace(study, seeds=(1,)), folder) == []  # other seeds are added to the tables
    with pytest.raises(InputError, match=r"\(1: manifest.json .*--resume --out"):
        states(study, folder, resume=False)
    training = study.arm("grpo").recipe.training.model_copy(update={"steps": 4})
    arm = replace(study.arm("grpo"), recipe=study.arm("grpo").recipe.model_copy(update={"training": training}))
    with pytest.raises(InputError, match=r"other/first-seed0 has \d+ steps already, more than the 4"):
        states(replace(study, arms=(study.arms[0], arm)), folder)


def tell(folder, study):
    """The manifest of a study whose one run is another's."""
    folder.mkdir(parents=True)
    run = {"arm": "grpo", "seed": 0, "folder": "../other/first-seed0"}
    write_manifest(folder, {"study": study.name, "runs": [run]})


def test_a_study_that_is_finished_there_gets_the_next_free_folder(study, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert free_root([study]) == Path("results")
    for number, root in enumerate(("results", "results-2", "results-3")):
        assert free_root([study]) == Path(root)
        write_run(tmp_path / root / "letters/grpo-seed0", study.arm("grpo").at(0))
        assert free_root([study]) == Path(f"results-{number + 2}")
    assert rooms_there() == [Path("results"), Path("results-2"), Path("results-3")]
    broken = tmp_path / "results-2/letters/bot-grpo-seed0"
    write_run(broken, study.arm("bot-grpo").at(0), status="interrupted", done=4)
    assert free_root([study]) == Path("results-2")  # and `plan` says how to go on with it


def test_a_run_from_weights_of_another_version_is_not_taken_and_not_gone_on_with(study, tmp_path):
    recipe = study.arm("grpo").at(0)
    tiny = recipe.model_copy(update={"policy": recipe.policy.model_copy(update={"model": "tiny:react-qwen2"})})
    study = replace(study, arms=tuple(replace(arm, recipe=tiny) if arm.name == "grpo" else arm for arm in study.arms))
    now = weights_digest("tiny:react-qwen2")
    assert now == weights_digest("tiny:react-qwen2") != weights_digest("tiny:aime-qwen2")
    assert weights_digest("small:smollm2-135m-instruct") is None
    for weights, state in ((None, "reused"), (now, "reused"), ("0123456789abcdef", "new")):
        other = tmp_path / f"{weights}/other/first-seed0"
        write_run(other, tiny)
        about = read_manifest(other) | {"policy": {"weights": weights}}
        (other / "manifest.json").write_text(json.dumps(about))
        assert states(study, tmp_path / f"{weights}/letters")["grpo-seed0"] == state
    write_manifest(write_run(tmp_path / "letters/grpo-seed0", tiny), about)
    with pytest.raises(InputError, match="another version of botgrpo had"):
        states(study, tmp_path / "letters")


@pytest.mark.parametrize("options", [{"status": "failed"}, {"done": 5}, {"held_out": False}])
def test_a_run_that_is_not_whole_is_not_taken(study, tmp_path, options):
    write_run(tmp_path / "results/other/first-seed0", study.arm("grpo").at(0), **options)
    assert states(study, tmp_path / "results/letters")["grpo-seed0"] == "new"


def test_a_run_of_another_seed_or_recipe_is_not_taken(study, tmp_path):
    recipe = study.arm("grpo").at(0)
    write_run(tmp_path / "results/other/a-seed1", study.arm("grpo").at(1))
    longer = recipe.model_copy(update={"sampling": recipe.sampling.model_copy(update={"max_new_tokens": 13})})
    write_run(tmp_path / "results/other/b-seed0", longer)
    assert states(study, tmp_path / "results/letters")["grpo-seed0"] == "new"


@pytest.mark.parametrize(("steps", "expected"), [(12, [3, 6, 9, 12]), (10, [3, 6, 9, 10]), (2, [2])])
def test_checkpoint_steps(study, steps, expected):
    recipe = study.arm("grpo").recipe
    training = recipe.training.model_copy(update={"steps": steps})
    assert checkpoint_steps(recipe.model_copy(update={"training": training})) == expected


def test_a_run_that_is_resumed_by_hand_keeps_its_labels(tmp_path):
    write_manifest(tmp_path, {"study": "letters", "arm": "grpo"})
    assert kept_labels(tmp_path, "", "") == ("letters", "grpo")
    assert kept_labels(tmp_path, "words", "bag") == ("words", "bag")
    assert kept_labels(tmp_path / "none", "", "") == ("", "")
