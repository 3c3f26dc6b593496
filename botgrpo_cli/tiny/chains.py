r"""The tiny scale's mathematics: chains of integer operations, drawn at random, whose every step can be checked.

    Start with 46. Then do, in order:       Step 1: 46 + 7 = 53
    1: + 7                                                              (a blank line between steps)
    2: * 3                                  Step 2: 53 * 3 = 159
    What is the last result?
                                            The last result is \boxed{159}.

The texts are ours. Operands are numbered, so that a small model finds the one it needs, and have one digit: with up to
99 a policy of 0.8 M parameters had learnt hardly any step after 300 batches, with up to 9 most. All values of a chain
lie in 0 to 999, as AIME answers do. A problem belongs to the split that its hash names, so the two splits stay disjoint
however many are drawn.

To build a starting policy, train one on `examples` (problems of the train split with damaged solutions, see
`chain_damage`) as `tiny.build` does on React components, until `check` finds over 95 % of the greedy steps right: what
sampling gets wrong beyond that is what reinforcement learning has to remove. A digit should be a token of its own, and
`read_problem` works on prompts with any text around the problem.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from random import Random
from typing import Literal

from botgrpo_cli.rewards.steps import split_steps, step_texts
from botgrpo_cli.tasks.aime.answer import grade, integer, last_box
from botgrpo_cli.tasks.aime.verdicts import Verdict
from botgrpo_cli.tasks.base import Prompt, Split

PROMPT_COUNTS: dict[Split, int] = {"train": 2048, "held-out": 256}
HELD_OUT_SHARE = 8  # one problem in eight is held out
# How many a chain has. All are long, so that it matters which step is to blame.
OPERATIONS = {"easy": range(8, 10), "medium": range(10, 12), "hard": range(12, 15)}
HIGHEST = 999
LARGEST_START, LARGEST_TERM, LARGEST_FACTOR = 99, 9, 3
OPERATORS = {"+": 4, "-": 4, "*": 3}  # and how often each is tried

_PROBLEM = re.compile(r"Start with (\d+)\. Then do, in order:\n((?:\d+: [-+*] \d+\n)+)What is the last result\?")
_OPERATION = re.compile(r"\d+: ([-+*]) (\d+)\n")
_STEP = re.compile(r"Step (\d{1,3}): (-?\d{1,9}) ([-+*]) (\d{1,9}) = (-?\d{1,9})")


@dataclass(frozen=True)
class Chain:
    """A start and the operations on it, each an operator of "+-*" and its operand."""

    start: int
    operations: tuple[tuple[str, int], ...]

    @cached_property
    def values(self) -> tuple[int, ...]:
        """The start and the result of every operation: one value more than operations."""
        values = [self.start]
        for operator, operand in self.operations:
            values.append(apply(values[-1], operator, operand))
        return tuple(values)

    @property
    def answer(self) -> int:
        return self.values[-1]


@dataclass(frozen=True)
class Task:
    """A prompt with the chain behind it; `prompt.asks` is the answer."""

    prompt: Prompt
    chain: Chain


def apply(value: int, operator: str, operand: int) -> int:
    return value + operand if operator == "+" else value - operand if operator == "-" else value * operand


# --- texts -----------------------------------------------------------------------------------------------------------
def problem(chain: Chain) -> str:
    """The text of a chain's problem."""
    lines = "".join(f"{n}: {operator} {operand}\n" for n, (operator, operand) in enumerate(chain.operations, start=1))
    return f"Start with {chain.start}. Then do, in order:\n{lines}What is the last result?"


def read_problem(text: str) -> Chain:
    """The chain of a problem, whatever stands around it. ValueError when there is none.

    >>> read_problem("Hi! Start with 46. Then do, in order:\\n1: + 27\\n2: * 3\\nWhat is the last result? Thanks.")
    Chain(start=46, operations=(('+', 27), ('*', 3)))
    """
    found = _PROBLEM.search(text)
    if found is None:
        raise ValueError(f"No chain of operations stands in {text[:80]!r}.")
    operations = tuple((operator, int(operand)) for operator, operand in _OPERATION.findall(found[2]))
    return Chain(int(found[1]), operations)


def step_text(number: int, before: int, operator: str, operand: int, result: int) -> str:
    return f"Step {number}: {before} {operator} {operand} = {result}"


def closing_text(value: int) -> str:
    return f"The last result is \\boxed{{{value}}}."


def join(steps: Sequence[str]) -> str:
    """A completion of these steps, without its end token."""
    return "\n\n".join(steps)


def solution(chain: Chain) -> str:
    """The one right completion, without its end token."""
    steps = [step_text(n, chain.values[n - 1], *op, chain.values[n]) for n, op in enumerate(chain.operations, start=1)]
    return join([*steps, closing_text(chain.answer)])


