"""Chains of futures and work that is done once a key."""

from __future__ import annotations

from concurrent.futures import CancelledError, Future

import pytest

from botgrpo_cli.futures import Once, ready, then


def test_then_goes_on_with_a_value_or_with_another_future():
    first: Future[int] = Future()
    doubled = then(first, lambda value: value * 2)
    later: Future[str] = Future()
    chained = then(doubled, lambda value: later)
    assert not doubled.done()
    first.set_result(4)
    assert doubled.result(0) == 8
    assert not chained.done()
    later.set_result("end")
    assert chained.result(0) == "end"


def test_what_anyone_raises_arrives_at_the_end():
    def boom(_: object) -> None:
        raise KeyError("here")

    with pytest.raises(KeyError):
        then(then(ready(1), boom), lambda value: value).result(0)
    failed: Future[int] = Future()
    failed.set_exception(OSError("there"))
    with pytest.raises(OSError, match="there"):
        then(ready(1), lambda _: failed).result(0)
    cancelled: Future[int] = Future()
    end = then(cancelled, lambda value: value)
    cancelled.cancel()
    with pytest.raises(CancelledError):
        end.result(0)


def test_once_makes_a_key_once_and_forgets_the_oldest():
    made = []
    once: Once[int] = Once(2)

    def get(key: str) -> int:
        return once.get(key, lambda: made.append(key) or ready(len(made))).result(0)

    assert [get("a"), get("a"), get("b"), get("a"), get("c")] == [1, 1, 2, 1, 3]
    assert get("a") == 1  # "b" was the oldest
    assert get("b") == 4
    assert made == ["a", "b", "c", "b"]


def test_once_shares_a_failure_with_those_who_wait_and_then_tries_again():
    once: Once[int] = Once(8, keep=lambda value: value > 0)
    slow: Future[int] = Future()
    one, other = (once.get("k", lambda: slow) for _ in range(2))
    assert one is other is slow
    slow.set_exception(RuntimeError("down"))
    assert once.get("k", lambda: ready(-1)).result(0) == -1
    assert once.get("k", lambda: ready(5)).result(0) == 5
    assert once.get("k", lambda: ready(6)).result(0) == 5
