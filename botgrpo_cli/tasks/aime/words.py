r"""Short word problems for small pretrained models: a start, one to three changes, one question, all text ours.

    Mia has 23 apples. She buys 14 more. She gives 9 of them to a friend. How many apples does Mia have now?

The numbers come from `tiny.chains.Chain`, so the answer is known and so is every operation; a problem's chain is read
back from its text. A solution is free text, in which only equations and the box are checked.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from functools import lru_cache
from random import Random
from typing import Literal

from botgrpo_cli.tasks.aime.answer import integer, last_box
from botgrpo_cli.tasks.aime.verdicts import Verdict
from botgrpo_cli.tasks.base import Prompt, Split
from botgrpo_cli.tiny.chains import HIGHEST, Chain, apply

PROMPT_COUNTS: dict[Split, int] = {"train": 1024, "held-out": 256}
HELD_OUT_SHARE = 5  # one problem in five is held out
CHANGES = {"easy": 1, "medium": 2, "hard": 3}  # how many a problem has
LEVELS = {"easy": 4, "medium": 3, "hard": 1}  # and how often each is drawn: hard ones are far beyond 135 M weights
LARGEST_TERM = 20

NAMES = (("Mia", "She"), ("Tom", "He"), ("Anna", "She"), ("Ben", "He"), ("Lena", "She"), ("Omar", "He"))
THINGS = ("apples", "books", "marbles", "stamps", "shells", "coins", "cards", "pencils")
CHANGED = {
    "+": ("{he} buys {k} more.", "{he} finds {k} more.", "{he} gets {k} more from a friend."),
    "-": ("{he} gives {k} of them to a friend.", "{he} loses {k} of them.", "{he} sells {k} of them."),
    "*": ("Then {he} has {k} times as many.",),
}
WEIGHTS = {"+": 4, "-": 4, "*": 1}

_PROBLEM = re.compile(r"\b\w+ has (\d+) [a-z]+\. (.{0,400}?) ?How many [a-z]+ does \w+ have now\?", re.DOTALL)
_CHANGE = re.compile(
    "|".join(
        re.escape(text).replace(r"\{he\}", "(?:[Ss]he|[Hh]e)").replace(r"\{k\}", rf"(?P<n{n}>\d+)")
        for n, text in enumerate(text for texts in CHANGED.values() for text in texts)
    )
)
_OPERATORS = [operator for operator, texts in CHANGED.items() for _ in texts]
# Only whole equations of two numbers: `23 apples + 14 = 37 apples` counts, as units are left out first.
_EQUATION = re.compile(r"(?<![\d.+*/=-])(-?\d{1,9}) ?([-+*/]) ?(\d{1,9}) ?= ?(-?\d{1,9})(?![\d.]*\d)")
_SIGNS = str.maketrans({"×": "*", "·": "*", "−": "-", "–": "-", "$": "", "÷": "/"})
_UNITS = re.compile(r"(?<=\d) ?(?:" + "|".join(THINGS) + r")\b")


def problem(chain: Chain, rng: Random) -> str:
    """A text for the chain; who has what, and the verbs, are drawn."""
    (name, he), thing = rng.choice(NAMES), rng.choice(THINGS)
    parts = [f"{name} has {chain.start} {thing}."]
    for operator, operand in chain.operations:
        text = rng.choice(CHANGED[operator])
        parts.append(text.format(he=he if text.startswith("{he}") else he.lower(), k=operand))
    return " ".join([*parts, f"How many {thing} does {name} have now?"])


def read_problem(text: str) -> Chain:
    """The chain of the last word problem in a text, so that examples may stand before it. ValueError without one.

    >>> read_problem("Mia has 23 apples. She buys 14 more. She loses 9 of them. How many apples does Mia have now?")
    Chain(start=23, operations=(('+', 14), ('-', 9)))
    """
    found = [None, *_PROBLEM.finditer(text)][-1]
    operations = []
    for change in _CHANGE.finditer(found[2]) if found else ():
        group, number = next((key, value) for key, value in change.groupdict().items() if value is not None)
        operations.append((_OPERATORS[int(group[1:])], int(number)))
    if found is None or not operations:
        raise ValueError(f"No word problem stands in {text[:80]!r}.")
    return Chain(int(found[1]), tuple(operations))


def verify(chain: Chain, texts: Sequence[str], *, against: Literal["chain", "written"] = "chain") -> list[Verdict]:
    r"""Verdict of each step of a free-text solution, from its equations and its box.

    - incorrect: an equation that is false; a box without the true answer; with `against="chain"` also an equation that
      is true and none of the problem's.
    - correct: equations that are all true and the problem's (`against="written"`: true); a box with the true answer.
    - uncertain: neither an equation nor a box stands in it.

    With `against="written"` a box is correct when it holds the last written result (paper: judging steps one by one).

    >>> texts = ["23 apples + 14 = 37 apples", "She has fewer now.", "37 - 9 = 29", "\\boxed{29}"]
    >>> verify(Chain(23, (("+", 14), ("-", 9))), texts)
    ['correct', 'uncertain', 'incorrect', 'incorrect']
    """
    known = set(zip(chain.values, chain.operations, strict=False))
    known |= {(b, (op, a)) for a, (op, b) in known if op in "+*"}
    written: int | None = None
    verdicts: list[Verdict] = []
    for text in texts:
        found = equations(text)
        right = []
        for before, operator, operand, result in found:
            right.append(operator != "/" and result == apply(before, operator, operand))
            if against == "chain":
                right.append((before, (operator, operand)) in known)
            written = result
        content, _ = last_box(text)
        if content is not None:
            wanted = written if against == "written" and written is not None else chain.answer
            right.append(integer(content) == wanted)
        verdicts.append("uncertain" if not right else "correct" if all(right) else "incorrect")
    return verdicts


def equations(text: str) -> list[tuple[int, str, int, int]]:
    """(number, operator, number, result) of every equation of two numbers, units left out.

    >>> equations("So 23 apples + 14 apples = 37 apples, then 37 − 9 = 28.")
    [(23, '+', 14, 37), (37, '-', 9, 28)]
    """
    plain = _UNITS.sub("", text.translate(_SIGNS).replace("\\times", "*").replace("\\cdot", "*"))
    return [(int(a), op, int(b), int(c)) for a, op, b, c in _EQUATION.findall(plain)]


def complete(chain: Chain, text: str) -> bool:
    """Whether a solution shows its work: at least one equation for each change."""
    return len(equations(text)) >= len(chain.operations)


def draw_chain(rng: Random, level: str) -> Chain:
    """A chain of the level; its values lie in 1 to 999 and change every time."""
    start = value = rng.randint(2, LARGEST_TERM)
    operations = []
    for _ in range(CHANGES[level]):
        while True:
            operator = rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
            operand = rng.randint(2, 3 if operator == "*" else LARGEST_TERM)
            result = apply(value, operator, operand)
            if 1 <= result <= HIGHEST:
                break
        operations.append((operator, operand))
        value = result
    return Chain(start, tuple(operations))


@lru_cache(maxsize=2)
def prompts(split: Split) -> tuple[Prompt, ...]:
    """The fixed problems of a split, all distinct; a problem's split is that of the hash of its text."""
    rng = Random(f"words-{split}")
    found: dict[str, Prompt] = {}
    while len(found) < PROMPT_COUNTS[split]:
        level = rng.choices(list(LEVELS), list(LEVELS.values()))[0]
        chain = draw_chain(rng, level)
        text = problem(chain, rng)
        digest = hashlib.sha256(text.encode()).hexdigest()
        if ("held-out" if int(digest[:8], 16) % HELD_OUT_SHARE == 0 else "train") == split:
            found.setdefault(text, Prompt(f"words-{digest[:12]}", text, level, (str(chain.answer),)))
    return tuple(found.values())
