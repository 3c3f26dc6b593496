"""The shapes of the tiny policies: the three base families, with everything that sets each apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from transformers import AutoModelForCausalLM, Phi3Config, PreTrainedConfig, PreTrainedModel, Qwen2Config, SmolLM3Config

Architecture = Literal["qwen2", "smollm3", "phi3"]
POSITIONS = 1024

CONFIGS: dict[Architecture, Callable[..., PreTrainedConfig]] = {
    "qwen2": Qwen2Config,  # biases on q, k and v
    "smollm3": SmolLM3Config,  # every fourth layer without positions
    "phi3": Phi3Config,  # q, k and v in one matrix, gate and up in another
}
# Where the default of the config does not do: Phi-4-mini rotates three quarters of a head; the rotary base of SmolLM3,
# 2 million, is for contexts of 64,000 tokens.
EXTRA: dict[Architecture, dict[str, Any]] = {
    "smollm3": {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}},
    "phi3": {"partial_rotary_factor": 0.75, "original_max_position_embeddings": POSITIONS},
}
TITLES: dict[Architecture, str] = {"qwen2": "Qwen2", "smollm3": "SmolLM3", "phi3": "Phi-3"}


def new_model(
    architecture: Architecture,
    *,
    vocabulary: int,
    hidden: int,
    intermediate: int,
    layers: int,
    end: int,
    pad: int,
) -> PreTrainedModel:
    """Random weights of a shape: 4 heads that share 2 keys, tied embeddings. Seed torch before."""
    config = CONFIGS[architecture](
        vocab_size=vocabulary,
        hidden_size=hidden,
        intermediate_size=intermediate,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=POSITIONS,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=end,
        pad_token_id=pad,
        **EXTRA.get(architecture, {}),
    )
    return AutoModelForCausalLM.from_config(config)
