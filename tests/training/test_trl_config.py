"""A recipe as a GRPOConfig: batches, passed-through fields, and what is refused before anything starts."""

from __future__ import annotations

import pytest

from botgrpo_cli.errors import InputError
from botgrpo_cli.methods.registry import resolve
from botgrpo_cli.training import engines
from botgrpo_cli.training.trl_engine.config import Batches, batches_of, check_fields
from tests.training.toy import make_recipe
from tests.training.trl_toy import prepare


@pytest.mark.parametrize(
    ("changes", "processes", "expected"),
    [
        ({}, 1, Batches(12, 1, micro=4, accumulation=3, updates=1)),
        ({}, 2, Batches(12, 2, micro=3, accumulation=2, updates=1)),  # 6 a process: 4 does not divide it
        ({"training__inner_epochs": 3}, 1, Batches(12, 1, micro=4, accumulation=3, updates=3)),
        ({"method__minibatches": 3, "training__inner_epochs": 2}, 1, Batches(12, 1, 4, 1, 6)),
        ({"training__micro_batch": 100}, 4, Batches(12, 4, micro=3, accumulation=1, updates=1)),
    ],
)
def test_batches(changes, processes, expected):
    recipe = make_recipe(**changes)
    assert batches_of(recipe, resolve(recipe.method), processes) == expected


def test_rollouts_that_do_not_divide_are_named():
    recipe = make_recipe(method__minibatches=5)
    with pytest.raises(InputError, match=r"12 rollouts a step.*5 minibatches .*of which 5 is a divisor"):
        batches_of(recipe, resolve(recipe.method), 1)


def test_the_recipe_stands_in_the_config(tmp_path):
    trl = {"top_k": 7, "optim": "sgd", "adam_beta2": 0.99}
    recipe = make_recipe(
        method__name="gspo", method__minibatches=3, training__kl=0.01, training__seed=5, training__trl=trl
    )
    config = prepare(tmp_path / "run", recipe).config
    assert (config.loss_type, config.importance_sampling_level) == ("grpo", "sequence")
    assert (config.epsilon, config.epsilon_high, config.beta) == (3e-4, 4e-4, 0.01)
    assert (config.steps_per_generation, config.gradient_accumulation_steps) == (3, 1)
    assert (config.generation_batch_size, config.num_generations, config.max_steps) == (12, 4, 18)
    assert (config.max_completion_length, config.temperature, config.seed) == (12, 1.0, 5)
    assert (config.use_cpu, config.bf16, config.fp16, config.disable_dropout) == (True, False, False, True)
    assert (config.top_k, config.optim.value, config.adam_beta2) == (7, "sgd", 0.99)
    assert not config.use_bias_correction_kl  # the k3 that is meant, not TRL's own weight on it
    assert list(tmp_path.iterdir()) == []  # nothing was written


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"use_vlm": True}, "no such field. Did you mean 'use_vllm'"),
        ({"learning_rate": 1e-3}, "decided by training.learning_rate"),
        ({"use_vllm": "yes"}, "training.trl.use_vllm: found 'yes'; TRL expects bool"),
        ({"top_k": 1.5}, "TRL expects int"),
        ({"top_p": True}, "TRL expects float"),
    ],
)
def test_fields_that_are_wrong_are_named(given, words):
    with pytest.raises(InputError, match=words):
        check_fields(given)


def test_fields_that_fit_pass():
    check_fields({"top_p": 1, "use_vllm": False, "vllm_mode": "server", "deepspeed": "zero2.json", "min_p": None})
    check_fields({"generation_kwargs": {"num_beams": 1}})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"method__ratio": "sequence"}, "importance_sampling_level='sequence' .method.ratio. averages"),
        ({"training__trl": {"off_policy_mask_threshold": 0.5}}, "off_policy_mask_threshold=0.5"),
        ({"training__trl": {"log_completions_hub_repo": "somewhere"}}, "TRL can't train with this recipe"),
    ],
)
def test_what_trl_or_the_method_refuses_is_an_input_error(tmp_path, changes, words):
    with pytest.raises(InputError, match=words):
        prepare(tmp_path / "run", make_recipe(**changes))


def test_a_wrong_engine_is_named_with_the_nearest():
    with pytest.raises(InputError, match=r"no engine 'tlr'; expected native or trl\. Did you mean 'trl'"):
        engines.known("tlr")
    assert engines.known("trl") == "trl"


def test_the_native_engine_says_that_it_reads_nothing_of_trl(tmp_path):
    prepared = prepare(tmp_path / "run", make_recipe(training__trl={"top_k": 7})).prepared
    assert "training.trl has no effect" in engines.make_engine("native", prepared).rows[0][1]