# --- the exact verifier ----------------------------------------------------------------------------------------------
def verify(chain: Chain, texts: Sequence[str], *, against: Literal["chain", "written"] = "chain") -> list[Verdict]:
    r"""Verdict of each step of a completion, from what stands in it alone; never "uncertain".

    A step is correct when it is written as in a solution, its number is one more than that of the step before (the
    first: 1), and it is right to the digit: operator and operand are those of the problem, its input is the *true*
    value before that operation, its result the true value after it. The closing step is correct when it comes after
    the last operation and its box holds the true answer. So whatever builds on a wrong value is incorrect too.

    With `against="written"` the input must be the result that the step before has written (the true value where that
    step can't be read), and the box must hold the last written result: later steps that calculate rightly from a
    wrong value are correct. That is what a judge tends to say who looks at one step at a time.

    A verdict depends on this step and those before it only. A step that can't be read counts as the next number; after
    a jump the numbers go on from where it led; a number that was passed stays wrong.

    >>> wrong = ["Step 1: 46 + 27 = 74", "Step 2: 74 * 3 = 222", "The last result is \\boxed{222}."]
    >>> verify(Chain(46, (("+", 27), ("*", 3))), wrong)
    ['incorrect', 'incorrect', 'incorrect']
    >>> verify(Chain(46, (("+", 27), ("*", 3))), wrong, against="written")
    ['incorrect', 'correct', 'correct']
    """
    count, values = len(chain.operations), chain.values
    expected, written = 1, chain.start
    verdicts: list[Verdict] = []
    for text in texts:
        true = values[min(expected, count + 1) - 1]
        basis = true if against == "chain" else written
        step = _STEP.fullmatch(text)
        if step is not None:
            number, before, operand, result = (int(step[group]) for group in (1, 2, 4, 5))
            right = number == expected <= count and (step[3], operand) == chain.operations[number - 1]
            right = right and before == basis and result == apply(basis, step[3], operand)
            expected, written = max(expected, number + 1), result
        else:
            content, _ = last_box(text)
            right = content is not None and expected == count + 1 and integer(content) == basis
            expected += 1
            written = values[min(expected, count + 1) - 1]
        verdicts.append("correct" if right else "incorrect")
    return verdicts


@dataclass(frozen=True)
class Checked:
    """A completion's verdicts against the true chain, and what to count of a policy."""

    verdicts: list[Verdict]
    right: int  # operations of the problem that are written right, of len(chain.operations)
    solved: bool  # the box holds the answer
    complete: bool  # one step for each operation, then one closed box, nothing else


def check(chain: Chain, text: str) -> Checked:
    """What a completion is worth: for the figures of a starting policy, greedy and sampled, per step and per problem.

    >>> chain = Chain(46, (("+", 27), ("*", 3)))
    >>> found = check(chain, solution(chain))
    >>> found.right, found.solved, found.complete
    (2, True, True)
    """
    data = text.encode("utf-8", "replace")
    texts = step_texts([data], split_steps(data))
    verdicts = verify(chain, texts)
    found = [_STEP.fullmatch(each) for each in texts]
    numbers = [int(step[1]) if step else None for step in found]
    graded = grade(text, frozenset({chain.answer}))
    return Checked(
        verdicts,
        sum(verdict == "correct" and step is not None for verdict, step in zip(verdicts, found, strict=True)),
        graded.correct,
        numbers == [*range(1, len(chain.operations) + 1), None] and graded.status == "ok",
    )


# --- drawing ---------------------------------------------------------------------------------------------------------
def digest(chain: Chain) -> str:
    return hashlib.sha256(problem(chain).encode()).hexdigest()


def split_of(chain: Chain) -> Split:
    return "held-out" if int(digest(chain)[:8], 16) % HELD_OUT_SHARE == 0 else "train"


def draw_chain(rng: Random, level: str) -> Chain:
    """A chain of the level; all its values lie in 0 to 999, and no operation leaves its value as it is."""
    return draw_operations(rng, rng.choice(OPERATIONS[level]))


def draw_operations(rng: Random, count: int) -> Chain:
    """A chain of `count` operations."""
    start = value = rng.randint(2, LARGEST_START)
    operations = []
    for _ in range(count):
        while True:
            operator = rng.choices(list(OPERATORS), list(OPERATORS.values()))[0]
            operand = rng.randint(2, LARGEST_FACTOR if operator == "*" else LARGEST_TERM)
            result = apply(value, operator, operand)
            if 0 <= result <= HIGHEST and result != value:
                break
        operations.append((operator, operand))
        value = result
    return Chain(start, tuple(operations))


def draw(rng: Random, split: Split) -> Task:
    """One problem of `split`, the levels equally likely."""
    while True:
        level = rng.choice(list(OPERATIONS))
        chain = draw_chain(rng, level)
        if split_of(chain) == split:
            prompt = Prompt(f"chain-{digest(chain)[:12]}", problem(chain), level, (str(chain.answer),))
            return Task(prompt, chain)


def draw_many(split: Split, seed: int) -> Iterator[Task]:
    """Endless problems of a split; the same seed gives the same ones."""
    rng = Random(f"chains-{split}-{seed}")
    while True:
        yield draw(rng, split)


@lru_cache(maxsize=2)
def tasks(split: Split) -> tuple[Task, ...]:
    """The fixed problems of a split, all distinct: 2,048 for training, 256 held out."""
    found: dict[str, Task] = {}
    for task in draw_many(split, seed=0):
        found.setdefault(task.prompt.text, task)
        if len(found) == PROMPT_COUNTS[split]:
            return tuple(found.values())
    raise AssertionError("unreachable: draw_many is endless")


def prompts(split: Split) -> list[Prompt]:
    """The prompts of a split, always the same ones in the same order."""
    return [task.prompt for task in tasks(split)]
