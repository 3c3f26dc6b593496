"""The reward functions of {name}.yaml: a small language model learns to calculate, one equation after the other.

    botgrpo train {name}.yaml --dry-run      # calls each function once, trains nothing
    botgrpo train {name}.yaml --scale tiny   # minutes on two cores

A function gets the text that the model wrote, and of the row of {name}.jsonl whatever its parameters name (here
`answer`). Functions may be `async def`, and one that takes `completions` gets the whole batch in one call, as reward
functions of TRL do: those run unchanged.
"""

from __future__ import annotations

import re

from botgrpo_cli import metric, signal

EQUATION = re.compile(r"(\d+) ([-+*]) (\d+) = (-?\d+)")


def solved(text: str, answer: int) -> float:
    """Whether the last number is the answer."""
    # A term: a number from 0 to 1, one for the whole text.
    numbers = re.findall(r"\d+", text)
    return float(bool(numbers) and int(numbers[-1]) == answer)


def boxed(text: str) -> float:
    """Whether the text ends with the answer in a box."""
    return float(re.search(r"\\boxed\{\d+\}\.?\s*$", text) is not None)


@signal("characters")  # or "lines", "steps", "tokens"
def wrong_equations(text: str) -> list[tuple[int, int, float]]:
    """Blames each equation that does not hold."""
    # Spans (start, end, value): -1 is blame, 1 is praise.
    return [(found.start(), found.end(), -1.0) for found in EQUATION.finditer(text) if not _holds(found)]


@metric
def equations(text: str) -> int:
    """How many equations there are."""
    # Only logged: any number, no weight in the recipe.
    return len(EQUATION.findall(text))


def _holds(found: re.Match[str]) -> bool:  # a leading underscore: no function of the task
    left, operator, right, result = found.groups()
    a, b = int(left), int(right)
    return int(result) == (a + b if operator == "+" else a - b if operator == "-" else a * b)
