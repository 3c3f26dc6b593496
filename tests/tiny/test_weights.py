from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    GenerationConfig,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
)

from botgrpo_cli import tiny
from botgrpo_cli.errors import InputError
from botgrpo_cli.policy.decode import choose_decoder
from botgrpo_cli.policy.load import load_policy
from botgrpo_cli.policy.sample import sample_groups, stream
from botgrpo_cli.recipe.schema import PolicyConfig
from botgrpo_cli.tasks.react.workers import ReactChecker
from botgrpo_cli.tiny import WEIGHTS, chains, react, weights_folder
from botgrpo_cli.tiny.measure import measure
from botgrpo_cli.tiny.measure_chains import measure_on
from botgrpo_cli.tiny.policies import POLICIES

SHIPPED = sorted(path.parent.name for path in WEIGHTS.glob("*/config.json"))
REACT = [name for name in SHIPPED if name.startswith("react")]
AIME = [name for name in SHIPPED if name.startswith("aime")]


def tokenizer_of(name: str) -> PreTrainedTokenizerBase:
    return AutoTokenizer.from_pretrained(weights_folder(name))


def test_every_policy_is_shipped() -> None:
    assert sorted(POLICIES) == SHIPPED


def test_a_policy_that_is_not_there_says_how_to_build_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiny, "WEIGHTS", tmp_path)
    with pytest.raises(InputError, match=r"botgrpo_cli\.tiny build react-phi3"):
        weights_folder("react-phi3")


@pytest.mark.parametrize("name", SHIPPED)
def test_size_and_shape(name: str) -> None:
    folder, config = weights_folder(name), POLICIES[name]
    model = AutoModelForCausalLM.from_pretrained(folder)
    assert model.config.model_type == config.architecture
    assert 800_000 <= model.num_parameters() < 2_000_000
    assert (folder / "model.safetensors").stat().st_size < 4_000_000
    assert model.config.vocab_size == len(tokenizer_of(name))
    assert model.dtype == torch.float16


@pytest.mark.parametrize("name", SHIPPED)
def test_end_ids_agree(name: str) -> None:
    tokenizer, ends = tokenizer_of(name), GenerationConfig.from_pretrained(weights_folder(name)).eos_token_id
    assert tokenizer.eos_token_id in ends
    assert tokenizer.convert_tokens_to_ids("<|endoftext|>") in ends
    assert tokenizer.bos_token is None


@pytest.mark.parametrize("name", SHIPPED)
def test_auto_tokenizer_cuts_prompts_as_the_file_says(name: str) -> None:
    as_trained = PreTrainedTokenizerFast.from_pretrained(weights_folder(name))
    texts = [prompt.text for prompt in (react if name in REACT else chains).prompts("held-out")[:40]]
    assert tokenizer_of(name)(texts)["input_ids"] == as_trained(texts)["input_ids"]


@pytest.mark.parametrize("name", SHIPPED)
def test_the_card_has_the_command_and_the_figures(name: str) -> None:
    card = (weights_folder(name) / "CARD.md").read_text(encoding="utf-8")
    assert f"python -m botgrpo_cli.tiny build {name}" in card
    headline = "| compile rate |" if name in REACT else "| steps right |"
    cells = next(line for line in card.splitlines() if line.startswith(headline)).split("|")[2:5]
    assert all(0 < float(cell.strip(" %")) <= 100 for cell in cells)


@pytest.mark.parametrize("name", REACT)
def test_components_and_briefs_have_the_promised_lengths(name: str) -> None:
    tokenizer, tasks = tokenizer_of(name), react.tasks("held-out")
    texts = [react.answer(react.write(task, Random(number))) for number, task in enumerate(tasks)]
    lengths = sorted(len(ids) + 1 for ids in tokenizer(texts)["input_ids"])
    assert lengths[0] >= 80
    assert 140 <= lengths[len(lengths) // 2] <= 190
    assert lengths[-1] <= 260
    briefs = sorted(len(ids) for ids in tokenizer([task.prompt.text for task in tasks])["input_ids"])
    assert briefs[len(briefs) // 2] <= 40


@pytest.mark.parametrize("name", AIME)
def test_solutions_of_chains_are_short(name: str) -> None:
    texts = [chains.solution(task.chain) for task in chains.tasks("held-out")]
    assert max(len(ids) for ids in tokenizer_of(name)(texts)["input_ids"]) < 200


@pytest.mark.parametrize("name", SHIPPED)
def test_it_loads_as_a_policy_and_its_decoder_samples(name: str) -> None:
    policy = load_policy(PolicyConfig(model=f"tiny:{name}", device="cpu", dtype="float32"))
    text = (react if name in REACT else chains).prompts("train")[0].text
    uniforms = np.stack([stream(0, 0, "a", rollout, 12) for rollout in range(3)])
    found = sample_groups(
        policy,
        choose_decoder(policy),
        [policy.encode(text)],
        uniforms,
        group_size=3,
        max_new_tokens=12,
        temperature=1.0,
    )
    opening = "```jsx" if name in REACT else "Step 1: "
    assert sum(policy.tokenizer.decode(rollout.ids).startswith(opening) for rollout in found) >= 2


@pytest.mark.slow
@pytest.mark.parametrize("name", REACT)
def test_it_knows_react_but_errs_when_sampled(name: str, checker: ReactChecker) -> None:
    model = AutoModelForCausalLM.from_pretrained(weights_folder(name), dtype="float32").eval()
    prompts = react.prompts("held-out")[:48]
    sampled = measure(model, tokenizer_of(name), checker, prompts, temperature=1.0)
    greedy = measure(model, tokenizer_of(name), checker, prompts, temperature=0.0)
    assert sampled.compile_rate < 0.2
    assert greedy.compile_rate > 0.5
    assert greedy.content_compiled > 0.8
    assert greedy.format_rate > 0.9


@pytest.mark.slow
@pytest.mark.parametrize("name", AIME)
def test_it_knows_the_chains_but_errs_when_sampled(name: str) -> None:
    model = AutoModelForCausalLM.from_pretrained(weights_folder(name), dtype="float32").eval()
    tasks = chains.tasks("held-out")[:24]
    sampled = measure_on(model, tokenizer_of(name), tasks, temperature=1.0)
    greedy = measure_on(model, tokenizer_of(name), tasks, temperature=0.0)
    assert 0.0 < sampled.solved < 0.15
    assert sampled.steps_right_alone < 0.9
    assert greedy.steps_right > 0.9
    assert greedy.complete > 0.9
