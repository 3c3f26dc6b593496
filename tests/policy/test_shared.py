"""Each prompt once in the update: the same numbers and gradients as one row a rollout."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import scaled_dot_product_attention
from transformers import AutoModelForCausalLM, BloomConfig, MambaConfig, MistralConfig, Phi3Config

from botgrpo_cli.policy.causal import CausalAttention
from botgrpo_cli.policy.load import load_policy
from botgrpo_cli.policy.logprobs import completion_logprobs, pack, shares_prompts
from botgrpo_cli.policy.shared import FromRectangle, ToRectangle, attending, lay_out
from botgrpo_cli.recipe.schema import PolicyConfig
from tests import conftest
from tests.conftest import make_policy

PROMPTS = [[5, 6, 7, 8], [5, 6, 7, 8], [9, 10], [5, 6, 7, 8], [9, 10], [11, 12, 13]]
COMPLETIONS = [[30, 31, 32, 33, 0], [40], [50, 51], [], [60, 61, 62], [70]]
SETTINGS = settings(max_examples=60, deadline=None)
conftest.CONFIGS.setdefault("phi3", Phi3Config)

token_lists = st.lists(st.integers(0, 3), max_size=4)


@SETTINGS
@given(
    prompts=st.lists(st.sampled_from([(1, 2), (1,), (1, 2, 3)]), min_size=1, max_size=6),
    data=st.data(),
)
def test_the_layout_holds_each_prompt_once_and_every_row_whole(prompts, data):
    completions = [data.draw(token_lists) for _ in prompts]
    layout = lay_out(prompts, completions)
    assert len(layout.ids) == sum(map(len, set(prompts))) + sum(map(len, completions))
    rows, width = layout.shape
    cells = layout.rectangle.view(rows, width)
    for k, (prompt, completion) in enumerate(zip(prompts, completions, strict=True)):
        whole = [*prompt, *completion]
        assert layout.ids[cells[k, : len(whole)]].tolist() == whole
        assert layout.positions[cells[k, : len(whole)]].tolist() == list(range(len(whole)))
    assert layout.rectangle[layout.home].tolist() == list(range(len(layout.ids)))


@SETTINGS
@given(prompts=st.lists(st.sampled_from([(1, 2), (1,), (1, 2, 3)]), min_size=1, max_size=6), data=st.data())
def test_gathers_have_the_gradient_of_indexing(prompts, data):
    layout = lay_out(prompts, [data.draw(token_lists) for _ in prompts])
    rows, width = layout.shape
    valid = torch.zeros(rows * width, dtype=torch.bool)
    valid[layout.home] = True
    valid[layout.copies[layout.copies < rows * width]] = True
    generator = torch.Generator().manual_seed(0)
    row = torch.randn(len(layout.ids), 2, generator=generator, dtype=torch.float64, requires_grad=True)
    grad = torch.randn(rows * width, 2, generator=generator, dtype=torch.float64) * valid[:, None]
    (wanted,) = torch.autograd.grad(row[layout.rectangle], row, grad)  # padding has gradient 0, as attention leaves it
    (found,) = torch.autograd.grad(ToRectangle.apply(row, layout), row, grad)
    torch.testing.assert_close(found, wanted)
    cells = torch.randn(rows * width, 2, generator=generator, dtype=torch.float64, requires_grad=True)
    back = torch.randn(len(layout.ids), 2, generator=generator, dtype=torch.float64)
    (wanted,) = torch.autograd.grad(cells[layout.home], cells, back)
    (found,) = torch.autograd.grad(FromRectangle.apply(cells, layout), cells, back)
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("lora", [False, True])
@pytest.mark.parametrize("family", ["qwen2", "llama", "smollm3", "phi3"])
def test_log_probabilities_and_gradients_are_those_of_one_row_a_rollout(family, lora):
    policy = make_policy(family, lora=lora)
    assert shares_prompts(policy)
    parameters = list(policy.trainable().values())
    results = []
    for share in (True, False):
        batch = pack(PROMPTS, COMPLETIONS, policy, share=share)
        assert (batch.layout is not None) == share
        found, entropy = completion_logprobs(policy, batch, 0.7)
        weights = torch.linspace(-1, 1, found.numel()).view_as(found)
        results.append((found, entropy, torch.autograd.grad((found * weights).sum(), parameters)))
    (a, h, grads), (b, i, wanted) = results
    torch.testing.assert_close(a, b, rtol=0, atol=1e-5)
    torch.testing.assert_close(h, i, rtol=0, atol=1e-5)
    for x, y in zip(grads, wanted, strict=True):
        torch.testing.assert_close(x, y, rtol=1e-4, atol=1e-5)


def test_other_forward_passes_see_nothing_of_it(policy):
    before = policy.causal_lm.config._attn_implementation
    completion_logprobs(policy, pack(PROMPTS, COMPLETIONS, policy), 1.0)
    assert policy.causal_lm.config._attn_implementation == before


def test_bfloat16_agrees_within_its_rounding():
    policy, exact = make_policy(dtype=torch.bfloat16), make_policy()
    assert shares_prompts(policy)
    low, _ = completion_logprobs(policy, pack(PROMPTS, COMPLETIONS, policy), 1.0)
    high, _ = completion_logprobs(exact, pack(PROMPTS, COMPLETIONS, exact), 1.0)
    assert (low - high).abs().mean() < 0.1
    low.sum().backward()
    assert all(p.grad.isfinite().all() for p in policy.trainable().values() if p.grad is not None)


def other_model(config):
    policy = make_policy()
    torch.manual_seed(0)
    policy.model = AutoModelForCausalLM.from_config(config(vocab_size=len(policy.tokenizer))).eval()
    return policy


def test_a_sliding_window_is_kept():
    policy = other_model(
        lambda **size: MistralConfig(**conftest.SHAPES, **size, sliding_window=3, initializer_range=0.3)
    )
    assert shares_prompts(policy)
    found, _ = completion_logprobs(policy, pack(PROMPTS, COMPLETIONS, policy, share=True), 1.0)
    wanted, _ = completion_logprobs(policy, pack(PROMPTS, COMPLETIONS, policy, share=False), 1.0)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-5)


def bloom(**size):
    return BloomConfig(hidden_size=32, n_layer=2, n_head=4, initializer_range=0.3, **size)


def mamba(**size):
    return MambaConfig(hidden_size=32, num_hidden_layers=2, state_size=4, initializer_range=0.3, **size)


@pytest.mark.parametrize("config", [bloom, mamba])
def test_a_model_that_looks_at_more_than_positions_runs_one_row_a_rollout(config):
    policy = other_model(config)
    assert not shares_prompts(policy)
    assert pack(PROMPTS, COMPLETIONS, policy).layout is None


@pytest.mark.parametrize("heads", [(4, 4), (6, 2)])
def test_causal_attention_is_sdpa(heads):
    query_heads, key_heads = heads
    generator = torch.Generator().manual_seed(0)

    def tensor(count):
        shape = (3, 7, count, 5)  # as the layers make them: heads behind positions, then transposed
        return torch.randn(shape, generator=generator, dtype=torch.float64).transpose(1, 2).requires_grad_()

    q, k, v = tensor(query_heads), tensor(key_heads), tensor(key_heads)
    grad = torch.randn(3, query_heads, 7, 5, generator=generator, dtype=torch.float64)
    found = CausalAttention.apply(q, k, v, 0.3)
    wanted = scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3, enable_gqa=True)
    torch.testing.assert_close(found, wanted)
    inputs = (q, k, v)
    for a, b in zip(torch.autograd.grad(found, inputs, grad), torch.autograd.grad(wanted, inputs, grad), strict=True):
        torch.testing.assert_close(a, b)


def test_layers_that_are_recomputed_share_prompts_too(tmp_path):
    plain = make_policy()
    plain.model.save_pretrained(tmp_path)
    plain.tokenizer.save_pretrained(tmp_path)
    config = PolicyConfig(model=str(tmp_path), dtype="float32", device="cpu", gradient_checkpointing=True)
    policy = load_policy(config)
    assert shares_prompts(policy)
    calls = []
    for layer in policy.causal_lm.base_model.layers:
        layer.self_attn.register_forward_hook(lambda *_: calls.append(1))
    grads = []
    for one in (policy, plain):
        found, _ = completion_logprobs(one, pack(PROMPTS, COMPLETIONS, one), 1.0)
        with attending(one.causal_lm):
            found.sum().backward()
        grads.append([p.grad for p in one.trainable().values()])
    assert len(calls) == 4  # two layers, forward and again in the backward pass
    for a, b in zip(*grads, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)
