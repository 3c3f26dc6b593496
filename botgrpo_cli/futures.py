"""Work that goes on when other work is done, without a thread that waits for it."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import CancelledError, Future
from typing import Any, Generic, TypeVar

from botgrpo_cli.errors import RunError

A = TypeVar("A")
B = TypeVar("B")


def ready(value: A) -> Future[A]:
    """A future that is done."""
    future: Future[A] = Future()
    future.set_result(value)
    return future


def then(before: Future[A], work: Callable[[A], B | Future[B]]) -> Future[B]:
    """The future of `work(result of before)`; when that is a future itself, its result is the one that counts.

    `work` runs in the thread that finished `before`, or at once when it is done already, so it must not block. What
    either raises, CancelledError included, the returned future raises: executors swallow what a callback raises.
    """
    after: Future[B] = Future()
    after.set_running_or_notify_cancel()

    def go_on(done: Future[A]) -> None:
        try:
            made = work(done.result())
        except BaseException as problem:
            after.set_exception(problem)
            return
        if isinstance(made, Future):
            made.add_done_callback(lambda inner: _copy(inner, after))
        else:
            after.set_result(made)

    before.add_done_callback(go_on)
    return after


def worded(before: Future[A], sentence: str) -> Future[A]:
    """The same result; a cancellation becomes a RunError that says `sentence`, for who waits at the end of a chain."""
    after: Future[A] = Future()
    after.set_running_or_notify_cancel()

    def deliver(done: Future[A]) -> None:
        try:
            after.set_result(done.result())
        except CancelledError:
            after.set_exception(RunError(sentence))
        except BaseException as problem:
            after.set_exception(problem)

    before.add_done_callback(deliver)
    return after


def _copy(source: Future[Any], target: Future[Any]) -> None:
    try:
        target.set_result(source.result())
    except BaseException as problem:
        target.set_exception(problem)


class Once(Generic[A]):
    """Gives everyone who asks for the same key the same future; keeps the last `size` of them.

    A result that `keep` refuses, and an exception, are shared by those who wait already and forgotten then.
    """

    def __init__(self, size: int, keep: Callable[[A], bool] = lambda _: True) -> None:
        self._size, self._keep = size, keep
        self._lock = threading.RLock()  # the work may be done at once, in this thread, and forget itself
        self._futures: OrderedDict[Hashable, Future[A]] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], Future[A]]) -> Future[A]:
        """The future of `key`; `make` is called when there is none, and must not block."""
        with self._lock:
            if key in self._futures:
                self._futures.move_to_end(key)
                return self._futures[key]
            future = self._futures[key] = make()
            if len(self._futures) > self._size:
                self._futures.popitem(last=False)
        future.add_done_callback(lambda done: self._forget(key, done))
        return future

    def _forget(self, key: Hashable, done: Future[A]) -> None:
        if done.cancelled() or done.exception() is not None or not self._keep(done.result()):
            with self._lock:
                if self._futures.get(key) is done:
                    del self._futures[key]
