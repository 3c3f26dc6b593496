from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from botgrpo_cli.rewards.steps import split_steps, step_texts
from botgrpo_cli.tasks.aime.answer import grade
from botgrpo_cli.tiny import chains
from botgrpo_cli.tiny.chains import Chain, check, read_problem, solution, verify

CHAIN = Chain(46, (("+", 27), ("*", 3), ("-", 58)))
RIGHT = ["Step 1: 46 + 27 = 73", "Step 2: 73 * 3 = 219", "Step 3: 219 - 58 = 161", "The last result is \\boxed{161}."]
LETTERS = {"correct": "c", "incorrect": "i"}


def verdicts(texts, **named) -> str:
    return "".join(LETTERS[verdict] for verdict in verify(CHAIN, texts, **named))


def changed(number: int, text: str) -> list[str]:
    return [*RIGHT[:number], text, *RIGHT[number + 1 :]]


@pytest.mark.parametrize(("split", "count"), [("train", 2048), ("held-out", 256)])
def test_prompts_are_many_distinct_and_graded(split, count):
    prompts = chains.prompts(split)
    assert len({prompt.text for prompt in prompts}) == len({prompt.id for prompt in prompts}) == count
    levels = Counter(prompt.level for prompt in prompts)
    assert set(levels) == {"easy", "medium", "hard"}
    assert min(levels.values()) > count / 5


def test_splits_share_nothing_however_many_are_drawn():
    train, held_out = ({prompt.text for prompt in chains.prompts(split)} for split in ("train", "held-out"))
    assert not train & held_out
    fresh = chains.draw_many("train", seed=7)
    assert not held_out & {next(fresh).prompt.text for _ in range(2_000)}
    assert not {p.id for p in chains.prompts("train")} & {p.id for p in chains.prompts("held-out")}


def test_prompts_are_always_the_same():
    first = chains.prompts("held-out")
    chains.tasks.cache_clear()
    assert chains.prompts("held-out") == first


def test_values_lie_between_0_and_999_and_lengths_follow_the_level():
    lengths = {level: set() for level in chains.OPERATIONS}
    for task in (*chains.tasks("train"), *chains.tasks("held-out")):
        assert all(0 <= value <= 999 for value in task.chain.values)
        assert task.prompt.asks == (str(task.chain.answer),)
        lengths[task.prompt.level].add(len(task.chain.operations))
    assert lengths == {"easy": {8, 9}, "medium": {10, 11}, "hard": {12, 13, 14}}


def test_no_answer_is_a_good_guess():
    answers = Counter(task.chain.answer for task in chains.tasks("train"))
    assert answers.most_common(1)[0][1] < 0.02 * 2048


def test_solutions_are_right_in_every_way():
    for task in (*chains.tasks("train")[:500], *chains.tasks("held-out")):
        text = solution(task.chain)
        texts = step_texts([text.encode()], split_steps(text.encode()))
        assert len(texts) == len(task.chain.operations) + 1
        assert set(verify(task.chain, texts)) == {"correct"}
        assert set(verify(task.chain, texts, against="written")) == {"correct"}
        assert grade(text, frozenset({task.chain.answer})).status == "ok"
        found = check(task.chain, text)
        assert (found.right, found.solved, found.complete) == (len(task.chain.operations), True, True)


def test_problems_are_read_back_from_any_prompt():
    for task in chains.tasks("held-out"):
        assert read_problem(f"Solve this.\n\n{task.prompt.text}\n\nThink well.") == task.chain
    for text in ("", "Find x.", "Start with 4. Then do, in order:\nWhat is the last result?"):
        with pytest.raises(ValueError, match="No chain of operations"):
            read_problem(text)


