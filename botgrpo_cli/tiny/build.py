"""Builds a starting policy of the tiny scale: a byte-level BPE and a small language model, from scratch.

The model learns prompts and *damaged* completions, so that sampled at temperature 1 it rarely succeeds while its most
likely tokens do: it knows the task, and reinforcement learning has to take the noise out. Sizes, schedule and damage
are our choices (`tiny.policies`); the card beside the weights reports what they gave.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import torch
import torch.nn.functional as F
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import Tensor
from transformers import GenerationConfig, PreTrainedModel, PreTrainedTokenizerFast

from botgrpo_cli.tiny import shapes
from botgrpo_cli.tiny.texts import TEXTS, Stage, Text, TextName

PAD, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
COPIED = 24  # ids that come again in a copying batch
LONGEST = 320  # ids of prompt and completion; longer examples are left out of training


@dataclass(frozen=True)
class BuildConfig:
    """How a policy is made."""

    text: TextName
    architecture: shapes.Architecture
    stages: tuple[Stage, ...]  # one after the other; the learning rate decays over all of them
    copy_batches: int = 0  # batches of random ids that come twice, before
    batch_size: int = 16
    learning_rate: float = 3e-3
    warmup: int = 30
    emphasis: float = 1.0  # weight of copied words in the loss at the start
    vocabulary: int = 1280  # entries of the BPE at most
    hidden: int = 160
    intermediate: int = 480
    layers: int = 4
    seed: int = 0

    @property
    def source(self) -> Text:
        return TEXTS[self.text]

    @property
    def batches(self) -> int:
        return sum(stage.batches for stage in self.stages)


def train_tokenizer(config: BuildConfig) -> PreTrainedTokenizerFast:
    """At most `config.vocabulary` entries that a byte-level BPE finds in prompts and clean completions, and the words.

    Nearly every word of the generated texts gets an entry of its own: a small model copies one id far more easily
    than a spelling in pieces. `AutoTokenizer` gives any model of type qwen2 the pieces of Qwen2 whatever its
    tokenizer.json says; only added tokens and single bytes come out the same. So what the BPE found becomes added
    tokens, of which the longest that fits is taken, and nothing is merged.
    """
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    single = {token: number for number, token in enumerate([PAD, START, END, *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocab=single, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    words = dict.fromkeys([*_found(config), *config.source.words])
    tokenizer.add_tokens([AddedToken(word, normalized=False) for word in words])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=END,
        pad_token=PAD,
        padding_side="left",
        additional_special_tokens=[START],
        chat_template=CHAT_TEMPLATE,
        model_max_length=shapes.POSITIONS,
        clean_up_tokenization_spaces=False,
    )


def _found(config: BuildConfig) -> list[str]:
    """The entries of more than one byte, as text, in the order in which they were found."""
    tokenizer = Tokenizer(models.BPE())
    cut = [pre_tokenizers.Split(Regex(config.source.pieces), "isolated")] if config.source.pieces else []
    bytes_ = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*cut, bytes_])
    trainer = trainers.BpeTrainer(
        vocab_size=config.vocabulary,
        special_tokens=[PAD, START, END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    texts = config.source.examples(config.seed, Stage(0))
    tokenizer.train_from_iterator((part for _ in range(4000) for part in next(texts)), trainer)
    ids, letters = tokenizer.get_vocab(), decoders.ByteLevel()  # a mapping in no order
    entries = [token for token in sorted(ids, key=ids.__getitem__) if len(token) > 1]
    return [letters.decode([token]) for token in entries if token not in (PAD, START, END)]


def encode(tokenizer: PreTrainedTokenizerFast, prompt: str, completion: str) -> tuple[list[int], int]:
    """The ids of one example, end token included, and how many of them are the prompt's."""
    text = tokenizer.apply_chat_template(
        [{"role": "user", "content": prompt}], add_generation_prompt=True, tokenize=False
    )
    asked = tokenizer(text, add_special_tokens=False)["input_ids"]
    answer = tokenizer(completion, add_special_tokens=False)["input_ids"]
    return [*asked, *answer, tokenizer.eos_token_id], len(asked)


def batches(
    config: BuildConfig, stage: Stage, tokenizer: PreTrainedTokenizerFast, number: int = 0
) -> Iterator[tuple[Tensor, Tensor]]:
    """The (ids, labels) of a stage, the `number`-th, each `[B, T]`; the rows of a batch have similar lengths."""
    source = config.source.examples(config.seed + 1000 * number, stage)
    rng, left = Random(f"order-{config.seed}"), stage.batches
    while left:
        pool = [encode(tokenizer, *next(source)) for _ in range(16 * config.batch_size)]
        pool = sorted((row for row in pool if len(row[0]) <= LONGEST), key=lambda row: len(row[0]))
        chunks = [pool[at : at + config.batch_size] for at in range(0, len(pool), config.batch_size)]
        rng.shuffle(chunks)
        for chunk in chunks[:left]:
            yield collate(chunk, tokenizer.pad_token_id)
        left = max(0, left - len(chunks))


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


