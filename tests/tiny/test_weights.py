from __future__ import annotations

from random import Random

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    GenerationConfig,
    PreTrainedTokenizerBase,
    Qwen2ForCausalLM,
)

from botgrpo_cli.tasks.react.workers import ReactChecker
from botgrpo_cli.tiny import react, weights_folder
from botgrpo_cli.tiny.measure import measure

FOLDER = weights_folder("react-qwen2")


@pytest.fixture(scope="module")
def model() -> Qwen2ForCausalLM:
    return AutoModelForCausalLM.from_pretrained(FOLDER, dtype="float32").eval()


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerBase:
    return AutoTokenizer.from_pretrained(FOLDER)


def test_size_and_shape(model: Qwen2ForCausalLM, tokenizer: PreTrainedTokenizerBase) -> None:
    assert isinstance(model, Qwen2ForCausalLM)
    assert 1_000_000 < model.num_parameters() < 2_000_000
    assert (FOLDER / "model.safetensors").stat().st_size < 4_000_000
    assert model.config.vocab_size == len(tokenizer)
    assert AutoModelForCausalLM.from_pretrained(FOLDER).dtype == torch.float16


def test_end_ids_agree(tokenizer: PreTrainedTokenizerBase) -> None:
    ends = GenerationConfig.from_pretrained(FOLDER).eos_token_id
    assert tokenizer.eos_token_id in ends
    assert tokenizer.convert_tokens_to_ids("<|endoftext|>") in ends
    assert tokenizer.bos_token is None


def test_components_and_briefs_have_the_promised_lengths(tokenizer: PreTrainedTokenizerBase) -> None:
    tasks = react.tasks("held-out")
    texts = [react.answer(react.write(task, Random(number))) for number, task in enumerate(tasks)]
    lengths = sorted(len(ids) + 1 for ids in tokenizer(texts)["input_ids"])
    assert lengths[0] >= 80
    assert 140 <= lengths[len(lengths) // 2] <= 190
    assert lengths[-1] <= 260
    briefs = sorted(len(ids) for ids in tokenizer([task.prompt.text for task in tasks])["input_ids"])
    assert briefs[len(briefs) // 2] <= 40


def test_the_card_is_there() -> None:
    assert "python -m botgrpo_cli.tiny build react" in (FOLDER / "CARD.md").read_text(encoding="utf-8")


def test_it_knows_the_task_but_errs_when_sampled(
    model: Qwen2ForCausalLM, tokenizer: PreTrainedTokenizerBase, checker: ReactChecker
) -> None:
    prompts = react.prompts("held-out")[:48]
    sampled = measure(model, tokenizer, checker, prompts, temperature=1.0)
    greedy = measure(model, tokenizer, checker, prompts, temperature=0.0)
    assert sampled.compile_rate < 0.2
    assert greedy.compile_rate > 0.5
    assert greedy.content_compiled > 0.8
    assert greedy.format_rate > 0.9
