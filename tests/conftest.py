"""Small real parts that many tests use: a byte-level tokenizer and randomly initialised causal LMs."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoModelForCausalLM, LlamaConfig, PreTrainedTokenizerFast, Qwen2Config, SmolLM3Config

from botgrpo_cli.policy.load import Policy
from botgrpo_cli.rewards.spans import TokenBytes

torch.set_num_threads(1)

TEXT = "export default function App() {\n  return <div className='a'>hello</div>;\n}\n"
TEMPLATE = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>' + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
SHAPES = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "eos_token_id": [0, 2],
    "bos_token_id": None,
    "pad_token_id": 0,
}
CONFIGS = {"qwen2": Qwen2Config, "llama": LlamaConfig, "smollm3": SmolLM3Config}


def make_tokenizer() -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=SPECIALS, initial_alphabet=alphabet)
    tokenizer.train_from_iterator([TEXT] * 5, trainer)
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=SPECIALS[0], pad_token=SPECIALS[0])
    wrapped.chat_template = TEMPLATE
    return wrapped


def make_policy(
    family: str = "qwen2", *, dtype: torch.dtype = torch.float32, seed: int = 0, lora: bool = False
) -> Policy:
    """A randomly initialised policy of a family, wide awake: initial weights large enough for peaked logits."""
    tokenizer = make_tokenizer()
    torch.manual_seed(seed)
    config = CONFIGS[family](vocab_size=len(tokenizer), initializer_range=0.2, tie_word_embeddings=True, **SHAPES)
    model = AutoModelForCausalLM.from_config(config, dtype=dtype if lora else torch.float32).eval()
    if lora:
        from botgrpo_cli.policy.adapters import add_adapters
        from botgrpo_cli.recipe.schema import LoraConfig

        model = add_adapters(model, LoraConfig(rank=4, alpha=8))
        with torch.no_grad():  # a fresh adapter is zero; this one is felt
            for name, p in model.named_parameters():
                if "lora_B" in name:
                    p.normal_(0, 0.2)
    return Policy(
        model, tokenizer, torch.device("cpu"), dtype, frozenset({0, 2}), f"random-{family}", TokenBytes(tokenizer)
    )


@pytest.fixture
def policy() -> Policy:
    return make_policy()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with slow tests first: with two workers a long one at the very end would run alone."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)  # stable
