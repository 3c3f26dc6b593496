from __future__ import annotations

from collections import Counter
from itertools import islice
from random import Random

import pytest

from botgrpo_cli.rewards.steps import split_steps, step_texts
from botgrpo_cli.tasks.aime.answer import grade
from botgrpo_cli.tiny import chain_damage as damages
from botgrpo_cli.tiny import chains

TASKS = chains.tasks("train")[:400]
ALL_WRONG_KINDS = {"slip", "carry", "wrong_digit", "other_operand", "other_operator", "wrong_input", "misprint"}


def steps_of(text: str) -> list[str]:
    return step_texts([text.encode()], split_steps(text.encode()))


def ats() -> list[damages.At]:
    return [damages.At(t.chain, n, t.chain.values[n - 1]) for t in TASKS for n in range(1, len(t.chain.operations) + 1)]


def test_no_damage_at_zero():
    for task in TASKS:
        assert damages.damage(Random(0), task.chain, 0.0) == (chains.solution(task.chain), 0)


def test_every_step_and_the_closing_are_damaged_at_one():
    for number, task in enumerate(TASKS):
        text, count = damages.damage(Random(number), task.chain, 1.0)
        assert count == len(task.chain.operations) + 1
        assert text != chains.solution(task.chain)


@pytest.mark.parametrize("probability", [0.1, 0.3])
def test_the_rate_is_the_probability(probability):
    rng = Random(1)
    damaged = sum(damages.damage(rng, task.chain, probability)[1] for task in TASKS for _ in range(3))
    steps = 3 * sum(len(task.chain.operations) + 1 for task in TASKS)
    assert abs(damaged / steps - probability) < 4 * (probability * (1 - probability) / steps) ** 0.5


def test_every_kind_occurs_is_wrong_and_keeps_the_rest_within_bounds():
    rng, seen = Random(2), Counter()
    for at in ats():
        written, kind = damages.damage_step(rng, at)
        seen[kind] += 1
        rest = chains.Chain(written.value, at.chain.operations[at.number :])
        assert all(0 <= value <= 999 for value in rest.values)
        before = [
            chains.step_text(n, at.chain.values[n - 1], *at.chain.operations[n - 1], at.chain.values[n])
            for n in range(1, at.number)
        ]
        for against in ("chain", "written"):
            verdicts = chains.verify(at.chain, [*before, *written.steps], against=against)[len(before) :]
            expected = {"twice": ["correct", "incorrect"], "left_out": []}.get(kind, ["incorrect"])
            assert verdicts == expected, (at, written)
    assert set(seen) == {kind.__name__ for kind in damages.KINDS} >= ALL_WRONG_KINDS
    assert min(seen.values()) > 10


def test_only_the_damaged_steps_are_wrong_when_looked_at_alone():
    rng = Random(3)
    for task in TASKS:
        text, count = damages.damage(rng, task.chain, 0.3)
        steps = steps_of(text)
        numbers = [int(step.split(":")[0].split()[1]) for step in steps if step.startswith("Step ")]
        wrong = chains.verify(task.chain, steps, against="written").count("incorrect")
        gaps = len(task.chain.operations) - len(set(numbers))
        assert wrong <= count + gaps
        if count == 0:
            assert wrong == 0


def test_closings_of_every_kind():
    rng, seen = Random(4), {}
    for _ in range(300):
        steps, kind = damages.damage_closing(rng, 161)
        seen[kind] = grade(chains.join(steps), frozenset({161}))
        assert not seen[kind].correct
    assert {kind: found.status for kind, found in seen.items()} == {
        "wrong_box": "ok",
        "unclosed": "unclosed",
        "no_box": "no_box",
        "no_closing": "no_box",
    }


AT = damages.At(chains.Chain(46, (("+", 27), ("*", 3))), 1, 46)


@pytest.mark.parametrize(
    ("kind", "allowed"),
    [
        (damages.slip, {"Step 1: 46 + 27 = 72", "Step 1: 46 + 27 = 74"}),
        (damages.carry, {"Step 1: 46 + 27 = 63", "Step 1: 46 + 27 = 83"}),
        (damages.other_operand, {"Step 1: 46 + 3 = 49"}),
        (damages.other_operator, {"Step 1: 46 - 27 = 19", "Step 1: 46 * 27 = 1242"}),
        (damages.twice, {"Step 1: 46 + 27 = 73"}),
    ],
)
def test_a_kind_does_what_its_name_says(kind, allowed):
    for seed in range(20):
        assert set(kind(Random(seed), AT).steps) <= allowed


def test_the_same_seed_gives_the_same_damage():
    chain = TASKS[0].chain
    assert damages.damage(Random(5), chain, 0.5) == damages.damage(Random(5), chain, 0.5)


def test_examples_are_seeded_and_of_the_train_split():
    first = list(islice(damages.examples(0, 0.2), 200))
    assert first == list(islice(damages.examples(0, 0.2), 200))
    assert first != list(islice(damages.examples(1, 0.2), 200))
    checked = [(chains.read_problem(problem), text) for problem, text in first]
    assert all(chains.split_of(chain) == "train" for chain, _ in checked)
    share = sum(chains.check(chain, text).solved for chain, text in checked) / len(checked)
    assert 0.1 < share < 0.6
