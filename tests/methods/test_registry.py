from __future__ import annotations

import copy
import dataclasses

import pytest
import torch

from botgrpo_cli.errors import InputError
from botgrpo_cli.methods.advantages import bag_of_tokens, group_centred, group_relative
from botgrpo_cli.methods.objectives import clipped_surrogate, token_weights
from botgrpo_cli.methods.registry import ADVANTAGES, METHODS, Method, resolve
from botgrpo_cli.methods.steps import process_supervision, softmin_credit
from botgrpo_cli.recipe.schema import MethodConfig

REWARDS = torch.tensor([[8.0, 0.0], [2.0, 0.0], [1.0, 1.0]])
MASK = torch.tensor([[1, 1], [1, 0], [1, 1]])
GROUP = torch.tensor([0, 0, 0])
EXTRA = {"steps": torch.tensor([[0, 1], [0, 0], [0, 0]]), "outcome": torch.tensor([3.0, 2.0, 1.0])}


@pytest.mark.parametrize("name", METHODS)
def test_every_entry_is_complete_and_trains(name):
    method = METHODS[name]
    assert method.name == name
    assert method.paper
    assert method.formula
    advantages = method.compute(REWARDS, MASK, GROUP, **EXTRA)
    assert advantages.any()
    new = torch.zeros(3, 2, requires_grad=True)
    loss, _ = clipped_surrogate(
        new,
        torch.zeros(3, 2),
        advantages,
        MASK,
        ratio=method.ratio,
        clip_low=method.clip_low,
        clip_high=method.clip_high,
    )
    (loss * token_weights(MASK, method.aggregation, completions=3, tokens=5, max_length=2)).sum().backward()
    assert new.grad.any()


def test_entries_are_the_named_methods():
    assert torch.equal(METHODS["grpo"].compute(REWARDS, MASK, GROUP), group_relative(REWARDS, MASK, GROUP))
    assert torch.equal(METHODS["bot-grpo"].compute(REWARDS, MASK, GROUP), bag_of_tokens(REWARDS, MASK, GROUP))
    assert torch.equal(METHODS["dr-grpo"].compute(REWARDS, MASK, GROUP), group_centred(REWARDS, MASK, GROUP))
    for name in ("gspo", "dapo"):
        assert torch.equal(METHODS[name].compute(REWARDS, MASK, GROUP), group_relative(REWARDS, MASK, GROUP))
    steps = EXTRA["steps"]
    found = METHODS["process-grpo"].compute(REWARDS, MASK, GROUP, **EXTRA)
    assert torch.equal(found, process_supervision(REWARDS, MASK, GROUP, steps=steps))
    found = METHODS["pure"].compute(REWARDS, MASK, GROUP, **EXTRA)
    assert torch.equal(found, softmin_credit(REWARDS, MASK, GROUP, **EXTRA))


def test_parts_are_those_of_the_papers():
    """The table of the methods compared: ratio level, clip range, aggregation, minibatches, refills, overlong share."""
    parts = {
        name: (m.ratio, m.clip_low, m.clip_high, m.aggregation, m.minibatches, m.refills, m.overlong)
        for name, m in METHODS.items()
    }
    plain = ("token", 0.2, 0.2, "sequence-mean", 1, 0, 0.0)
    assert parts == {
        "bot-grpo": plain,
        "grpo": plain,
        "gspo": ("sequence", 3e-4, 4e-4, "sequence-mean", 4, 0, 0.0),
        "dapo": ("token", 0.2, 0.28, "token-mean", 1, 10, 0.2),
        "pure": plain,
        "dr-grpo": ("token", 0.2, 0.2, "constant", 1, 0, 0.0),
        "process-grpo": plain,
    }


def test_what_an_advantage_needs_is_asked_for():
    assert METHODS["pure"].needs == ("steps", "outcome")
    with pytest.raises(ValueError, match="'softmin' of method 'pure' needs steps and outcome"):
        METHODS["pure"].compute(REWARDS, MASK, GROUP)
    with pytest.raises(ValueError, match="'process' of method 'process-grpo' needs steps"):
        METHODS["process-grpo"].compute(REWARDS, MASK, GROUP)


@pytest.mark.parametrize("name", METHODS)
def test_nothing_overridden_is_the_entry_itself(name):
    assert resolve(MethodConfig(name=name)) == METHODS[name]


def test_every_part_can_be_overridden():
    config = MethodConfig(
        name="grpo",
        advantage="bot",
        ratio="sequence",
        clip_low=0.1,
        clip_high=0.3,
        aggregation="constant",
        weights="uniform",
        credit="to-go",
    )
    method = resolve(config)
    assert dataclasses.asdict(method) == {
        **dataclasses.asdict(METHODS["grpo"]),
        "advantage": "bot",
        "ratio": "sequence",
        "clip_low": 0.1,
        "clip_high": 0.3,
        "aggregation": "constant",
        "options": {"weights": "uniform", "credit": "to-go"},
    }
    expected = bag_of_tokens(REWARDS, MASK, GROUP, weights="uniform", credit="to-go")
    assert torch.equal(method.compute(REWARDS, MASK, GROUP), expected)
    assert not torch.equal(expected, bag_of_tokens(REWARDS, MASK, GROUP))
    assert METHODS["grpo"].advantage == "group"  # the registry itself is untouched
    assert METHODS["bot-grpo"].options == {"weights": "inverse-length", "credit": "immediate"}


def test_an_advantage_without_options_drops_those_of_the_entry():
    method = resolve(MethodConfig(name="bot-grpo", advantage="group"))
    assert method.options == {}
    assert torch.equal(method.compute(REWARDS, MASK, GROUP), group_relative(REWARDS, MASK, GROUP))


def test_a_recipe_that_states_the_paper_values_can_switch_methods():
    config = MethodConfig(name="grpo", weights="inverse-length", credit="immediate")
    assert resolve(config) == METHODS["grpo"]


@pytest.mark.parametrize(("key", "value"), [("weights", "uniform"), ("credit", "to-go")])
def test_an_option_without_effect_is_refused(key, value):
    with pytest.raises(InputError, match=rf"method\.{key}: '{value}' changes nothing .* 'group' .* takes it: bot\."):
        resolve(MethodConfig(name="grpo", **{key: value}))


def test_unknown_names_suggest_the_nearest():
    with pytest.raises(InputError, match=r"method\.name: there is no method 'botgrpo'\. .* Did you mean 'bot-grpo'\?"):
        resolve(MethodConfig(name="botgrpo"))
    with pytest.raises(
        InputError,
        match=r"method\.advantage: .* 'groups'\. Known: bot, group, group-centred, process, softmin\. Did you mean 'g",
    ):
        resolve(MethodConfig(advantage="groups"))


def test_a_new_method_is_one_function_and_one_entry(monkeypatch):
    def centred(token_rewards, mask, group, *, eps=1e-6):
        return torch.where(mask.bool(), token_rewards - token_rewards.mean(), 0.0)

    monkeypatch.setitem(ADVANTAGES, "centred", centred)
    entry = Method("mine", "centred", "token", 0.2, 0.2, "token-mean", "none", "r - mean r")
    monkeypatch.setitem(METHODS, "mine", entry)
    method = resolve(MethodConfig(name="mine", clip_high=0.4))
    assert method.clip_high == 0.4
    assert torch.equal(method.compute(REWARDS, MASK, GROUP), centred(REWARDS, MASK, GROUP))


def test_methods_are_frozen_and_can_be_copied():
    method = METHODS["bot-grpo"]
    with pytest.raises(dataclasses.FrozenInstanceError):
        method.clip_low = 0.5
    assert copy.deepcopy(method) == method
