"""Log-probabilities with gradients: equal to the plain formula, whatever the padding, chunks and head."""

from __future__ import annotations

import pytest
import torch
from transformers import Gemma2Config, Gemma2ForCausalLM

from botgrpo_cli.policy import logprobs as module
from botgrpo_cli.policy.logprobs import completion_logprobs, pack, plain_head
from tests.conftest import make_policy

PROMPTS = [[5, 6, 7], [8, 9, 10, 11], [20]]
COMPLETIONS = [[30, 31, 32, 33, 0], [40], []]


def by_definition(policy, temperature):
    rows = []
    for prompt, ids in zip(PROMPTS, COMPLETIONS, strict=True):
        logits = policy.causal_lm(input_ids=torch.tensor([prompt + ids])).logits[0].float() / temperature
        log_p = torch.log_softmax(logits, -1)[len(prompt) - 1 : len(prompt) + len(ids) - 1]
        rows.append(
            (log_p.gather(-1, torch.tensor(ids, dtype=torch.long)[:, None]).squeeze(-1), -(log_p.exp() * log_p).sum(-1))
        )
    return rows


@pytest.mark.parametrize("chunk", [1, 2, 1024])
@pytest.mark.parametrize("lora", [False, True])
def test_values_and_gradients_are_those_of_the_plain_formula(chunk, lora, monkeypatch):
    monkeypatch.setattr(module, "CHUNK_ROWS", chunk)
    policy = make_policy(lora=lora)
    batch = pack(PROMPTS, COMPLETIONS, policy)
    found, entropy = completion_logprobs(policy, batch, 0.7)
    expected = by_definition(policy, 0.7)
    for i, (lp, h) in enumerate(expected):
        torch.testing.assert_close(found[i, : len(lp)], lp, rtol=0, atol=1e-4)
        torch.testing.assert_close(entropy[i, : len(h)], h, rtol=0, atol=1e-4)
        assert (found[i, len(lp) :] == 0).all()
    weights = torch.linspace(-1, 1, found.numel()).view_as(found)
    wanted = torch.autograd.grad(
        sum((lp * weights[i, : len(lp)]).sum() for i, (lp, _) in enumerate(expected)), list(policy.trainable().values())
    )
    got = torch.autograd.grad((found * weights).sum(), list(policy.trainable().values()))
    for name, a, b in zip(policy.trainable(), got, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4, msg=lambda m, name=name: f"{name}: {m}")


def test_masks_come_from_lengths_even_where_padding_is_an_end_token(policy):
    batch = pack(PROMPTS, COMPLETIONS, policy)
    assert policy.pad_id == 0
    assert COMPLETIONS[0][-1] == 0
    assert batch.mask.sum(1).tolist() == [5, 1, 0]


def test_a_model_that_caps_its_logits_is_not_run_through_the_bare_head():
    policy = make_policy()
    torch.manual_seed(0)
    config = Gemma2Config(
        vocab_size=len(policy.tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        final_logit_softcapping=2.0,
        initializer_range=0.3,
    )
    policy.model = Gemma2ForCausalLM(config).eval()
    assert not plain_head(policy)
    found, _ = completion_logprobs(policy, pack(PROMPTS, COMPLETIONS, policy), 0.7)
    for i, (lp, _) in enumerate(by_definition(policy, 0.7)):
        torch.testing.assert_close(found[i, : len(lp)], lp, rtol=0, atol=1e-4)


def test_bfloat16_stays_close_to_float32():
    exact, low = make_policy(lora=True), make_policy(lora=True, dtype=torch.bfloat16)
    a, _ = completion_logprobs(exact, pack(PROMPTS, COMPLETIONS, exact), 1.0)
    b, _ = completion_logprobs(low, pack(PROMPTS, COMPLETIONS, low), 1.0)
    assert b.dtype == torch.float32
    assert (a - b).abs().max() < 0.5
