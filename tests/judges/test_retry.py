"""Which faults are tried again, after how long, and when a run has to stop. Nothing here waits."""

from __future__ import annotations

import random
from email.utils import formatdate

import pytest

from botgrpo_cli.judges.retry import FailureLimit, Patience, Stopped, parse_retry_after
from botgrpo_cli.judges.transport import Fault
from tests.judges.conftest import NoWait


class Failing:
    """Raises its faults one after the other, then gives "done"."""

    def __init__(self, *faults: Fault) -> None:
        self.faults, self.calls = list(faults), 0

    def __call__(self) -> str:
        self.calls += 1
        if self.faults:
            raise self.faults.pop(0)
        return "done"


@pytest.mark.parametrize("status", [None, 408, 409, 429, 500, 502, 503, 504, 529])
def test_what_may_pass_is_tried_again(status):
    patience, call = NoWait(), Failing(Fault("busy", status))
    assert patience.call(call) == "done"
    assert (call.calls, len(patience.waited)) == (2, 1)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 413, 422])
def test_what_cannot_pass_is_not(status):
    patience, call = NoWait(), Failing(Fault("no", status))
    with pytest.raises(Fault, match=f"{status}: no"):
        patience.call(call)
    assert (call.calls, patience.waited) == (1, [])


def test_six_tries_with_doubled_bounds_and_no_wait_after_the_last():
    patience, call = NoWait(), Failing(*[Fault("busy", 503)] * 9)
    with pytest.raises(Fault):
        patience.call(call)
    assert call.calls == 6
    assert patience.waited == [1.0, 2.0, 4.0, 8.0, 16.0]


def test_the_bound_ends_at_a_minute():
    patience = NoWait(20)
    with pytest.raises(Fault):
        patience.call(Failing(*[Fault("busy", 503)] * 20))
    assert patience.waited[5:8] == [32.0, 60.0, 60.0]
    assert max(patience.waited) == 60.0


def test_the_jitter_is_full():
    patience = Patience(6, wait=lambda seconds: None, uniform=random.Random(0).uniform)
    waits = [patience.seconds(5, None) for _ in range(200)]
    assert 0 <= min(waits) < 1
    assert 15 < max(waits) <= 16


def test_at_least_what_the_server_asks_for():
    patience = NoWait()
    assert patience.call(Failing(Fault("slow down", 429, retry_after=7.0))) == "done"
    assert 7.0 <= patience.waited[0] <= 8.0


def test_a_server_that_asks_for_an_hour_is_given_up():
    patience, call = NoWait(), Failing(Fault("quota", 429, retry_after=3600.0))
    with pytest.raises(Fault):
        patience.call(call)
    assert (call.calls, patience.waited) == (1, [])


def test_a_wait_that_is_called_off_ends_the_call():
    patience, call = Patience(6, wait=lambda seconds: True), Failing(Fault("busy", 503))
    with pytest.raises(Stopped):
        patience.call(call)
    assert call.calls == 1


def test_closing_ends_the_real_wait_and_every_later_call():
    patience = Patience(6, uniform=lambda low, high: 3600.0)
    call = Failing(Fault("busy", 503))

    def attempt() -> str:
        patience.stopping.set()  # while this call is in flight
        return call()

    with pytest.raises(Stopped):
        patience.call(attempt)
    with pytest.raises(Stopped):
        patience.call(call)
    assert call.calls == 1


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "3"}, 0.25),
        ({"retry-after": formatdate(1_000_030, usegmt=True)}, 30.0),
        ({"retry-after": formatdate(999_000, usegmt=True)}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "-4"}, None),
        ({"retry-after": ""}, None),
        ({}, None),
    ],
)
def test_retry_after(headers, seconds):
    assert parse_retry_after(headers, now=lambda: 1_000_000.0) == seconds


def test_a_fifth_of_failures_is_borne_and_more_is_not():
    limit = FailureLimit()
    assert [limit.record(failed=number % 5 == 4) for number in range(100)] == [None] * 100
    assert limit.record(failed=True) == "21 of the last 100 calls failed in transport"


def test_nothing_is_said_before_twenty_calls():
    limit = FailureLimit()
    said = [limit.record(failed=True) for _ in range(20)]
    assert said == [None] * 19 + ["20 of the last 20 calls failed in transport"]


def test_a_server_that_dies_late_is_noticed_as_soon():
    limit = FailureLimit()
    for _ in range(5000):
        limit.record(failed=False)
    said = [limit.record(failed=True) for _ in range(25)]
    assert said.index("21 of the last 100 calls failed in transport") == 20
