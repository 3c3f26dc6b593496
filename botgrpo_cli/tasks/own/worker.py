"""Calls the functions, in the child, and turns whatever happens into answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from botgrpo_cli.tasks.own.arguments import Bound, NoColumn
from botgrpo_cli.tasks.own.discover import own_places, worded
from botgrpo_cli.tasks.own.functions import Answer, Call, Failure
from botgrpo_cli.tasks.own.limits import Alarm, TimeUp
from botgrpo_cli.tasks.own.messages import Pair, Work, blame
from botgrpo_cli.tasks.own.values import Unfit, checked, checked_batch

if TYPE_CHECKING:
    from botgrpo_cli.tasks.own.asynchronous import Loop

Deliver = Callable[[list[tuple[str, int, Answer]]], None]


class Worker:
    """Does the jobs of a `Work`. `deliver` gets answers as soon as there are some, and must not raise."""

    def __init__(self, bound: dict[str, Bound], folder: Path | None, deliver: Deliver) -> None:
        self._bound, self._folder, self._deliver = bound, folder, deliver
        self._alarm = Alarm()
        self._loop: Loop | None = None
        self._timeout = 0.0  # seconds a call, for messages

    def do(self, work: Work) -> None:
        self._timeout = work.timeout
        for job in work.jobs:
            if job.mode == "each":
                for pair in job.pairs:
                    self._answer([[pair]], work)
            elif job.mode == "together":
                self._answer([[pair] for pair in job.pairs], work)
            else:
                self._answer([job.pairs], work)
        self._alarm.rest()

    def _answer(self, groups: Sequence[Sequence[Pair]], work: Work) -> None:
        """One call for each group of pairs: all at once if there are several, which then are of async functions."""
        if not self._bound[groups[0][0][0]].asynchronous:
            (pairs,) = groups
            bound, calls = self._bound[pairs[0][0]], [work.calls[index] for _, index in pairs]
            self._deliver_all(pairs, calls, self._called(bound, calls, work))
            return
        items = []
        for pairs in groups:
            bound, calls = self._bound[pairs[0][0]], [work.calls[index] for _, index in pairs]

            async def call(bound: Bound = bound, calls: list[Call] = calls) -> list[Any]:
                return _checked(bound, await _given(bound, calls, work), calls)

            def take(result: Any, pairs: Sequence[Pair] = pairs, calls: list[Call] = calls) -> None:
                self._deliver_all(pairs, calls, result)

            items.append((call, take))
        if self._loop is None:
            from botgrpo_cli.tasks.own.asynchronous import Loop

            self._loop = Loop(self._alarm)
        self._loop.run(items, work.timeout)

    def _called(self, bound: Bound, calls: list[Call], work: Work) -> Any:
        """What is to be delivered: a value for each call, or the exception."""
        try:
            self._alarm.set(work.timeout)
            result = _checked(bound, _given(bound, calls, work), calls)
            return TimeUp() if self._alarm.off() else result
        except BaseException as problem:
            return TimeUp() if self._alarm.off() else problem

    def _deliver_all(self, pairs: Sequence[Pair], calls: Sequence[Call], result: Any) -> None:
        results = [result] * len(pairs) if isinstance(result, BaseException) else result
        answers = []
        for (name, index), call, one in zip(pairs, calls, results, strict=True):
            if isinstance(one, BaseException):
                one = self._failure(self._bound[name], call, one, len(pairs))
            answers.append((name, index, one))
        self._deliver(answers)

    def _failure(self, bound: Bound, call: Call, problem: BaseException, pairs: int) -> Failure:
        of = pairs if bound.function.batch else None
        if isinstance(problem, NoColumn):
            return Failure(str(problem))
        if isinstance(problem, Unfit):
            return blame(bound.function, call, problem.what, f"; expected {problem.expected}", of=of)
        if isinstance(problem, TimeUp):
            return blame(bound.function, call, f"ran longer than {self._timeout:g} s", " and was stopped", of=of)
        places = own_places(problem.__traceback__, self._folder)
        where = f" ({places[-1]})" if places else ""
        return blame(bound.function, call, f"raised {worded(problem)}{where}", of=of)


def _given(bound: Bound, calls: list[Call], work: Work) -> Any:
    if bound.function.batch:
        return bound.call(**bound.for_all(calls, work.trainer_state))
    return bound.call(calls[0].text, **bound.for_one(calls[0]))


def _checked(bound: Bound, value: Any, calls: list[Call]) -> list[Answer | Unfit]:
    if bound.function.batch:
        return checked_batch(bound.function, value, calls)
    return [checked(bound.function, value, calls[0])]
