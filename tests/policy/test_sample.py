"""The sampler: exact log-probabilities, independence of the batch, reproducible streams, true stops."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from botgrpo_cli.policy.decode import FusedDecoder, GenericDecoder, choose_decoder
from botgrpo_cli.policy.sample import draw, sample_groups, stream
from tests.conftest import make_policy

PROMPTS = [[5, 6, 7], [8, 9, 10, 11, 12, 13], [20]]
LIMIT = 24


def uniforms(prompts: int, group: int, *, seed: int = 0, length: int = LIMIT) -> np.ndarray:
    return np.stack([stream(seed, 1, f"p{i}", k, length) for i in range(prompts) for k in range(group)])


def rollouts(policy, decoder, prompts=PROMPTS, group=4, temperature=0.8, draws=None, **extra):
    draws = uniforms(len(prompts), group) if draws is None else draws
    options = {"group_size": group, "max_new_tokens": draws.shape[1], "temperature": temperature}
    return sample_groups(policy, decoder, prompts, draws, **options, **extra)


def exact_logprobs(policy, prompt, ids, temperature):
    """One row, no cache, no padding: the definition."""
    with torch.no_grad():
        logits = policy.causal_lm(input_ids=torch.tensor([prompt + ids])).logits[0].float() / temperature
    return torch.log_softmax(logits, -1)[len(prompt) - 1 : -1].gather(-1, torch.tensor(ids)[:, None]).squeeze(-1)


@pytest.mark.parametrize("family", ["qwen2", "llama", "smollm3"])
@pytest.mark.parametrize("lora", [False, True])
def test_logprobs_are_those_of_the_model(family, lora):
    policy = make_policy(family, lora=lora)
    for rollout in rollouts(policy, choose_decoder(policy)):
        expected = exact_logprobs(policy, PROMPTS[rollout.prompt], rollout.ids, 0.8)
        torch.testing.assert_close(torch.tensor(rollout.logprobs), expected, rtol=0, atol=2e-4)


@pytest.mark.parametrize("family", ["qwen2", "llama"])
def test_fused_decoder_is_chosen_and_agrees_with_the_generic_one(family):
    policy = make_policy(family, lora=True)
    decoder = choose_decoder(policy)
    assert isinstance(decoder, FusedDecoder)
    fused, generic = rollouts(policy, decoder), rollouts(policy, GenericDecoder(policy))
    assert [r.ids for r in fused] == [r.ids for r in generic]


def test_other_architectures_take_the_generic_decoder():
    assert isinstance(choose_decoder(make_policy("smollm3")), GenericDecoder)


def test_a_decoder_that_disagrees_is_not_chosen(policy, monkeypatch):
    monkeypatch.setattr(
        FusedDecoder, "_rotation", lambda self, length: torch.ones(length, self.head_dim // 2, dtype=torch.complex64)
    )
    assert isinstance(choose_decoder(policy), GenericDecoder)


def test_a_rollout_does_not_depend_on_the_rest_of_the_batch(policy):
    decoder = choose_decoder(policy)
    together = rollouts(policy, decoder)
    for i, prompt in enumerate(PROMPTS):
        for k in range(4):
            alone = rollouts(policy, decoder, [prompt], 1, draws=uniforms(3, 4)[[4 * i + k]])
            assert alone[0].ids == together[4 * i + k].ids


def test_same_seed_same_rollouts_and_members_of_a_group_differ(policy):
    decoder = choose_decoder(policy)
    first, again = rollouts(policy, decoder), rollouts(policy, decoder)
    assert [r.ids for r in first] == [r.ids for r in again]
    other = rollouts(policy, decoder, draws=uniforms(3, 4, seed=1))
    assert [r.ids for r in first] != [r.ids for r in other]
    for i in range(3):
        assert len({tuple(r.ids) for r in first[4 * i : 4 * i + 4]}) == 4


def test_streams_depend_on_each_of_seed_step_prompt_and_rollout():
    keys = [(0, 1, "a", 0), (1, 1, "a", 0), (0, 2, "a", 0), (0, 1, "b", 0), (0, 1, "a", 1), (0, "held-out", "a", 0)]
    draws = [tuple(stream(*key, 8)) for key in keys]
    assert len(set(draws)) == len(keys)
    assert draws[0] == tuple(stream(0, 1, "a", 0, 8))
    np.testing.assert_array_equal(stream(0, 1, "a", 0, 16)[:8], stream(0, 1, "a", 0, 8))


def test_stops_on_any_end_token_and_says_what_was_truncated(policy):
    seen = rollouts(policy, choose_decoder(policy), group=8, draws=uniforms(3, 8, length=64))
    ends = {r.ids[-1] for r in seen if r.finished}
    assert ends == {0, 2}, "both end tokens stop"
    for r in seen:
        assert not set(r.ids[:-1]) & {0, 2}
        assert r.finished == (r.ids[-1] in (0, 2))
        assert r.finished or len(r.ids) == 64
        assert len(r.ids) == len(r.logprobs)


def test_every_rollout_is_reported_once_and_as_soon_as_it_ends(policy):
    calls = []
    result = rollouts(
        policy,
        choose_decoder(policy),
        group=8,
        draws=uniforms(3, 8, length=64),
        on_finished=lambda i, r: calls.append((i, r)),
    )
    assert sorted(i for i, _ in calls) == list(range(24))
    assert all(result[i] is r for i, r in calls)
    lengths = [len(r.ids) for _, r in calls]
    assert lengths == sorted(lengths), "shorter ones are reported first"


def test_sampling_with_merged_adapters_leaves_the_base_weights_bit_for_bit():
    policy = make_policy("smollm3", dtype=torch.bfloat16, lora=True)
    before = {n: p.clone() for n, p in policy.model.named_parameters()}
    rollouts(policy, GenericDecoder(policy))
    for name, p in policy.model.named_parameters():
        assert torch.equal(p, before[name]), name


def test_draw_follows_the_distribution_and_never_takes_probability_zero():
    logits = torch.tensor([0.5, -float("inf"), 1.5, -2.0])
    u = torch.linspace(0, 1 - 1e-12, 20_001, dtype=torch.float64)
    ids, logprobs = draw(logits.expand(len(u), 4), u)
    share = torch.bincount(ids, minlength=4) / len(u)
    torch.testing.assert_close(share.float(), logits.softmax(-1), rtol=0, atol=2e-4)
    assert (ids != 1).all()
    torch.testing.assert_close(logprobs, logits.log_softmax(-1)[ids])
