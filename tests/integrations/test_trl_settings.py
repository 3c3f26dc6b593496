"""Settings of TRL: those of each method, those that contradict token advantages, versions that are not supported."""

from __future__ import annotations

import functools
import subprocess
import sys
from dataclasses import replace

import pytest
from trl import GRPOConfig

from botgrpo_cli.errors import InputError
from botgrpo_cli.integrations import trl_settings
from botgrpo_cli.integrations.trl import BagOfTokensTrainer, grpo_settings
from botgrpo_cli.methods.registry import METHODS
from tests.conftest import make_policy
from tests.integrations.trl_toy import local_rewards, make_trainer


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"importance_sampling_level": "sequence"}, "importance_sampling_level='sequence'"),
        ({"loss_type": "vespo"}, "loss_type='vespo'"),
        ({"loss_type": "luspo"}, "loss_type='luspo'"),
        ({"off_policy_mask_threshold": 0.5}, "off_policy_mask_threshold=0.5"),
        ({"multi_objective_aggregation": "normalize_then_sum"}, "multi_objective_aggregation='normalize_then_sum'"),
    ],
)
def test_settings_that_contradict_token_advantages_are_refused(tmp_path, settings, words):
    with pytest.raises(ValueError, match=words):
        make_trainer(tmp_path, settings=settings)
    if "multi" not in words:
        make_trainer(tmp_path, method="grpo", settings=settings)  # one advantage a completion: nothing is lost


def test_scaling_of_rewards_has_no_effect_and_that_is_said(tmp_path):
    with pytest.warns(UserWarning, match="scale_rewards='batch' has no effect"):
        make_trainer(tmp_path, settings={"scale_rewards": "batch"})


def test_wrong_arguments_are_named(tmp_path):
    with pytest.raises(ValueError, match="Did you mean 'bot-grpo'"):
        make_trainer(tmp_path, settings=None, method="bot_grpo")
    with pytest.raises(ValueError, match="2 numbers for 1 token_reward_funcs"):
        make_trainer(tmp_path, token_reward_weights=[1.0, 2.0])
    with pytest.raises(ValueError, match="no reward"):
        make_trainer(tmp_path, token_reward_funcs=[], reward_funcs=None)

    async def slow(**_):
        return []

    with pytest.raises(ValueError, match="'slow' is async"):
        make_trainer(tmp_path, token_reward_funcs=slow)


def test_a_sequence_ratio_is_refused_where_it_would_average_token_advantages():
    assert grpo_settings("gspo")["importance_sampling_level"] == "sequence"
    with pytest.raises(ValueError, match="Use 'token'"):
        grpo_settings(replace(METHODS["bot-grpo"], ratio="sequence"))


def test_a_method_is_enough(tmp_path, monkeypatch):
    """Without a config, that of the method is taken."""
    monkeypatch.chdir(tmp_path)
    on_cpu = functools.partial(GRPOConfig, use_cpu=True, bf16=False, report_to="none")
    monkeypatch.setattr("botgrpo_cli.integrations.trl.GRPOConfig", on_cpu)
    policy, data = make_policy(), make_trainer(tmp_path).train_dataset
    options = {"train_dataset": data, "processing_class": policy.tokenizer, "token_reward_funcs": local_rewards}
    trainer = BagOfTokensTrainer(policy.model, method="dr-grpo", **options)
    assert (trainer.loss_type, trainer.epsilon_high) == ("dr_grpo", 0.2)


@pytest.mark.parametrize("found", ["1.11.0", "1.17.0", "2.0.0"])
def test_another_version_is_refused_with_the_range_and_the_command(monkeypatch, found):
    monkeypatch.setattr(trl_settings, "version", lambda _: found)
    with pytest.raises(ImportError, match=f"TRL {found} is installed, but supported is trl>=1") as error:
        trl_settings.require_trl()
    assert 'pip install "botgrpo[trl]"' in str(error.value)
    assert isinstance(error.value, InputError)


def test_without_trl_the_command_that_installs_it_is_named():
    """In a real interpreter that finds no TRL."""
    program = (
        "import importlib.metadata as m, sys\n"
        "def version(name, old=m.version):\n"
        "    if name == 'trl': raise m.PackageNotFoundError(name)\n"
        "    return old(name)\n"
        "m.version = version\n"
        "try:\n"
        "    import botgrpo_cli.integrations.trl\n"
        "except ImportError as error:\n"
        "    print(error); sys.exit(3)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 3, done.stderr
    assert 'pip install "botgrpo[trl]"' in done.stdout
