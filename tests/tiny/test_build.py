from __future__ import annotations

from dataclasses import replace
from itertools import islice
from pathlib import Path
from random import Random

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerBase
from typer.testing import CliRunner

from botgrpo_cli.tiny import build, chains, measure_chains, react
from botgrpo_cli.tiny.__main__ import app
from botgrpo_cli.tiny.card import card
from botgrpo_cli.tiny.measure import Measured
from botgrpo_cli.tiny.policies import POLICIES
from botgrpo_cli.tiny.texts import Stage

SMALL = build.BuildConfig("react", "qwen2", (Stage(2, damage=0.2), Stage(1)), copy_batches=2, batch_size=4, warmup=1)
CHAINS = build.BuildConfig(
    "aime",
    "qwen2",
    (Stage(2, operations=(1, 3)), Stage(1, damage=0.2)),
    batch_size=4,
    warmup=1,
    hidden=32,
    layers=2,
    vocabulary=259,
)


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerBase:
    return build.train_tokenizer(SMALL)


@pytest.fixture(scope="module")
def chain_tokenizer() -> PreTrainedTokenizerBase:
    return build.train_tokenizer(CHAINS)


def test_tokenizer_round_trips_any_text(tokenizer: PreTrainedTokenizerBase) -> None:
    texts = [react.answer(react.write(task, Random(0))) for task in react.tasks("held-out")[:100]]
    for text in [*texts, "Grüße, 世界 🙂\t\x00\r\n  x", "   ", ""]:
        assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


def test_tokenizer_of_chains_round_trips_and_is_small(chain_tokenizer: PreTrainedTokenizerBase) -> None:
    texts = [chains.solution(task.chain) for task in chains.tasks("held-out")[:100]]
    for text in [*texts, "Step 123: -4 + 5 = 1\n\n\nx", "Grüße, 世界 🙂\t\x00\r\n  x", "   ", ""]:
        assert chain_tokenizer.decode(chain_tokenizer(text)["input_ids"]) == text
    assert len(chain_tokenizer) < 300


def test_a_digit_is_a_token_of_its_own_and_the_number_of_an_operation_the_same_in_problem_and_step(
    chain_tokenizer: PreTrainedTokenizerBase,
) -> None:
    def pieces(text: str) -> list[str]:
        return [chain_tokenizer.decode([each]) for each in chain_tokenizer(text)["input_ids"]]

    assert pieces("Step 12: 146 + 7 = 153\n\nStep 13: ") == [
        *("Step ", "12: ", "1", "4", "6", " + ", "7", " = ", "1", "5", "3", "\n\nStep ", "13: "),
    ]
    assert pieces("11: * 3\n12: + 7\n") == ["11: ", "* ", "3", "\n", "12: ", "+ ", "7", "\n"]


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
    examples, stage = SMALL.source.examples, SMALL.stages[0]
    first = list(islice(examples(0, stage), 50))
    assert first == list(islice(examples(0, stage), 50))
    assert first != list(islice(examples(1, stage), 50))
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


@pytest.mark.parametrize("number", range(2))
def test_a_stage_has_its_batches_and_its_texts(number: int, chain_tokenizer: PreTrainedTokenizerBase) -> None:
    stage = replace(CHAINS.stages[number], batches=20)  # more than a pool
    found = list(build.batches(CHAINS, stage, chain_tokenizer, number))
    assert len(found) == 20
    read = [chains.read_problem(chain_tokenizer.decode(row)) for ids, _ in found for row in ids]
    lengths = {len(chain.operations) for chain in read}
    assert lengths == ({1, 2, 3} if stage.operations else set(range(8, 15)))


@pytest.mark.parametrize("text", ["react", "aime"])
@pytest.mark.parametrize("architecture", ["qwen2", "smollm3", "phi3"])
def test_three_batches_train_save_and_load(
    text: str,
    architecture: str,
    tmp_path: Path,
    tokenizer: PreTrainedTokenizerBase,
    chain_tokenizer: PreTrainedTokenizerBase,
) -> None:
    config = replace(SMALL if text == "react" else CHAINS, architecture=architecture)
    words = tokenizer if text == "react" else chain_tokenizer
    model = build.new_model(config, words)
    before = model.lm_head.weight.detach().clone()
    losses = list(build.fit(model, config, words))
    assert len(losses) == config.copy_batches + 3
    assert losses[-1] < losses[-3] + 0.5
    assert not torch.equal(before, model.lm_head.weight)
    assert not model.training
    build.save(model, words, tmp_path)
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert type(loaded) is type(model)
    assert loaded.config.model_type == architecture
    assert loaded.dtype == torch.float16
    torch.testing.assert_close(loaded.float().lm_head.weight, model.lm_head.weight, atol=1e-3, rtol=1e-2)
    assert all(file.stat().st_mode & 0o777 == 0o644 for file in tmp_path.iterdir())
    sample = react.answer("x\n") if text == "react" else chains.solution(chains.tasks("held-out")[0].chain)
    assert AutoTokenizer.from_pretrained(tmp_path)(sample)["input_ids"] == words(sample)["input_ids"]


def test_a_policy_of_chains_is_measured(chain_tokenizer: PreTrainedTokenizerBase) -> None:
    model = build.new_model(CHAINS, chain_tokenizer).eval()
    tasks = chains.tasks("held-out")[:2]
    found = measure_chains.measure_on(model, chain_tokenizer, tasks, temperature=1.0)
    assert found.samples == 2 * measure_chains.SAMPLES
    assert found.solved == found.steps_right == found.complete == 0.0


def test_the_shipped_policies_are_all_texts_in_all_shapes() -> None:
    assert sorted(POLICIES) == [
        *("aime-phi3", "aime-qwen2", "aime-smollm3", "react-phi3", "react-qwen2", "react-smollm3")
    ]
    for name, config in POLICIES.items():
        assert name == f"{config.text}-{config.architecture}"


def test_the_same_seed_gives_the_same_weights(tokenizer: PreTrainedTokenizerBase) -> None:
    one = replace(SMALL, copy_batches=1, stages=(Stage(1, damage=0.2),))
    models = [build.new_model(one, tokenizer) for _ in range(2)]
    losses = [list(build.fit(model, one, tokenizer)) for model in models]
    assert losses[0] == losses[1]
    assert torch.equal(models[0].lm_head.weight, models[1].lm_head.weight)


def test_card_names_the_command_and_the_figures() -> None:
    figures = {"T = 1": Measured(256, 0.043, 0.02, 0.9, 1.0, 0.99, 170, 18, 0.16)}
    config = replace(POLICIES["react-qwen2"], stages=(Stage(9, damage=0.25),), seed=7)
    text = card("react-qwen2", config, parameters=1_300_000, vocabulary=1280, loss=0.5, minutes=12, figures=figures)
    assert "python -m botgrpo_cli.tiny build react-qwen2 --seed 7 --damage 0.25" in text
    assert "| compile rate | 4.3% |" in text
    assert "1,300,000 parameters" in text


def test_unknown_policy_is_refused_with_the_nearest_word() -> None:
    result = CliRunner().invoke(app, ["build", "raect-qwen2"])
    assert result.exit_code == 2
    assert "'react-qwen2'" in result.output