def new_model(config: BuildConfig, tokenizer: PreTrainedTokenizerFast) -> PreTrainedModel:
    """Random weights in the shape of `config.architecture`."""
    torch.manual_seed(config.seed)
    return shapes.new_model(
        config.architecture,
        vocabulary=len(tokenizer),
        hidden=config.hidden,
        intermediate=config.intermediate,
        layers=config.layers,
        end=tokenizer.eos_token_id,
        pad=tokenizer.pad_token_id,
    )


def fit(model: PreTrainedModel, config: BuildConfig, tokenizer: PreTrainedTokenizerFast) -> Iterator[float]:
    """Trains `model` in place; yields the loss (nats a token) of every batch, first of the copying ones."""
    model.train()
    yield from learn_to_copy(model, config)
    copied = copied_ids(config, tokenizer)
    optimizers = make_optimizers(model, config.learning_rate)
    stages = (batches(config, stage, tokenizer, number) for number, stage in enumerate(config.stages))
    for step, (ids, labels) in enumerate(batch for stage in stages for batch in stage):
        loss, objective = losses(model(input_ids=ids).logits, labels, copied, emphasis(step, config))
        objective.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        _update(optimizers, config.learning_rate * schedule(step, config))
        yield loss.item()
    model.eval()


def make_optimizers(model: PreTrainedModel, rate: float) -> tuple[torch.optim.Optimizer, ...]:
    """Muon for the layers' matrices, AdamW for tied embedding, norms and biases: half the batches of AdamW alone."""
    matrices = [p for name, p in model.named_parameters() if p.ndim == 2 and "embed_tokens" not in name]
    rest = [p for name, p in model.named_parameters() if p.ndim != 2 or "embed_tokens" in name]
    return (
        torch.optim.Muon(matrices, lr=rate, weight_decay=0.01, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(rest, lr=rate, betas=(0.9, 0.95), weight_decay=0.01),
    )


def _update(optimizers: tuple[torch.optim.Optimizer, ...], rate: float) -> None:
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


def learn_to_copy(model: PreTrainedModel, config: BuildConfig) -> Iterator[float]:
    """Batches of random ids that come twice, loss on the second time: the model learns to look back and copy.

    Components alone hardly teach it: after 900 batches of them a model copied 1 % of the titles of briefs; after 300
    of these and 100 of components with copied words emphasised, another copied all of them.
    """
    optimizers = make_optimizers(model, config.learning_rate)
    randomness = torch.Generator().manual_seed(config.seed)
    for step in range(config.copy_batches):
        gap = int(torch.randint(1, COPIED, (), generator=randomness))
        shape = (2 * config.batch_size, COPIED + gap)
        ids = torch.randint(3, model.config.vocab_size, shape, generator=randomness)  # [B, COPIED + gap]
        ids = torch.cat([ids, ids[:, :COPIED]], 1)  # [B, T]
        logits = model(input_ids=ids).logits[:, -COPIED:-1]  # [B, COPIED - 1, V]; the first copied id is a guess
        loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1 - COPIED :].flatten())
        loss.backward()
        _update(optimizers, config.learning_rate * min(1.0, (step + 1) / config.warmup))
        yield loss.item()


def copied_ids(config: BuildConfig, tokenizer: PreTrainedTokenizerFast) -> Tensor:
    """The ids that a completion takes over from its prompt, `[N]`."""
    return torch.tensor(sorted({tokenizer(word)["input_ids"][0] for word in config.source.copied()}))


def losses(logits: Tensor, labels: Tensor, copied: Tensor, weight: float) -> tuple[Tensor, Tensor]:
    """Mean loss of the labelled tokens, and the same with `weight` on tokens in `copied`. Logits are `[B, T, V]`."""
    targets = labels[:, 1:].reshape(-1)  # [B * (T - 1)]
    each = F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), targets, reduction="none", ignore_index=-100)
    weights = torch.where(torch.isin(targets, copied), weight, 1.0) * (targets != -100)
    return each.sum().detach() / (targets != -100).sum(), (each * weights).sum() / weights.sum()


def emphasis(step: int, config: BuildConfig) -> float:
    """Weight of copied words; falls to 1 at half time, so that the damage is learnt with its true probabilities."""
    return 1 + (config.emphasis - 1) * max(0.0, 1 - 2 * step / config.batches)


def schedule(step: int, config: BuildConfig) -> float:
    """Share of the learning rate at `step`: linear warm-up, then a cosine down to 2 %."""
    warm = min(1.0, (step + 1) / config.warmup)
    return warm * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * step / config.batches)))


def save(model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, out: Path) -> None:
    """Writes config, fp16 safetensors, tokenizer with its chat template, and the generation config."""
    out.mkdir(parents=True, exist_ok=True)
    half = type(model)(model.config)
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
