"""Builds the tiny scale's starting policy: a byte-level BPE and a Qwen2-shaped language model, from scratch.

The model learns briefs and *damaged* components, so that sampled at temperature 1 it rarely compiles while its
most likely tokens do: it knows the task, and reinforcement learning has to take the noise out. Sizes, schedule
and damage are our choices; the card beside the weights reports what they gave.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import Tensor
from transformers import GenerationConfig, PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from botgrpo_cli.tiny import react
from botgrpo_cli.tiny.damage import damage

WEIGHTS = Path(__file__).parent / "weights"
PAD, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
# A capitalised word is its own piece without the space before it, so a title is the same ids in brief and code.
# A line break takes the indentation after it along; digits stand alone.
PIECES = r"\n *|[A-Z]?[a-z]+|[A-Z]| [a-z]+|[0-9]| ?[^\s\p{L}\p{N}]+|\s|[^\sa-zA-Z0-9]"
POSITIONS = 1024
LONGEST = 320  # ids of prompt and completion; longer examples are left out of training


@dataclass(frozen=True)
class BuildConfig:
    """How the policy is made. `damage` is the probability of an error in a line."""

    damage: float = 0.18
    batches: int = 2400
    batch_size: int = 16
    learning_rate: float = 3e-3
    warmup: int = 60
    vocabulary: int = 640
    hidden: int = 160
    intermediate: int = 480
    layers: int = 4
    seed: int = 0


def train_tokenizer(config: BuildConfig) -> PreTrainedTokenizerFast:
    """A byte-level BPE of `config.vocabulary` entries, trained on briefs and damaged components."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=config.vocabulary,
        special_tokens=[PAD, START, END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    texts = examples(replace(config, seed=config.seed + 1))
    tokenizer.train_from_iterator((part for _ in range(3000) for part in next(texts)), trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=END,
        pad_token=PAD,
        additional_special_tokens=[START],
        chat_template=CHAT_TEMPLATE,
        model_max_length=POSITIONS,
        clean_up_tokenization_spaces=False,
    )


def examples(config: BuildConfig) -> Iterator[tuple[str, str]]:
    """Endless (brief, damaged completion) pairs of the train split."""
    rng = Random(f"damage-{config.seed}")
    for task in react.draw_many("train", config.seed + 1):
        source, _ = damage(rng, react.write(task, rng), config.damage)
        yield task.prompt.text, react.answer(source)


def encode(tokenizer: PreTrainedTokenizerFast, brief: str, completion: str) -> tuple[list[int], int]:
    """The ids of one example, end token included, and how many of them are the prompt's."""
    text = tokenizer.apply_chat_template(
        [{"role": "user", "content": brief}], add_generation_prompt=True, tokenize=False
    )
    prompt = tokenizer(text, add_special_tokens=False)["input_ids"]
    answer = tokenizer(completion, add_special_tokens=False)["input_ids"]
    return [*prompt, *answer, tokenizer.eos_token_id], len(prompt)


def batches(config: BuildConfig, tokenizer: PreTrainedTokenizerFast) -> Iterator[tuple[Tensor, Tensor]]:
    """Endless (ids, labels), each `[B, T]`; the rows of a batch have similar lengths."""
    source, rng = examples(config), Random(f"order-{config.seed}")
    while True:
        pool = [encode(tokenizer, *next(source)) for _ in range(16 * config.batch_size)]
        pool = sorted((row for row in pool if len(row[0]) <= LONGEST), key=lambda row: len(row[0]))
        chunks = [pool[at : at + config.batch_size] for at in range(0, len(pool), config.batch_size)]
        rng.shuffle(chunks)
        for chunk in chunks:
            yield collate(chunk, tokenizer.pad_token_id)


def collate(rows: list[tuple[list[int], int]], pad: int) -> tuple[Tensor, Tensor]:
    """Right-padded ids and labels `[B, T]`; labels are -100 on prompt and padding.

    No attention mask is needed: attention is causal and padding stands last, so no labelled position sees it.
    """
    width = max(len(ids) for ids, _ in rows)
    ids = torch.full((len(rows), width), pad)  # [B, T]
    labels = torch.full_like(ids, -100)  # [B, T]
    for at, (row, prompt) in enumerate(rows):
        ids[at, : len(row)] = torch.tensor(row)
        labels[at, prompt : len(row)] = ids[at, prompt : len(row)]
    return ids, labels


def new_model(config: BuildConfig, tokenizer: PreTrainedTokenizerFast) -> Qwen2ForCausalLM:
    """Random weights in Qwen2's shape: grouped-query attention, tied embeddings."""
    torch.manual_seed(config.seed)
    shape = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=config.hidden,
        intermediate_size=config.intermediate,
        num_hidden_layers=config.layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=POSITIONS,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return Qwen2ForCausalLM(shape)


def fit(model: Qwen2ForCausalLM, config: BuildConfig, tokenizer: PreTrainedTokenizerFast) -> Iterator[float]:
    """Trains `model` in place; yields the loss (nats a completion token) of every batch."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=config.learning_rate, betas=(0.9, 0.95), weight_decay=0.01)

    def rate(step: int) -> float:
        warm = min(1.0, (step + 1) / config.warmup)
        return warm * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * min(1.0, step / config.batches))))

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
    source = batches(config, tokenizer)
    model.train()
    for _ in range(config.batches):
        ids, labels = next(source)
        loss = model(input_ids=ids, labels=labels).loss
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        yield loss.item()
    model.eval()


def save(model: Qwen2ForCausalLM, tokenizer: PreTrainedTokenizerFast, out: Path) -> None:
    """Writes config, fp16 safetensors, tokenizer with its chat template, and the generation config."""
    out.mkdir(parents=True, exist_ok=True)
    half = Qwen2ForCausalLM(model.config)
    half.load_state_dict(model.state_dict())
    half = half.to(torch.float16)
    half.generation_config = GenerationConfig(
        do_sample=True,
        temperature=1.0,
        eos_token_id=[tokenizer.eos_token_id, tokenizer.pad_token_id],
        pad_token_id=tokenizer.pad_token_id,
    )
    half.save_pretrained(out)
    tokenizer.save_pretrained(out)
    for file in out.iterdir():
        file.chmod(0o644)  # safetensors writes 0600, which an installed package must not keep
