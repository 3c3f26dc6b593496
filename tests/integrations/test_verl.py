"""The parts for verl that need no verl: advantage estimators under its signature, dense rewards of given ids."""

from __future__ import annotations

import asyncio
import math

import numpy as np
import pytest
import torch

from botgrpo_cli.errors import InputError, RunError
from botgrpo_cli.integrations.verl_advantages import ADVANTAGES, ESTIMATORS, group_ids
from botgrpo_cli.integrations.verl_rewards import SCORE, TOKEN_REWARDS, ResponseScorer
from botgrpo_cli.methods.advantages import bag_of_tokens
from botgrpo_cli.methods.registry import METHODS, resolve
from botgrpo_cli.policy.sample import Rollout
from botgrpo_cli.tasks.base import Completion
from botgrpo_cli.training.refill import rewards_of
from botgrpo_cli.training.rollouts import Batch
from tests.conftest import make_tokenizer
from tests.training.toy import LetterTask, make_recipe

LENGTHS = torch.tensor([9, 1, 4, 7, 3, 9, 0])
GROUP = torch.tensor([1, 0, 1, 0, 2, 1, 0])
UIDS = np.array(["b", "a", "b", "a", "c", "b", "a"], dtype=object)


def batch(width=9, seed=0):
    """Token rewards and mask of ragged rollouts, one of them empty, padded on the right to `width`."""
    torch.manual_seed(seed)
    mask = (torch.arange(width) < LENGTHS[:, None]).long()  # [7, T]
    rewards = torch.zeros(7, width)
    rewards[:, :9] = torch.randn(7, 9)
    return rewards * mask, mask


@pytest.mark.parametrize("name", ADVANTAGES)
def test_an_estimator_is_the_pure_function_under_verls_signature(name):
    rewards, mask = batch()
    advantages, returns = ESTIMATORS[name](
        token_level_rewards=rewards, response_mask=mask, index=UIDS, config={}, reward_baselines=None
    )
    assert torch.equal(advantages, ADVANTAGES[name](rewards, mask, GROUP))
    assert torch.equal(returns, advantages)
    assert advantages.dtype == torch.float32
    assert not advantages[mask == 0].any()


def test_bot_grpo_and_its_uniform_ablation_are_bags_of_tokens():
    rewards, mask = batch()
    for name, weights in (("bot_grpo", "inverse-length"), ("bot_grpo_uniform", "uniform")):
        advantages, _ = ESTIMATORS[name](rewards, mask, UIDS)
        assert torch.equal(advantages, bag_of_tokens(rewards, mask, GROUP, weights=weights))
    assert not torch.allclose(ESTIMATORS["bot_grpo"](rewards, mask, UIDS)[0], advantages)


def test_padding_changes_nothing():
    narrow, _ = ESTIMATORS["bot_grpo"](*batch(), UIDS)
    wide, _ = ESTIMATORS["bot_grpo"](*batch(width=17), UIDS)
    torch.testing.assert_close(wide[:, :9], narrow, rtol=1e-6, atol=1e-7)
    assert not wide[:, 9:].any()


def test_a_rollout_that_could_not_be_scored_leaves_its_group():
    rewards, mask = batch()
    rewards[0, :9] = math.nan
    advantages, _ = ESTIMATORS["bot_grpo"](rewards, mask, UIDS)
    assert advantages.isfinite().all()
    assert not advantages[0].any()


@pytest.mark.parametrize("uids", [["x", "y", "x"], [7, 5, 7], [("p", 1), "p", ("p", 1)], np.array([7, 5, 7])])
def test_uids_may_be_texts_numbers_or_any_objects(uids):
    assert group_ids(uids).tolist() == [0, 1, 0]


def test_a_reward_on_the_last_token_alone_is_refused():
    _, mask = batch()
    sparse = torch.zeros(7, 9)
    sparse[torch.arange(6), LENGTHS[:6] - 1] = 1.0
    with pytest.raises(InputError, match=r"on the last token of its rollout.*botgrpo_single_turn"):
        ESTIMATORS["bot_grpo"](sparse, mask, UIDS)
    sparse[0, 0] = 0.5  # one token before a last one has a reward: dense
    assert ESTIMATORS["bot_grpo"](sparse, mask, UIDS)[0].any()
    nothing, _ = ESTIMATORS["bot_grpo"](torch.zeros(7, 9), mask, UIDS)
    assert not nothing.any()


