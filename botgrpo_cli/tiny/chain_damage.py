"""Step damage: the errors of weak models, put into solutions of chains at random and independently of each other.

Every step is damaged with the same probability, whatever the steps around it, and what follows is calculated rightly
from the damaged value. So nothing but the damaged step itself is to blame, its verdict is "incorrect", and
reinforcement learning can unlearn it. The mix of kinds is our choice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import NamedTuple

from botgrpo_cli.tiny import chains
from botgrpo_cli.tiny.chains import HIGHEST, Chain, apply, closing_text, join, step_text

TRIES = 30  # kinds tried until one leaves the rest of the chain within 0 to 999


class At(NamedTuple):
    """A step that is about to be written."""

    chain: Chain
    number: int
    value: int  # the written result of the step before

    @property
    def operation(self) -> tuple[str, int]:
        return self.chain.operations[self.number - 1]

    @property
    def result(self) -> int:
        return apply(self.value, *self.operation)


class Written(NamedTuple):
    """What stands there instead, none, one or two steps, and the value that the next step takes over."""

    steps: list[str]
    value: int


Damage = Callable[[Random, At], Written]


def _with_result(at: At, result: int) -> Written:
    return Written([step_text(at.number, at.value, *at.operation, result)], result)


def _with_operation(at: At, operator: str, operand: int) -> Written:
    result = apply(at.value, operator, operand)
    return Written([step_text(at.number, at.value, operator, operand, result)], result)


def _other_digit(rng: Random, number: int) -> int:
    """`number` with one digit replaced; never the same number."""
    digits = list(str(number))
    at = rng.randrange(len(digits))
    digits[at] = rng.choice("0123456789".replace(digits[at], ""))
    return int("".join(digits))


def slip(rng: Random, at: At) -> Written:
    return _with_result(at, at.result + rng.choice((-1, 1)))


def carry(rng: Random, at: At) -> Written:
    return _with_result(at, at.result + rng.choice((-10, 10)))


def wrong_digit(rng: Random, at: At) -> Written:
    return _with_result(at, _other_digit(rng, at.result))


def other_operand(rng: Random, at: At) -> Written:
    """The operand of another operation is looked up."""
    operator, operand = at.operation
    others = sorted({other for _, other in at.chain.operations} - {operand})
    return _with_operation(at, operator, rng.choice(others or [operand + 1]))


def other_operator(rng: Random, at: At) -> Written:
    operator, operand = at.operation
    return _with_operation(at, rng.choice("+-*".replace(operator, "")), operand)


def wrong_input(rng: Random, at: At) -> Written:
    """The result of the step before is copied with one wrong digit."""
    value = _other_digit(rng, at.value)
    result = apply(value, *at.operation)
    return Written([step_text(at.number, value, *at.operation, result)], result)


def misprint(rng: Random, at: At) -> Written:
    """The operand is written wrong, the result is right."""
    operator, operand = at.operation
    return Written([step_text(at.number, at.value, operator, _other_digit(rng, operand), at.result)], at.result)


def twice(rng: Random, at: At) -> Written:
    step = step_text(at.number, at.value, *at.operation, at.result)
    return Written([step, step], at.result)


def left_out(rng: Random, at: At) -> Written:
    return Written([], at.value)


KINDS: dict[Damage, float] = {
    slip: 4,
    carry: 3,
    wrong_digit: 3,
    other_operand: 4,
    other_operator: 3,
    wrong_input: 3,
    misprint: 1,
    twice: 0.5,
    left_out: 0.5,
}
CLOSINGS: dict[str, float] = {"wrong_box": 4, "unclosed": 1, "no_box": 1, "no_closing": 0.5}


def damage_step(rng: Random, at: At) -> tuple[Written, str]:
    """One step with an error in it, and the name of the error."""
    for _ in range(TRIES):
        kind = rng.choices(list(KINDS), list(KINDS.values()))[0]
        written = kind(rng, at)
        if _within(at.chain, at.number, written.value):
            return written, kind.__name__
    return misprint(rng, at), misprint.__name__  # leaves the value as it is, so it always fits


def _within(chain: Chain, number: int, value: int) -> bool:
    """Whether `value` after operation `number`, and all that follows from it, stay in 0 to 999."""
    rest = Chain(value, chain.operations[number:])
    return all(0 <= each <= HIGHEST for each in rest.values)


def damage_closing(rng: Random, value: int) -> tuple[list[str], str]:
    """The closing step with an error in it (none when it is left out), and the name of the error."""
    kind = rng.choices(list(CLOSINGS), list(CLOSINGS.values()))[0]
    steps = {
        "wrong_box": [closing_text(_other_digit(rng, value))],
        "unclosed": [f"The last result is \\boxed{{{value}"],
        "no_box": [f"The last result is {value}."],
        "no_closing": [],
    }
    return steps[kind], kind


def damage(rng: Random, chain: Chain, probability: float) -> tuple[str, int]:
    """A solution of `chain`, each step and the closing damaged with `probability`, and how many were damaged."""
    steps, kinds, value = [], [], chain.start
    for number in range(1, len(chain.operations) + 1):
        at = At(chain, number, value)
        written = _with_result(at, at.result)
        if rng.random() < probability:
            written, kind = damage_step(rng, at)
            kinds.append(kind)
        steps += written.steps
        value = written.value
    closing = [closing_text(value)]
    if rng.random() < probability:
        closing, kind = damage_closing(rng, value)
        kinds.append(kind)
    return join([*steps, *closing]), len(kinds)


def examples(seed: int, probability: float, *, operations: tuple[int, int] | None = None) -> Iterator[tuple[str, str]]:
    """Endless (problem, damaged completion) pairs of the train split, to train a starting policy on.

    `operations` are the fewest and the most of a chain; left out, the chains are like those of the prompts.
    """
    rng = Random(f"chain-damage-{seed}")
    for chain in _chains(seed + 1, operations):
        yield chains.problem(chain), damage(rng, chain, probability)[0]


def _chains(seed: int, operations: tuple[int, int] | None) -> Iterator[Chain]:
    if operations is None:
        yield from (task.chain for task in chains.draw_many("train", seed))
        return
    rng = Random(f"chains-train-{seed}-{operations}")
    while True:
        chain = chains.draw_operations(rng, rng.randint(*operations))
        if chains.split_of(chain) == "train":
            yield chain
