"""A GGUF file as policy: written here with the gguf package, loaded as `policy.model: file.gguf`, trained from."""

from __future__ import annotations

import json

import gguf
import torch

from botgrpo_cli.policy.load import load_policy
from botgrpo_cli.policy.logprobs import completion_logprobs, pack
from botgrpo_cli.recipe.schema import PolicyConfig
from tests.conftest import make_policy

LAYER = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def permuted(weight: torch.Tensor, heads: int) -> torch.Tensor:
    """llama.cpp keeps the two halves of a rotary pair side by side."""
    rows, width = weight.shape
    return weight.view(heads, 2, rows // heads // 2, width).transpose(1, 2).reshape(rows, width)


def write_gguf(policy, path) -> None:
    config, tokenizer = policy.model.config, policy.tokenizer
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_vocab_size(config.vocab_size)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    vocabulary = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    special = set(tokenizer.all_special_ids) | {0, 1, 2}
    writer.add_token_list([token for token, _ in vocabulary])
    writer.add_token_types([3 if i in special else 1 for _, i in vocabulary])
    merges = json.loads(tokenizer.backend_tokenizer.to_str())["model"]["merges"]
    writer.add_token_merges([" ".join(pair) for pair in merges])
    writer.add_eos_token_id(0)
    weights = policy.model.state_dict()
    writer.add_tensor("token_embd.weight", weights["model.embed_tokens.weight"].numpy())
    writer.add_tensor("output_norm.weight", weights["model.norm.weight"].numpy())
    for i in range(config.num_hidden_layers):
        for ours, theirs in LAYER.items():
            tensor = weights[f"model.layers.{i}.{ours}.weight"]
            if theirs in ("attn_q", "attn_k"):
                heads = config.num_attention_heads if theirs == "attn_q" else config.num_key_value_heads
                tensor = permuted(tensor, heads)
            writer.add_tensor(f"blk.{i}.{theirs}.weight", tensor.contiguous().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_a_gguf_file_is_unpacked_to_weights_that_train(tmp_path):
    source = make_policy("llama")
    write_gguf(source, tmp_path / "model.gguf")
    policy = load_policy(PolicyConfig(model=str(tmp_path / "model.gguf"), dtype="float32", device="cpu"))
    prompts, completions = [[5, 6, 7]], [[30, 31, 0]]
    found, _ = completion_logprobs(policy, pack(prompts, completions, policy), 1.0)
    expected, _ = completion_logprobs(source, pack(prompts, completions, source), 1.0)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)
    found.sum().backward()
    assert all(p.grad is not None for p in policy.trainable().values())
    assert 0 in policy.eos_ids
