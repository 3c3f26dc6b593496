"""What one request to the pool waits for, and the parts of it that processes do."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from itertools import pairwise
from typing import Any

from botgrpo_cli.tasks.own.functions import Answer, Call, Failure, Function
from botgrpo_cli.tasks.own.messages import Job, Mode, Pair, Work, blame


class Order:
    """What one `submit` waits for."""

    def __init__(self, names: list[str], calls: int, parts: int) -> None:
        self.future: Future[list[dict[str, Answer]]] = Future()
        self.future.set_running_or_notify_cancel()
        self.answers: dict[Pair, Answer] = {}
        self._names, self._calls, self._left = names, calls, parts
        self._lock = threading.Lock()

    def part_done(self) -> None:
        with self._lock:
            self._left -= 1
            if self._left:
                return
        with contextlib.suppress(InvalidStateError):
            self.future.set_result([{name: self.answers[name, n] for name in self._names} for n in range(self._calls)])

    def fail(self, problem: BaseException) -> None:
        with contextlib.suppress(InvalidStateError):  # another part was first
            self.future.set_exception(problem)


class Part:
    """Jobs for one process on neighbouring calls, and how far they are done. Pairs count from its first call."""

    def __init__(
        self,
        order: Order,
        functions: Mapping[str, Function],
        calls: list[Call],
        jobs: Sequence[tuple[Mode, list[Pair]]],
        start: int = 0,
    ) -> None:
        self.order = order
        self.jobs = [(mode, dict.fromkeys(pairs)) for mode, pairs in jobs]  # open pairs, in order
        self._functions, self._calls, self._start = functions, calls, start

    def work(self, timeout: float, trainer_state: dict[str, Any]) -> Work:
        return Work(tuple(Job(mode, tuple(pairs)) for mode, pairs in self.jobs), self._calls, timeout, trainer_state)

    def take(self, answers: Sequence[tuple[str, int, Answer]]) -> None:
        pairs = self.jobs[0][1]
        for name, n, answer in answers:
            self.order.answers[name, self._start + n] = answer
            del pairs[name, n]
        if not pairs:
            del self.jobs[0]

    def blame(self, what: str, then: str = "") -> None:
        """The process was lost: the call that was under way gets a Failure, the others stay open."""
        if not self.jobs:
            return
        mode, pairs = self.jobs[0]
        if mode == "together" and len(pairs) > 1:  # it may have been any of them: next time one after the other
            self.jobs[0] = ("each", pairs)
            return
        guilty = list(pairs) if mode == "batch" else [next(iter(pairs))]
        self.take([(*pair, self._failure(pair, what, then, len(guilty))) for pair in guilty])

    def _failure(self, pair: Pair, what: str, then: str, of: int) -> Failure:
        function = self._functions[pair[0]]
        return blame(function, self._calls[pair[1]], what, then, of=of if function.batch else None)


def chunks(count: int, parts: int) -> list[tuple[int, int]]:
    """Neighbours, as equal as they can be.

    >>> chunks(7, 3), chunks(2, 3)
    ([(0, 3), (3, 5), (5, 7)], [(0, 1), (1, 2)])
    """
    parts = min(count, parts)
    size, more = divmod(count, parts)
    bounds = [n * size + min(n, more) for n in range(parts + 1)]
    return list(pairwise(bounds))
