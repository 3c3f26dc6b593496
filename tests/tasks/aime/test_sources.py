"""Sources of problems that are no file: generated ones and reasoning-gym."""

from __future__ import annotations

import pytest

from botgrpo_cli.errors import InputError
from botgrpo_cli.tasks.aime.keys import ProblemsConfig
from botgrpo_cli.tasks.aime.sources import GENERATED, known_counts, load_set
from botgrpo_cli.tasks.aime.task import AimeTask
from tests.tasks.aime.helpers import completion, recipe


@pytest.mark.parametrize("name", GENERATED)
def test_generated_problems_come_in_as_many_as_are_known_beforehand(name):
    found = load_set(ProblemsConfig(source=name))
    counts = (len(found.prompts["train"]), len(found.prompts["held-out"]))
    assert counts == known_counts(ProblemsConfig(source=name))
    for prompt in found.prompts["train"][:50]:
        chain = GENERATED[name].read(prompt.text)
        assert prompt.asks == (str(chain.answer),)


def test_what_has_to_be_loaded_has_no_known_count():
    for source in ("some/where", "problems.csv", "reasoning-gym:chain_sum"):
        assert known_counts(ProblemsConfig(source=source)) is None


def test_word_problems_with_the_exact_judge():
    task = AimeTask(recipe("words"))
    prompt = next(p for p in task.prompts("train") if p.level == "medium")
    chain = GENERATED["words"].read(prompt.text)
    lines = [f"{chain.values[n]} {op} {k} = {chain.values[n + 1]}" for n, (op, k) in enumerate(chain.operations)]
    whole = "\n".join([*lines, f"\\boxed{{{chain.answer}}}"])
    found = task.submit(completion(whole, prompt)).result(timeout=5)
    assert (found.reward, found.metrics["step_score"]) == (2.0, 1.0)
    short = task.submit(completion(f"{lines[0]}\n\\boxed{{{chain.answer}}}", prompt)).result(timeout=5)
    assert short.terms == {"outcome": 1.0, "format": 0.0}


def test_reasoning_gym():
    pytest.importorskip("reasoning_gym", reason="the extra botgrpo[gym] is not installed")
    config = ProblemsConfig(source="reasoning-gym:chain_sum", size=60, share=0.25, seed=3)
    found, again = load_set(config), load_set(config)
    assert found.prompts == again.prompts
    train, held_out = found.prompts["train"], found.prompts["held-out"]
    assert not {p.text for p in train} & {p.text for p in held_out}
    assert found.counts["rows"] == 60
    assert found.counts["odd"] > 0  # sums below 0 and above 999
    assert len(train) + len(held_out) == found.counts["problems"] <= 60 - found.counts["odd"]
    assert found.versions["reasoning-gym"]
    for prompt in (*train, *held_out):
        expression = prompt.text.partition(":")[2].removesuffix("=")
        assert prompt.asks == (str(sum(int(n) for n in expression.replace(" ", "").replace("-", "+-").split("+"))),)
    other = load_set(config.model_copy(update={"seed": 4}))
    assert {p.text for p in other.prompts["train"]} != {p.text for p in train}


@pytest.mark.parametrize(
    ("name", "words"),
    [("chain_summ", "no data set 'chain_summ'. Did you mean 'chain_sum'?"), ("sudoku", "none of 5 problems has an")],
)
def test_reasoning_gym_without_usable_problems(name, words):
    pytest.importorskip("reasoning_gym", reason="the extra botgrpo[gym] is not installed")
    with pytest.raises(InputError) as caught:
        load_set(ProblemsConfig(source=f"reasoning-gym:{name}", size=5))
    assert words in str(caught.value)


def test_reasoning_gym_missing(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "reasoning_gym", None)
    with pytest.raises(InputError, match=r"needs the library reasoning-gym: pip install 'botgrpo\[gym\]'"):
        load_set(ProblemsConfig(source="reasoning-gym:chain_sum"))
