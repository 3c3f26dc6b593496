"""The client with many calls at once: one cap, one call for equal asks, and an end for everything that waits."""

from __future__ import annotations

import threading

import pytest

from botgrpo_cli.errors import RunError
from tests.judges.asks import GOOD_TEXT, ask
from tests.judges.server import Response, chat, error


def test_calls_that_wait_are_stopped_too(judge_for, server):
    judge = judge_for(concurrency=2)
    waiting, go_on = threading.Event(), threading.Event()

    def wait(seconds: float) -> bool:
        waiting.set()
        go_on.wait(60)
        return judge.patience.stopping.is_set()

    judge.patience._wait = wait
    server.script.append(error(503))
    first = judge.submit(ask("One."))
    waiting.wait(60)
    server.script.append(error(401, "no such key"))
    assert isinstance(judge.submit(ask("Two.")).exception(), RunError)
    go_on.set()
    assert "no such key" in str(first.exception())


def test_one_cap_on_calls_in_flight_over_asks_and_submits(judge_for, server):
    judge = judge_for(concurrency=3)
    full, open_ = threading.Event(), threading.Event()

    def hold(request: dict) -> Response:
        if server.in_flight == 3:
            full.set()
        open_.wait(60)
        return chat(GOOD_TEXT)

    server.answering = hold
    futures = [judge.submit(ask(f"{number}")) for number in range(7)]
    blocking = threading.Thread(target=judge.ask, args=(ask("blocking"),))
    blocking.start()
    assert full.wait(60)
    open_.set()
    assert [future.result().outcome for future in futures] == ["ok"] * 7
    blocking.join()
    assert server.most_in_flight == 3


def test_equal_asks_of_a_group_are_one_call_and_take_one_place(judge_for, server):
    judge = judge_for(concurrency=2)
    open_ = threading.Event()

    def hold(request: dict) -> Response:
        if "same" in request["messages"][1]["content"]:
            open_.wait(60)
        return chat(GOOD_TEXT)

    server.answering = hold
    same = [judge.submit(ask("same")) for _ in range(8)]
    assert judge.submit(ask("other")).result().outcome == "ok", "the seven that wait must not take the second place"
    open_.set()
    replies = [future.result() for future in same]
    assert [reply.cached for reply in replies] == [False] + [True] * 7
    assert len(server.requests) == 2
    counted = judge.counters()
    assert (counted["asks"], counted["calls"], counted["cache_hits"], counted["ok"]) == (9, 2, 7, 9)


def test_closing_ends_everything_and_twice_is_fine(judge_for, server):
    judge = judge_for()
    judge.close()
    judge.close()
    with pytest.raises(RunError, match="closed"):
        judge.ask(ask())
    assert "closed" in str(judge.submit(ask()).exception())
    assert server.requests == []
