"""What a function may give. Whatever else comes back never gets further than this file."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from typing import Any

from botgrpo_cli.tasks.own.functions import Answer, Call, Function, Span

SHOWN = 80  # characters of a value in a message


class Unfit(Exception):
    """A value that can't be used: what the function did ("gave 1.7") and what was expected."""

    def __init__(self, what: str, expected: str) -> None:
        super().__init__(what, expected)
        self.what, self.expected = what, expected


def checked(function: Function, value: Any, call: Call) -> Answer:
    """The value as plain numbers. Raises Unfit.

    >>> bounded = Function("solved", "term", low=0, high=1)
    >>> checked(bounded, True, Call("p", "", "text"))
    1.0
    >>> checked(Function("doubt", "signal", unit="lines", low=-1, high=1), [(0, 1, -0.5)], Call("p", "", "text"))
    [(0, 1, -0.5)]
    """
    if value is None:
        return None
    if function.kind == "signal":
        return _parts(function, value, call)
    number = _number(value)
    if number is None or not _within(function, number):
        raise Unfit(f"gave {shown(value)}", bounds(function))
    return number


def checked_batch(function: Function, values: Any, calls: list[Call]) -> list[Answer | Unfit]:
    """An answer for each call, or why it has none. Raises Unfit when there isn't one value each."""
    listed = _listed(values)
    if listed is None:
        raise Unfit(f"gave {shown(values)}", f"a list of {len(calls)} values")
    if len(listed) != len(calls):
        raise Unfit(f"gave {_counted(len(listed), 'value')}", "one value each")
    answers: list[Answer | Unfit] = []
    for value, call in zip(listed, calls, strict=True):
        try:
            answers.append(checked(function, value, call))
        except Unfit as problem:
            answers.append(problem)
    return answers


def bounds(function: Function) -> str:
    low, high = function.low, function.high
    if low is None and high is None:
        return "a finite number"
    if low is None:
        return f"a number of at most {high:g}"
    if high is None:
        return f"a number of at least {low:g}"
    return f"a number from {low:g} to {high:g}"


def shown(value: Any) -> str:
    """Its `repr` on one line, not too long; a number of a library without the library around it."""
    try:
        text = repr(_number(value) if hasattr(value, "item") and _number(value) is not None else value)
    except Exception:
        text = f"a value of type {type(value).__name__} whose repr fails"
    text = " ".join(text.split())
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"


def _number(value: Any) -> float | None:
    """A real number, or None for anything else. NaN and infinity are numbers here; no bound holds them."""
    if not isinstance(value, bool | int | float) and hasattr(value, "item"):
        try:
            value = value.item()  # a scalar of numpy or torch
        except (TypeError, ValueError, RuntimeError):
            return None  # an array of more than one
    if not isinstance(value, bool | int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _within(function: Function, number: float) -> bool:
    low, high = function.low, function.high
    return math.isfinite(number) and (low is None or low <= number) and (high is None or number <= high)


def _listed(value: Any) -> list[Any] | None:
    if not isinstance(value, list | tuple) and hasattr(value, "tolist"):
        value = value.tolist()  # an array of numpy or torch
    return list(value) if isinstance(value, list | tuple) else None


def _parts(function: Function, value: Any, call: Call) -> list[Span] | list[float]:
    length = _length(function, call)
    unit = function.unit
    listed = _listed(value)
    if listed is None:
        raise Unfit(f"gave {shown(value)}", _what_parts(function, length))
    if listed and unit != "characters" and _number(listed[0]) is not None:
        return _numbers(function, listed, length)
    return [_span(function, part, length) for part in listed]


def _numbers(function: Function, values: Iterable[Any], length: int) -> list[float]:
    numbers = []
    for n, value in enumerate(values):
        number = _number(value)
        if number is None or not _within(function, number):
            raise Unfit(f"gave {shown(value)} at {n}", f"{bounds(function)} for each of the {function.unit}")
        numbers.append(number)
    if len(numbers) != length:
        raise Unfit(f"gave {_counted(len(numbers), 'number')}", f"one for each of its {length} {function.unit}")
    return numbers


def _span(function: Function, part: Any, length: int) -> Span:
    listed = _listed(part)
    if listed is None or len(listed) != 3:
        raise Unfit(f"gave {shown(part)}", _what_parts(function, length))
    try:
        start, end = operator.index(listed[0]), operator.index(listed[1])
    except TypeError:
        raise Unfit(f"gave the span {shown(part)}", "whole numbers as its start and end") from None
    if not 0 <= start <= end <= length:
        raise Unfit(f"gave the span {shown(part)}", f"0 <= start <= end <= {length}, the number of {function.unit}")
    number = _number(listed[2])
    if number is None or not _within(function, number):
        raise Unfit(f"gave {shown(listed[2])} for the span from {start} to {end}", bounds(function))
    return start, end, number


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _length(function: Function, call: Call) -> int:
    """How many of its unit a completion has."""
    if function.unit == "characters":
        return len(call.text)
    if function.unit == "lines":
        return call.text.count("\n") + 1
    return len(call.steps if function.unit == "steps" else call.tokens)


def _what_parts(function: Function, length: int) -> str:
    triples = "a list of triples (start, end, value)"
    return (
        triples if function.unit == "characters" else f"{triples}, or {length} numbers, one each of the {function.unit}"
    )
