"""`botgrpo export verl`: what is in the folder, what a method becomes in verl's words, what is refused."""

from __future__ import annotations

import ast
import os
import subprocess
import sys

import pandas as pd
import pytest
import yaml

from botgrpo_cli.app import main
from botgrpo_cli.errors import InputError
from botgrpo_cli.export.verl import prompt_tokens, write_rows
from botgrpo_cli.export.verl_settings import differences, settings
from botgrpo_cli.integrations.verl_rewards import SCORE
from botgrpo_cli.policy.load import load_policy
from botgrpo_cli.recipe.load import load_recipe
from botgrpo_cli.recipe.schema import LoraConfig, PolicyConfig
from botgrpo_cli.tasks.base import Prompt
from botgrpo_cli.tasks.react.prompts import load_prompts
from botgrpo_cli.tiny import weights_folder
from botgrpo_cli.training.batches import held_out_of_run
from tests.conftest import make_policy
from tests.training.toy import make_recipe


def export(*words) -> int:
    with pytest.raises(SystemExit) as stop:
        main(["export", "verl", *map(str, words)])
    return stop.value.code


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("exported") / "a folder"
    place.mkdir()  # an empty one is taken as it is
    words = ("--scale", "tiny", "--method", "dapo", "--set", "training.kl=0.01", "--set", "evaluation.prompts=7")
    assert export("react_qwen", place, *words) == 0
    return place


def test_the_files_are_there_and_each_is_named_in_the_readme(folder):
    names = {path.name for path in folder.iterdir()}
    assert names == {
        "README.md",
        "agent_loop.yaml",
        "botgrpo.yaml",
        "launch.sh",
        "recipe.yaml",
        "reward.py",
        "test.parquet",
        "train.parquet",
    }
    readme = (folder / "README.md").read_text()
    assert all(f"`{name}`" in readme for name in names - {"README.md"})
    assert "2048 training prompts and 7 held-out ones" in readme
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_the_recipe_is_the_resolved_one(folder):
    recipe = load_recipe(str(folder / "recipe.yaml")).recipe
    assert (recipe.method.name, recipe.training.kl, recipe.scale, recipe.evaluation.prompts) == (
        "dapo",
        0.01,
        "tiny",
        7,
    )


def test_rows_lead_back_to_their_prompts(folder):
    for name, split, wanted in (
        ("train", "train", load_prompts("generated", "train")),
        ("test", "held-out", held_out_of_run(load_prompts("generated", "held-out"), count=7)),
    ):
        rows = pd.read_parquet(folder / f"{name}.parquet")
        assert list(rows.columns) == ["data_source", "prompt", "ability", "reward_model", "extra_info"]
        assert [info["prompt_id"] for info in rows["extra_info"]] == [prompt.id for prompt in wanted]
        assert {info["split"] for info in rows["extra_info"]} == {split}
        assert [info["index"] for info in rows["extra_info"]] == list(range(len(wanted)))
        instruction = load_recipe(str(folder / "recipe.yaml")).recipe.task.instruction
        for chat, prompt in zip(rows["prompt"], wanted, strict=True):
            (message,) = chat
            assert message == {"role": "user", "content": instruction.replace("{brief}", prompt.text)}
        assert set(rows["data_source"]) == {"botgrpo/react"}
        assert {model["style"] for model in rows["reward_model"]} == {"rule"}


