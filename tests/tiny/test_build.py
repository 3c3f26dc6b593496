from __future__ import annotations

from dataclasses import replace
from itertools import islice
from pathlib import Path
from random import Random

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerBase
from typer.testing import CliRunner

from botgrpo_cli.tiny import build, react
from botgrpo_cli.tiny.__main__ import app
from botgrpo_cli.tiny.card import card
from botgrpo_cli.tiny.measure import Measured

SMALL = build.BuildConfig(copy_batches=2, batches=3, batch_size=4, warmup=1)


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerBase:
    return build.train_tokenizer(SMALL)


def test_tokenizer_round_trips_any_text(tokenizer: PreTrainedTokenizerBase) -> None:
    texts = [react.answer(react.write(task, Random(0))) for task in react.tasks("held-out")[:100]]
    for text in [*texts, "Grüße, 世界 🙂\t\x00\r\n  x", "   ", ""]:
        assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


def test_a_token_never_reaches_over_a_line_into_text(tokenizer: PreTrainedTokenizerBase) -> None:
    for token in tokenizer.get_vocab():
        text = tokenizer.convert_tokens_to_string([token])
        assert "\n" not in text or (text.startswith("\n") and not text.strip())


def test_chat_template_gives_one_prompt_and_no_extra_start(tokenizer: PreTrainedTokenizerBase) -> None:
    chat = [{"role": "user", "content": "Tabs"}]
    text = tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
    assert text == "<|im_start|>user\nTabs<|im_end|>\n<|im_start|>assistant\n"
    ids = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=False)
    assert ids == tokenizer(text)["input_ids"]
    assert tokenizer.bos_token is None
    starts = [at for at, token in enumerate(ids) if token == tokenizer.convert_tokens_to_ids(build.START)]
    assert len(starts) == 2
    assert starts[0] == 0


def test_examples_are_seeded_and_of_the_train_split() -> None:
    first = list(islice(build.examples(SMALL), 50))
    assert first == list(islice(build.examples(SMALL), 50))
    assert first != list(islice(build.examples(replace(SMALL, seed=1)), 50))
    assert all(react.split_of(brief) == "train" for brief, _ in first)


def test_labels_cover_completion_and_end_token_only(tokenizer: PreTrainedTokenizerBase) -> None:
    rows = [
        build.encode(tokenizer, "Tabs", "```jsx\nx\n```"),
        build.encode(tokenizer, "Quiz called Attic", "```jsx\n```"),
    ]
    ids, labels = build.collate(rows, tokenizer.pad_token_id)  # [B, T]
    for at, (row, prompt) in enumerate(rows):
        assert ids[at, : len(row)].tolist() == row
        assert labels[at, prompt : len(row)].tolist() == row[prompt:]
        assert row[-1] == tokenizer.eos_token_id
        assert (labels[at, :prompt] == -100).all()
        assert (labels[at, len(row) :] == -100).all()


def test_padding_changes_no_loss(tokenizer: PreTrainedTokenizerBase) -> None:
    model = build.new_model(SMALL, tokenizer).eval()
    row = build.encode(tokenizer, "Tabs", "```jsx\nx\n```")
    ids, labels = build.collate([row], tokenizer.pad_token_id)
    more = torch.nn.functional.pad(ids, (0, 7), value=tokenizer.pad_token_id)
    padded = model(input_ids=more, labels=torch.nn.functional.pad(labels, (0, 7), value=-100)).loss
    torch.testing.assert_close(padded, model(input_ids=ids, labels=labels).loss)


def test_three_batches_train_save_and_load(tmp_path: Path, tokenizer: PreTrainedTokenizerBase) -> None:
    model = build.new_model(SMALL, tokenizer)
    before = model.lm_head.weight.detach().clone()
    losses = list(build.fit(model, SMALL, tokenizer))
    assert len(losses) == 5
    assert losses[-1] < losses[2] + 0.5
    assert not torch.equal(before, model.lm_head.weight)
    assert not model.training
    build.save(model, tokenizer, tmp_path)
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert loaded.dtype == torch.float16
    assert all(file.stat().st_mode & 0o777 == 0o644 for file in tmp_path.iterdir())
    text = react.answer("x\n")
    assert AutoTokenizer.from_pretrained(tmp_path)(text)["input_ids"] == tokenizer(text)["input_ids"]


def test_the_same_seed_gives_the_same_weights(tokenizer: PreTrainedTokenizerBase) -> None:
    one = replace(SMALL, copy_batches=1, batches=1)
    models = [build.new_model(one, tokenizer) for _ in range(2)]
    losses = [list(build.fit(model, one, tokenizer)) for model in models]
    assert losses[0] == losses[1]
    assert torch.equal(models[0].lm_head.weight, models[1].lm_head.weight)


def test_card_names_the_command_and_the_figures() -> None:
    figures = {"T = 1": Measured(256, 0.043, 0.02, 0.9, 1.0, 0.99, 170, 18, 0.16)}
    text = card(replace(SMALL, damage=0.25, seed=7), 1_300_000, 0.5, figures)
    assert "python -m botgrpo_cli.tiny build react --seed 7 --damage 0.25" in text
    assert "| compile rate | 4.3% |" in text
    assert "1,300,000 parameters" in text


def test_unknown_policy_is_refused_with_the_nearest_word() -> None:
    result = CliRunner().invoke(app, ["build", "raect"])
    assert result.exit_code == 2
    assert "'react'" in result.output
