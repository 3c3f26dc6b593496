"""Word problems: what is written can be read back, the answer is right, and free-text solutions are checked."""

from __future__ import annotations

from random import Random

import pytest

from botgrpo_cli.recipe.load import load_recipe
from botgrpo_cli.tasks.aime import words
from botgrpo_cli.tiny.chains import Chain
from tests.recipe.helpers import plenty

CHAIN = Chain(5, (("+", 3), ("*", 2)))  # 8, 16


def test_a_chain_is_read_back_from_its_text_whatever_verbs_were_drawn():
    rng = Random(0)
    for _ in range(500):
        chain = words.draw_chain(rng, rng.choice(list(words.CHANGES)))
        assert words.read_problem(f"Solve.\n{words.problem(chain, rng)}\nAnswer:") == chain


def test_the_prompts_are_distinct_disjoint_and_have_the_right_answer():
    train, held_out = words.prompts("train"), words.prompts("held-out")
    assert (len(train), len(held_out)) == (words.PROMPT_COUNTS["train"], words.PROMPT_COUNTS["held-out"])
    texts = [prompt.text for prompt in (*train, *held_out)]
    assert len({prompt.id for prompt in (*train, *held_out)}) == len(set(texts)) == len(texts)
    for prompt in (*train[:100], *held_out[:100]):
        chain = words.read_problem(prompt.text)
        assert prompt.asks == (str(chain.answer),)
        assert len(chain.operations) == words.CHANGES[prompt.level]
    assert words.prompts("train") == train


def test_the_problem_is_the_last_one_so_that_examples_can_stand_before_it():
    recipe = load_recipe("aime_qwen", scale="small", counts=plenty).recipe
    prompt = words.prompts("train")[3]
    text = recipe.task.instruction.replace("{problem}", prompt.text)
    assert words.read_problem(text) == words.read_problem(prompt.text)


# step -> its verdict against the chain, and against what was written before
STEPS = {
    "5 + 3 = 8": ("correct", "correct"),
    "So 5 apples + 3 apples = 8 apples.": ("correct", "correct"),
    "3 + 5 = 8": ("correct", "correct"),
    "8 × 2 = 16": ("correct", "correct"),
    r"$8 \times 2 = 16$": ("correct", "correct"),
    "2*8=16, as 5 + 3 = 8": ("correct", "correct"),
    "5 + 3 = 9": ("incorrect", "incorrect"),
    "5 + 3 = 8 and 8 * 2 = 17": ("incorrect", "incorrect"),
    "5 - 3 = 2": ("incorrect", "correct"),
    "1 + 1 = 2": ("incorrect", "correct"),
    "16 / 2 = 8": ("incorrect", "incorrect"),
    "She has more now.": ("uncertain", "uncertain"),
    "5 + 3": ("uncertain", "uncertain"),
    "": ("uncertain", "uncertain"),
    "\\boxed{16}": ("correct", "correct"),
    "\\boxed{17}": ("incorrect", "incorrect"),
    "\\boxed{x}": ("incorrect", "incorrect"),
}


@pytest.mark.parametrize(("text", "verdicts"), STEPS.items())
def test_one_step(text, verdicts):
    found = [words.verify(CHAIN, [text], against=against)[0] for against in ("chain", "written")]
    assert tuple(found) == verdicts


def test_a_box_that_follows_from_an_error_is_forgiven_when_steps_are_judged_one_by_one():
    texts = ["5 + 3 = 9", "9 * 2 = 18", "\\boxed{18}"]
    assert words.verify(CHAIN, texts) == ["incorrect"] * 3
    assert words.verify(CHAIN, texts, against="written") == ["incorrect", "correct", "correct"]


@pytest.mark.parametrize("text", ["", "Find x.", "Mia has 3 apples. How many apples does Mia have now?", "Mia has"])
def test_no_word_problem(text):
    with pytest.raises(ValueError, match="No word problem"):
        words.read_problem(text)


def test_work_is_shown_with_an_equation_for_each_change():
    assert words.complete(CHAIN, "5 + 3 = 8\n8 * 2 = 16\n\\boxed{16}")
    assert not words.complete(CHAIN, "5 + 3 = 8\n\\boxed{16}")


@pytest.mark.parametrize("part", ["1 + ", "9", "1 = ", "-", " ", "Mia has 3 apples. ", "she buys 3 more. "])
def test_a_long_text_is_just_longer(part):
    text = part * (100_000 // len(part))
    words.equations(text)
    with pytest.raises(ValueError, match="No word problem"):
        words.read_problem(text)