def test_verls_kl_in_the_reward_and_missing_uids_are_refused():
    rewards, mask = batch()
    with pytest.raises(InputError, match=r"use_kl_in_reward is true.*use_kl_loss"):
        ESTIMATORS["bot_grpo"](rewards, mask, UIDS, {"use_kl_in_reward": True})
    with pytest.raises(InputError, match="no uids"):
        ESTIMATORS["bot_grpo"](rewards, mask)


RESPONSES = [("aab", True), ("ab" * 9, False), ("aaaa", True), ("", True)]
LIMIT = 18


def score(recipe, prompt_id, ids, task=None):
    scorer = ResponseScorer(recipe, make_tokenizer(), task or LetterTask(), limit=LIMIT)
    return asyncio.run(scorer.score(prompt_id, ids))


def ids_of(tokenizer, text, finished):
    ids = [tokenizer.convert_tokens_to_ids(letter) for letter in text]  # one token a letter
    return [*ids, tokenizer.eos_token_id] if finished else ids


@pytest.mark.parametrize("method", ["bot-grpo", "dapo"])
def test_token_rewards_are_those_of_a_native_run(method):
    """dapo punishes the answer that reaches the limit."""
    recipe = make_recipe(method__name=method, method__local_weight=0.3, sampling__max_new_tokens=LIMIT)
    tokenizer, task = make_tokenizer(), LetterTask()
    scorer = ResponseScorer(recipe, tokenizer, task, limit=LIMIT)
    prompt = task.prompts("train")[3]
    answers = [ids_of(tokenizer, *answer) for answer in RESPONSES]
    scored = [
        task.submit(Completion(prompt, scorer.token_bytes.pieces(ids), finished)).result()
        for ids, (_, finished) in zip(answers, RESPONSES, strict=True)
    ]
    rollouts = [Rollout(0, ids, [], finished) for ids, (_, finished) in zip(answers, RESPONSES, strict=True)]
    rows = len(rollouts)
    group = torch.zeros(rows, dtype=torch.int64)
    whole = Batch([prompt] * rows, [[]] * rows, rollouts, scored, group, 0.0, 0.0)
    wanted = rewards_of(whole, resolve(recipe.method), recipe)
    for k, ids in enumerate(answers):
        found = asyncio.run(scorer.score(prompt.id, ids))
        info = found["reward_extra_info"]
        assert info[TOKEN_REWARDS].values == tuple(wanted.tokens[k, : len(ids)].tolist())
        assert found["reward_score"] == float(wanted.outcome[k])
        assert info[SCORE] == pytest.approx(float(wanted.tokens[k, : len(ids)].mean()))
        assert info["global_reward"] == scored[k].reward
        assert info["truncated"] == float(not RESPONSES[k][1])
        assert info["letter_rate"] == scored[k].metrics["letter_rate"]
        assert "reward" not in info  # verl's validation has a "reward" of its own
    assert (wanted.outcome[1] < scored[1].reward) == (method == "dapo")


def test_an_end_token_at_the_limit_is_an_end():
    tokenizer = make_tokenizer()
    ids = ids_of(tokenizer, "a" * (LIMIT - 1), True)
    assert len(ids) == LIMIT
    found = score(make_recipe(), "train-0", ids)
    assert found["reward_extra_info"]["truncated"] == 0.0


def test_a_held_out_prompt_gets_its_global_reward_alone():
    recipe = make_recipe(method__name="dapo", sampling__max_new_tokens=LIMIT)
    ids = ids_of(make_tokenizer(), "ab" * 9, False)
    found = score(recipe, "held-out-2", ids)
    assert TOKEN_REWARDS not in found["reward_extra_info"]
    assert found["reward_score"] == pytest.approx(0.5)  # no punishment of the length


def test_a_prompt_of_other_data_is_named():
    with pytest.raises(InputError, match=r"prompt_id is 'train-99'.*Did you mean 'train-\d+'"):
        score(make_recipe(), "train-99", [5])


class ShortTask(LetterTask):
    def submit(self, completion):
        future = super().submit(completion)
        future.result().local.pop()
        return future


def test_a_task_that_loses_tokens_is_an_error_and_not_a_shift():
    with pytest.raises(RunError, match="expected one a token"):
        score(make_recipe(), "train-0", [5, 6, 7], ShortTask())


def test_every_method_of_the_registry_has_an_estimator_or_needs_more_than_token_rewards():
    from botgrpo_cli.export.verl_settings import estimator_of

    for method in METHODS.values():
        if method.needs:
            with pytest.raises(InputError, match=r"Methods that can be exported: bot-grpo, grpo, gspo, dapo, dr-grpo"):
                estimator_of(method)
        else:
            assert estimator_of(method) in ESTIMATORS
