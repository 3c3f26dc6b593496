"""`term`, `signal` and `metric`: how a file says what its functions are.

They attach a note and return the function unchanged, so it can still be called and tested like any other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import EllipsisType
from typing import Any, TypeVar, get_args

from botgrpo_cli.errors import InputError, nearest
from botgrpo_cli.tasks.own.functions import Kind, Unit

NOTE = "__botgrpo__"  # the attribute

F = TypeVar("F", bound=Callable[..., Any])
Bound = float | None | EllipsisType  # `...`: the default of the function's form


@dataclass(frozen=True)
class Declaration:
    kind: Kind
    unit: Unit | None
    low: Bound
    high: Bound


def term(function: F | None = None, /, *, low: Bound = ..., high: Bound = ...) -> Any:
    """A part of the reward: one number a completion.

    `@term`, or `@term(low=-1, high=1)`. A bound that is left out is the one the function has without a decorator: 0 and
    1 for a function of one completion, none for one of all completions. None: no bound. Raises InputError.

    >>> @term(high=2)
    ... def solved(text, answer):
    ...     return 2.0 * (answer in text)
    >>> solved("so it is 4", "4")
    2.0
    """
    return _noted(function, Declaration("term", None, low, high))


def signal(unit: Unit, /, *, low: float | None = -1.0, high: float | None = 1.0) -> Callable[[F], F]:
    """A value for parts of a completion: of "characters", "lines", "steps" or "tokens".

    The function returns triples (start, end, value), counted from 0, `end` not included; for lines, steps and tokens
    also one number each. Raises InputError.

    >>> @signal("lines")
    ... def long_lines(text):
    ...     return [-1.0 if len(line) > 80 else 0.0 for line in text.split("\\n")]
    >>> long_lines("a")
    [0.0]
    """
    units = get_args(Unit)
    if unit not in units:
        found = "a function, as if it stood without brackets" if callable(unit) else f"{unit!r}"
        raise InputError(f"@signal takes one of {', '.join(map(repr, units))}; got {found}.{nearest(unit, units)}")
    return _noted(None, Declaration("signal", unit, low, high))


def metric(function: F | None = None, /) -> Any:
    """A number to log that is no part of the reward; it may be any finite one. `@metric`.

    >>> @metric
    ... def words(text):
    ...     return len(text.split())
    """
    return _noted(function, Declaration("metric", None, None, None))


def _noted(function: F | None, declaration: Declaration) -> Any:
    _check_bounds(declaration)

    def note(function: F) -> F:
        if not callable(function):
            raise InputError(f"@{declaration.kind} stands above a function; got {function!r}.")
        if NOTE in vars(function):
            raise InputError("There are two of @term, @signal and @metric above one function; expected one.")
        setattr(function, NOTE, declaration)
        return function

    return note if function is None else note(function)


def _check_bounds(declaration: Declaration) -> None:
    low, high = (None if bound is ... else bound for bound in (declaration.low, declaration.high))
    for name, bound in (("low", low), ("high", high)):
        if bound is not None and not (isinstance(bound, int | float) and abs(bound) < float("inf")):
            raise InputError(f"{name} of @{declaration.kind} is {bound!r}; expected a finite number or None.")
    if low is not None and high is not None and low >= high:
        raise InputError(f"low of @{declaration.kind} is {low:g} and high {high:g}; expected low < high.")
