"""A pool of processes with a person's functions. They load them once, and may hang or die."""

from __future__ import annotations

import json
import os
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import lru_cache
from typing import Any, Self

from botgrpo_cli.errors import InputError, RunError, nearest
from botgrpo_cli.futures import ready
from botgrpo_cli.tasks.own.functions import Answer, Call, Function, Rows
from botgrpo_cli.tasks.own.limits import GRACE
from botgrpo_cli.tasks.own.messages import Description, Mode, Pair
from botgrpo_cli.tasks.own.parts import Order, Part, chunks
from botgrpo_cli.tasks.own.process import LOAD_SECONDS, FunctionProcess, Lost, absolute, title

SEND_SECONDS = 60.0  # for a request to get through to a child that waits for it


class FunctionPool:
    """Calls the functions that `spec` names in `workers` processes, each call for at most `timeout` seconds.

    `spec`: a path of a .py file, `verifiers:ENV` or `reasoning-gym:NAME`, the latter two with `options`. Raises
    InputError for whatever keeps them from being loaded. Use it as a context manager, or call `close`.
    """

    def __init__(
        self, spec: str, *, options: Mapping[str, Any] | None = None, workers: int = 1, timeout: float = 10.0
    ) -> None:
        self._spec, self._options, self._timeout = absolute(spec), dict(options or {}), timeout
        self._wake = threading.Condition()  # of the queues, `_closed` and `_processes`
        self._closed = False
        self._first: deque[_Task] = deque()  # for the first process alone
        self._shared: deque[_Task] = deque()
        self._processes = [FunctionProcess(self._spec, self._options) for _ in range(workers)]
        self._threads: list[threading.Thread] = []
        try:
            self._description = self._processes[0].describe()
        except BaseException:
            self.close()
            raise
        for index in range(workers):
            thread = threading.Thread(target=self._serve, args=(index,), name=f"functions-{index}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def describe(self) -> Description:
        return self._description

    def submit(
        self, names: Sequence[str], calls: Sequence[Call], *, trainer_state: Mapping[str, Any] | None = None
    ) -> Future[list[dict[str, Answer]]]:
        """What the functions `names` say of each call, one dict a call; returns at once.

        A function in batch form gets all calls in one call, in the first process; the others are spread over the
        processes. `trainer_state` is what functions in TRL's form find in the argument of that name. The future
        raises RunError when the functions can't be loaded any more, or the pool is closed.
        """
        functions = self._description.functions
        for name in names:
            if name not in functions:
                raise InputError(f"{title(self._spec)} has no function {name!r}.{nearest(name, functions)}")
        if not names or not calls:
            return ready([{} for _ in calls])
        together = [functions[name] for name in names if functions[name].batch]
        alone = [functions[name] for name in names if not functions[name].batch]
        neighbours = chunks(len(calls), len(self._processes)) if alone else []
        order = Order(list(names), len(calls), len(neighbours) + bool(together))
        tasks: list[tuple[deque[_Task], Part]] = []
        if together:
            jobs = [("batch", [(function.name, n) for n in range(len(calls))]) for function in together]
            tasks.append((self._first, Part(order, functions, list(calls), jobs)))
        for start, end in neighbours:
            jobs = self._jobs(alone, end - start)
            tasks.append((self._shared, Part(order, functions, list(calls[start:end]), jobs, start)))
        state = dict(trainer_state or {})
        for queue, part in tasks:
            self._put(queue, lambda index, part=part: self._do(index, part, state), order.fail)
        return order.future

    def rows(self) -> Rows | None:
        """The prompts that the source itself has; waits for them. Raises InputError and RunError."""
        future: Future[Rows | None] = Future()
        self._put(self._shared, lambda index: future.set_result(self._rows(index)), future.set_exception)
        return future.result()

    @property
    def pids(self) -> list[int]:
        """Of the processes, which are also the ids of their process groups."""
        with self._wake:
            return [process.pid for process in self._processes]

    def close(self) -> None:
        """Ends every process and thread; futures that still wait raise RunError. Safe to call twice."""
        with self._wake:
            self._closed = True
            waiting = [*self._first, *self._shared]
            self._first.clear()
            self._shared.clear()
            self._wake.notify_all()
        for process in self._processes:
            process.hang_up()
        for process in self._processes:
            process.end()
        for _, fail in waiting:
            fail(self._was_closed())
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _was_closed(self) -> RunError:
        return RunError(f"The functions of {title(self._spec)} were closed while completions waited for them.")

    def _jobs(self, functions: Sequence[Function], calls: int) -> list[tuple[Mode, list[Pair]]]:
        concurrent = self._description.concurrent
        pairs = [(function.name, n) for function in functions for n in range(calls)]
        each = [pair for pair in pairs if pair[0] not in concurrent]
        at_once = [pair for pair in pairs if pair[0] in concurrent]
        return [*([("each", each)] if each else []), *([("together", at_once)] if at_once else [])]

    def _put(self, queue: deque[_Task], work: Callable[[int], None], fail: Callable[[BaseException], None]) -> None:
        with self._wake:
            if self._closed:
                raise self._was_closed()
            queue.append((work, fail))
            self._wake.notify_all()

    def _serve(self, index: int) -> None:
        """What thread `index` does: it drives process `index`."""
        while True:
            with self._wake:
                while not (queue := self._first if index == 0 and self._first else self._shared):
                    if self._closed:
                        return
                    self._wake.wait()
                work, fail = queue.popleft()
            try:
                work(index)
            except BaseException as problem:
                fail(problem)

    def _renewed(self, index: int) -> FunctionProcess:
        """The process, a new one where it has ended. Raises RunError."""
        with self._wake:
            if self._closed:
                raise self._was_closed()
            process = self._processes[index]
            if process.ended():
                process.kill()
                process = self._processes[index] = FunctionProcess(self._spec, self._options)
            return process

    def _process(self, index: int) -> FunctionProcess:
        """The process, when it has loaded the functions. Raises RunError."""
        process = self._renewed(index)
        try:
            description = process.describe()
        except InputError as problem:
            raise self._was_closed() if self._closed else RunError(str(problem)) from problem
        if description != self._description:
            process.kill()
            raise RunError(f"{title(self._spec)} was edited since the run started; its functions are others now.")
        return process

    def _do(self, index: int, part: Part, trainer_state: dict[str, Any]) -> None:
        while part.jobs:
            process = self._process(index)
            try:
                process.send(part.work(self._timeout, trainer_state), SEND_SECONDS)
                while (answers := process.receive(self._timeout + GRACE)) != "done":
                    part.take(answers)
            except Lost as lost:
                if self._closed:
                    raise self._was_closed() from lost
                self._renewed(index)  # now, not with the next request: it may take a while to load
                if lost.silent:
                    part.blame(f"did not answer within {self._timeout:g} s", " and was ended with its process")
                else:
                    part.blame(str(lost))
        part.order.part_done()

    def _rows(self, index: int) -> Rows | None:
        process = self._process(index)
        try:
            process.send("rows", SEND_SECONDS)
            kind, what = process.receive(LOAD_SECONDS)
        except Lost as lost:
            raise RunError(f"{title(self._spec)} {lost} while it was asked for its prompts.") from lost
        if kind == "problem":
            raise InputError(what)
        return what


# Work for a thread, which gets its index, and what to do with an exception that comes out of it.
_Task = tuple[Callable[[int], None], Callable[[BaseException], None]]


def describe(spec: str, options: Mapping[str, Any] | None = None) -> Description:
    """What `spec` holds, from a process that ends again. Remembered until the file changes. Raises InputError."""
    spec = absolute(spec)
    try:
        status = os.stat(spec)
        stamp = (status.st_mtime_ns, status.st_size)
    except OSError:
        stamp = None
    return _described(spec, json.dumps(dict(options or {}), sort_keys=True), stamp)


@lru_cache(maxsize=64)
def _described(spec: str, options: str, stamp: tuple[int, int] | None) -> Description:
    process = FunctionProcess(spec, json.loads(options))
    try:
        return process.describe()
    finally:
        process.hang_up()
        process.end()
