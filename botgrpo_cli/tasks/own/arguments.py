"""What a function takes: from its signature to the arguments of a call."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from botgrpo_cli.tasks.own.functions import Call, Function
from botgrpo_cli.tasks.own.messages import Description

ASKED = ("tokens", "steps")  # given to who names them: `**row` alone would have them made for nothing
ONE = ("prompt", "prompt_id", "finished", *ASKED)  # built in, beside `text`
# In batch form: TRL's names, then those of one completion as lists.
ALL = (
    *("prompts", "completions", "completion_ids", "trainer_state", "log_extra", "log_metric"),
    *("prompt_id", "finished", "tokens", "steps"),
)
HIDDEN = ("prompt", "completion", "completion_ids")  # columns that TRL keeps to itself


class NoColumn(Exception):
    """A parameter that nothing fills; the text is a sentence."""


@dataclass(frozen=True)
class Bound:
    """A function and what it takes."""

    function: Function
    call: Callable[..., Any]
    asynchronous: bool
    named: tuple[str, ...]  # parameters that can be given by name, but for the text
    required: frozenset[str]
    everything: bool  # it has **kwargs

    @property
    def only_columns(self) -> tuple[str, ...]:
        """Parameters that have to be columns of the data."""
        return tuple(name for name in self.named if name in self.required and name not in built_in(self.function))

    @property
    def asks_for(self) -> tuple[str, ...]:
        return tuple(name for name in ASKED if name in self.named)

    def for_one(self, call: Call) -> dict[str, Any]:
        """Keyword arguments beside the text; a column wins over what is built in. Raises NoColumn."""
        given: dict[str, Any] = {}
        if self.everything:
            given = {name: getattr(call, name) for name in ONE if name not in ASKED} | call.columns
            given.pop("text", None)
        for name in self.named:
            if name in call.columns:
                given[name] = call.columns[name]
            elif name in ONE:
                given[name] = getattr(call, name)
            elif name in self.required:
                raise NoColumn(no_column(self.function, name, call.columns))
        return given

    def for_all(self, calls: Sequence[Call], trainer_state: Mapping[str, Any]) -> dict[str, Any]:
        """Keyword arguments as TRL gives them, every column as a list. Raises NoColumn."""
        columns = {name: None for call in calls for name in call.columns if name not in HIDDEN}
        given: dict[str, Any] = {name: [getattr(call, name) for call in calls] for name in ONE[1:]}
        given |= {name: [call.columns.get(name) for call in calls] for name in columns}
        given |= {
            "prompts": [call.prompt for call in calls],
            "completions": [_completion(call) for call in calls],
            "completion_ids": [list(call.token_ids) for call in calls],
            "trainer_state": TrainerState(trainer_state),
            "log_extra": _no_log,
            "log_metric": _no_log,
        }
        for name in self.named:
            if name in self.required and name not in given:
                raise NoColumn(no_column(self.function, name, columns))
        if self.everything:
            return {name: value for name, value in given.items() if name not in ASKED or name in self.named}
        return {name: given[name] for name in self.named if name in given}


class TrainerState:
    """In the place of transformers' TrainerState: it holds what is known, and says so when asked for more.

    A made-up value would be worse than none: a reward that grows with `global_step` would never grow.
    """

    def __init__(self, known: Mapping[str, Any]) -> None:
        vars(self).update(known)

    def __getattr__(self, name: str) -> Any:
        known = ", ".join(vars(self)) or "nothing"
        raise AttributeError(f"trainer_state.{name} is not known to an own task; known is {known}")


def bind(function: Function, call: Callable[..., Any]) -> Bound:
    """ValueError for something without a signature, such as some functions written in C."""
    parameters = list(inspect.signature(call).parameters.values())
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    if not function.batch and parameters and parameters[0].kind in positional:
        del parameters[0]  # the text
    named = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    return Bound(
        function,
        call,
        asynchronous(call),
        tuple(p.name for p in named),
        frozenset(p.name for p in named if p.default is p.empty),
        any(p.kind is p.VAR_KEYWORD for p in parameters),
    )


def asynchronous(call: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(type(call).__call__)


def built_in(function: Function) -> tuple[str, ...]:
    return ALL if function.batch else ONE


def no_column(function: Function, parameter: str, columns: Iterable[str]) -> str:
    """Why a parameter stays empty, as a sentence.

    >>> print(no_column(Function("solved", "term", place="sums.py:12"), "anser", ["prompt", "answer"]))
    sums.py:12: solved takes 'anser', which is no column of the data. Its columns are prompt and answer; built in \
are prompt, prompt_id, finished, tokens and steps. Did you mean 'answer'?
    """
    from botgrpo_cli.errors import nearest  # not needed as long as all goes well

    columns, built = list(columns), built_in(function)
    subject = f"{function.place}: {function.name}" if function.place else function.name
    there = f"Its columns are {_listed(columns)}" if columns else "It has no columns"
    hint = nearest(parameter, [*columns, *built])
    return (
        f"{subject} takes {parameter!r}, which is no column of the data. {there}; built in are {_listed(built)}.{hint}"
    )


def empty_parameters(description: Description, names: Iterable[str], columns: Iterable[str]) -> list[str]:
    """A sentence for each parameter of the functions `names` that no column fills: for before anything is sampled."""
    seen_by_one = list(columns)
    seen_by_all = [name for name in seen_by_one if name not in HIDDEN]
    sentences = []
    for name in names:
        function = description.functions[name]
        seen = seen_by_all if function.batch else seen_by_one
        sentences += [no_column(function, p, seen) for p in description.required[name] if p not in seen]
    return sentences


def _completion(call: Call) -> Any:
    """Chat messages where the prompt is chat messages."""
    return call.text if isinstance(call.prompt, str) else [{"role": "assistant", "content": call.text}]


def _no_log(*_: Any, **__: Any) -> None:
    """TRL's `log_extra` and `log_metric`: accepted, not kept."""


def _listed(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else "".join(words)