def test_the_launch_line_is_a_shell_script_that_finds_its_own_folder(folder, tmp_path):
    """A program in place of Python shows what it was called with, from another working directory."""
    launch = folder / "launch.sh"
    assert os.access(launch, os.X_OK)
    subprocess.run(["bash", "-n", launch], check=True)
    shown = tmp_path / "shown"
    shown.write_text('#!/bin/sh\nprintf "%s\\n" "$VERL_USE_EXTERNAL_MODULES" "$@"\n')
    shown.chmod(0o755)
    done = subprocess.run(
        [launch, "trainer.nnodes=2"],
        cwd=tmp_path,
        env={**os.environ, "PYTHON": str(shown)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == [
        *("botgrpo_cli.integrations.verl", "-m", "verl.trainer.main_ppo"),
        *("--config-dir", str(folder), "--config-name", "botgrpo"),
        *("trainer.nnodes=2", f"botgrpo_dir='{folder}'"),
    ]


def test_the_settings_name_the_files_and_the_parts_of_this_package(folder):
    tree = yaml.safe_load((folder / "botgrpo.yaml").read_text())
    assert tree["defaults"] == ["ppo_trainer", "_self_"]
    manager = tree["reward"]["reward_manager"]
    module = ast.parse((folder / "reward.py").read_text())
    assert manager["name"] in {node.name for node in module.body if isinstance(node, ast.ClassDef)}
    (loop,) = yaml.safe_load((folder / "agent_loop.yaml").read_text())
    rollout = tree["actor_rollout_ref"]["rollout"]
    assert loop["name"] == rollout["agent"]["default_agent_loop"]
    files = [manager["module"]["path"], rollout["agent"]["agent_loop_config_path"], *tree["data"].values()]
    inside = [str(name).removeprefix("${botgrpo_dir}/") for name in files if str(name).startswith("${botgrpo_dir}/")]
    assert len(inside) == 4
    assert all((folder / name).is_file() for name in inside)
    assert tree["data"]["max_prompt_length"] + tree["data"]["max_response_length"] <= 1024


def tree_of(recipe):
    return settings(recipe, "model", prompts=12, prompt_tokens=50)


@pytest.mark.parametrize(
    ("changes", "estimator", "actor"),
    [
        ({"name": "bot-grpo"}, "bot_grpo", {"loss_agg_mode": "seq-mean-token-mean", "clip_ratio_high": 0.2}),
        ({"name": "bot-grpo", "weights": "uniform"}, "bot_grpo_uniform", {"loss_agg_mode": "seq-mean-token-mean"}),
        ({"name": "bot-grpo", "credit": "to-go"}, "bot_grpo_to_go", {"ppo_mini_batch_size": 4, "shuffle": False}),
        (
            {"name": "bot-grpo", "ratio": "sequence", "minibatches": 2},
            "bot_grpo",
            {"policy_loss": {"loss_mode": "gspo"}, "ppo_mini_batch_size": 2, "shuffle": True},
        ),
        ({"name": "grpo"}, "botgrpo_group", {"policy_loss": {"loss_mode": "vanilla"}, "use_kl_loss": False}),
        (
            {"name": "gspo"},
            "botgrpo_group",
            {"clip_ratio_low": 3e-4, "clip_ratio_high": 4e-4, "ppo_mini_batch_size": 1},
        ),
        ({"name": "dapo"}, "botgrpo_group", {"loss_agg_mode": "token-mean", "clip_ratio_high": 0.28}),
        (
            {"name": "dr-grpo"},
            "botgrpo_group_centred",
            {"loss_agg_mode": "seq-mean-token-sum-norm", "loss_scale_factor": 12},
        ),
    ],
)
def test_a_method_in_verls_words(changes, estimator, actor):
    recipe = make_recipe(sampling__prompts=4, **{f"method__{key}": value for key, value in changes.items()})
    tree = tree_of(recipe)
    assert tree["algorithm"]["adv_estimator"] == estimator
    assert tree["algorithm"]["filter_groups"] == {"enable": changes["name"] == "dapo", "metric": SCORE}
    assert {key: tree["actor_rollout_ref"]["actor"][key] for key in actor} == actor


def test_the_numbers_of_a_recipe_in_verls_words():
    recipe = make_recipe(
        training__kl=0.1, training__inner_epochs=2, training__warmup_steps=3, sampling__temperature=0.7
    )
    tree = tree_of(recipe)
    actor, rollout = tree["actor_rollout_ref"]["actor"], tree["actor_rollout_ref"]["rollout"]
    assert (actor["use_kl_loss"], actor["kl_loss_coef"], actor["ppo_epochs"]) == (True, 0.1, 2)
    assert (actor["optim"]["lr"], actor["optim"]["lr_warmup_steps"]) == (3e-3, 3)
    assert (rollout["n"], rollout["temperature"], rollout["val_kwargs"]["temperature"]) == (4, 0.7, 1.0)
    assert tree["algorithm"]["use_kl_in_reward"] is False
    # 12 prompts, 3 a step: 6 steps are an epoch and a half
    assert (tree["trainer"]["total_training_steps"], tree["trainer"]["total_epochs"]) == (6, 2)


def with_lora(**lora):
    return make_recipe().model_copy(update={"policy": PolicyConfig(lora=LoraConfig(**lora))})


def test_adapters_in_verls_words(tmp_path, monkeypatch):
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / "adapter_config.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    model = tree_of(with_lora(rank=8, alpha=16, adapter="saved"))["actor_rollout_ref"]["model"]
    assert (model["lora_rank"], model["lora_alpha"]) == (8, 16)
    assert model["lora_adapter_path"] == str(tmp_path / "saved")  # verl may be started from anywhere
    assert tree_of(make_recipe())["actor_rollout_ref"]["model"]["lora_rank"] == 0


def with_kl_to_an_adapter():
    recipe = with_lora(adapter="/somewhere")
    return recipe.model_copy(update={"training": recipe.training.model_copy(update={"kl": 0.1})})


@pytest.mark.parametrize(
    ("recipe", "says"),
    [
        (
            make_recipe(method__name="pure"),
            r"can't express the method 'pure'.*needs the steps and the outcome",
        ),
        (make_recipe(method__name="process-grpo"), r"needs the steps .* Methods that can be exported: bot-grpo, grpo"),
        (make_recipe(method__minibatches=2), r"sampling\.prompts is 3.*a multiple of the 2 minibatches"),
        (with_lora(alpha=2.5), r"policy\.lora\.alpha is 2\.5; verl takes a whole number"),
        (with_kl_to_an_adapter(), r"bare model as the reference.*training\.kl=0"),
    ],
)
def test_what_verl_cannot_express_is_refused(recipe, says):
    with pytest.raises(InputError, match=says):
        tree_of(recipe)


def test_a_refused_method_leaves_no_folder(tmp_path, capsys):
    assert export("react_qwen", tmp_path / "out", "--scale", "tiny", "--method", "pure") == 2
    assert "verl can't express the method 'pure'" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_taken_folder_is_left_as_it_is(folder, capsys):
    before = {path: path.read_bytes() for path in folder.iterdir()}
    assert export("react_qwen", folder, "--scale", "tiny") == 2
    assert "holds something already" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_without_pyarrow_the_extra_is_named(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert export("react_qwen", tmp_path / "out", "--scale", "tiny") == 2
    assert "pip install 'botgrpo[verl]'" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_gguf_file_is_refused(tmp_path, capsys):
    (tmp_path / "model.gguf").touch()
    words = ("--scale", "tiny", "--set", f"policy.model={tmp_path / 'model.gguf'}")
    assert export("react_qwen", tmp_path / "out", *words) == 2
    assert "verl reads no GGUF files" in capsys.readouterr().err


def test_prompts_are_counted_as_the_policy_encodes_them_or_bounded_by_their_bytes(tmp_path):
    prompts = [Prompt("a", "say a", "easy"), Prompt("b", "say naïve 日本語 " * 9, "easy")]
    policy = load_policy(PolicyConfig(model="tiny:react-qwen2", dtype="float32", device="cpu"))
    longest = max(len(policy.encode(prompt.text)) for prompt in prompts)
    assert prompt_tokens(str(weights_folder("react-qwen2")), prompts) == longest
    assert prompt_tokens("nobody/no-such-model", prompts) >= len(prompts[1].text.encode())


def test_a_model_without_a_chat_template_is_refused(tmp_path):
    tokenizer = make_policy().tokenizer
    tokenizer.chat_template = None
    tokenizer.save_pretrained(tmp_path)
    make_policy().model.config.save_pretrained(tmp_path)
    with pytest.raises(InputError, match="no chat template"):
        prompt_tokens(str(tmp_path), [Prompt("a", "say a", "easy")])


def test_prompts_with_any_characters_survive_the_file(tmp_path):
    odd = 'a "quoted" {brace} \n 日本語 🙂 <image>'
    write_rows(tmp_path / "rows.parquet", "react", "train", [Prompt("p", odd, "hard")])
    (row,) = pd.read_parquet(tmp_path / "rows.parquet")["prompt"]
    assert row[0]["content"] == odd


def test_the_differences_name_what_the_recipe_asks_and_verl_does_not_do():
    recipe = make_recipe(method__name="dapo", evaluation__max_new_tokens=99, training__warmup_steps=2)
    text = " ".join(differences(recipe))
    assert "10 refills" in text
    assert "the 99 of evaluation.max_new_tokens" in text
    assert "warm-up" in text
    assert len(differences(make_recipe())) < len(differences(recipe))