# Steps -> verdicts against the true chain, and against what was written before.
CASES = [
    (RIGHT, "cccc", "cccc"),
    ([], "", ""),
    (RIGHT[:2], "cc", "cc"),
    # a wrong result; the next step goes on from it, or from the true value
    (["Step 1: 46 + 27 = 74", "Step 2: 74 * 3 = 222", "Step 3: 222 - 58 = 164", "\\boxed{164}"], "iiii", "iccc"),
    (changed(0, "Step 1: 46 + 27 = 74"), "iccc", "iicc"),
    # other operand, operator, input
    (changed(1, "Step 2: 73 * 58 = 4234"), "cicc", "ciic"),
    (changed(1, "Step 2: 73 + 3 = 76"), "cicc", "ciic"),
    (changed(1, "Step 2: 72 * 3 = 216"), "cicc", "ciic"),
    (changed(1, "Step 2: 73 * 3 = 218"), "cicc", "ciic"),
    (changed(1, "Step 2: 73 * 4 = 219"), "cicc", "cicc"),
    # numbers: skipped, repeated, jumped back, too many
    ([RIGHT[0], RIGHT[2], RIGHT[3]], "cic", "cic"),
    ([RIGHT[0], RIGHT[0], *RIGHT[1:]], "ciccc", "ciccc"),
    ([*RIGHT[:2], *RIGHT], "cciicc", "cciicc"),
    ([*RIGHT[:3], "Step 4: 161 + 0 = 161", RIGHT[3]], "cccii", "cccii"),
    ([*RIGHT, RIGHT[3]], "cccci", "cccci"),
    (["Step 999: 1 + 1 = 2", *RIGHT], "iiiii", "iiiii"),
    # what can't be read counts as one step
    (changed(1, "Step 2: 73 * 3 is 219"), "cicc", "cicc"),
    (["Let's start.", *RIGHT], "iiccc", "iiccc"),
    # the closing
    (changed(3, "\\boxed{161}"), "cccc", "cccc"),
    (changed(3, "The last result is 161."), "ccci", "ccci"),
    (changed(3, "The last result is \\boxed{161"), "ccci", "ccci"),
    (changed(3, "\\boxed{160}"), "ccci", "ccci"),
    (["\\boxed{161}"], "i", "i"),
    ([*RIGHT[:2], RIGHT[3]], "cci", "cci"),
]


@pytest.mark.parametrize(("texts", "chain", "written"), CASES)
def test_verdicts(texts, chain, written):
    assert verdicts(texts) == chain
    assert verdicts(texts, against="written") == written


STEP = st.sampled_from([*RIGHT, "Step 2: 74 * 3 = 222", "Step 1: 46 + 27 = 74", "\\boxed{222}", "x", ""])


@settings(max_examples=100, deadline=None)
@given(st.lists(STEP | st.text(max_size=5), max_size=10), st.sampled_from(["chain", "written"]))
def test_a_verdict_depends_on_the_steps_so_far_only(texts, against):
    whole = verify(CHAIN, texts, against=against)
    for end in range(len(texts) + 1):
        assert verify(CHAIN, texts[:end], against=against) == whole[:end]


COMPLETIONS = [
    # text, operations right, solved, complete
    (chains.join(RIGHT), 3, True, True),
    (chains.join(RIGHT[:3]), 3, False, False),
    (chains.join(RIGHT[3:]), 0, True, False),
    (chains.join(RIGHT[1:]), 1, True, False),
    (chains.join([*RIGHT, RIGHT[3]]), 3, True, False),
    (chains.join(RIGHT).replace("161}", "161"), 3, False, False),
    (chains.join(RIGHT).replace("73", "74"), 1, True, True),
    ("\n".join(RIGHT), 3, True, True),
    ("", 0, False, False),
    ("\ud800", 0, False, False),
]


@pytest.mark.parametrize(("text", "right", "solved", "complete"), COMPLETIONS)
def test_what_is_counted_of_a_completion(text, right, solved, complete):
    found = check(CHAIN, text)
    assert (found.right, found.solved, found.complete) == (right, solved, complete)


def test_chains_are_seeded():
    def first(seed: int) -> list[Chain]:
        rng = Random(seed)
        return [chains.draw_chain(rng, level) for level in chains.OPERATIONS]

    assert first(3) == first(3) != first(4)
