"""The judge's own retry loop: which faults are tried again, how long is waited, and when a run has to stop.

Full jitter (a uniform wait between 0 and a bound that doubles) spreads the calls of many threads; the numbers are our
choice. Waiting and chance are arguments, so that tests never sleep.
"""

from __future__ import annotations

import random
import threading
from collections import deque
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from time import time
from typing import TypeVar

from botgrpo_cli.judges.transport import Fault

FIRST_BOUND = 1.0  # seconds; the bound of the wait after the first try, doubled after each
LAST_BOUND = 60.0
LONGEST_ASKED = 300.0  # seconds; a server that asks for more is given up: a quota of a day, not a busy minute
T = TypeVar("T")


class Stopped(Exception):
    """The wait was ended because the judge was closed or the run stopped."""


class Patience:
    """Tries a call again as long as that can help.

    `wait(seconds)` returns True when waiting was called off; the default waits for `stopping`.
    """

    def __init__(
        self,
        tries: int,
        *,
        wait: Callable[[float], bool | None] | None = None,
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self.tries = tries
        self.stopping = threading.Event()
        self._wait = wait or self.stopping.wait
        self._uniform = uniform

    def call(self, attempt: Callable[[], T], tries: int | None = None) -> T:
        """What `attempt` returns. Raises the Fault of the last try, or Stopped."""
        tries = self.tries if tries is None else tries
        for tried in range(1, tries + 1):
            if self.stopping.is_set():
                raise Stopped
            try:
                return attempt()
            except Fault as fault:
                if not fault.again or tried == tries or (fault.retry_after or 0.0) > LONGEST_ASKED:
                    raise
                seconds = self.seconds(tried, fault.retry_after)
            if self._wait(seconds):
                raise Stopped
        raise ValueError("tries must be at least 1")

    def seconds(self, tried: int, retry_after: float | None) -> float:
        """The wait after `tried` tries: at least what the server asks for, and never all threads at once."""
        if retry_after is not None:
            return retry_after + self._uniform(0.0, FIRST_BOUND)
        return self._uniform(0.0, min(LAST_BOUND, FIRST_BOUND * 2.0 ** (tried - 1)))


class FailureLimit:
    """Says when so many calls fail in transport that a run would learn from failures.

    Over the last 100 calls, so that a server that dies late is noticed as soon as one that dies early.
    """

    def __init__(self, share: float = 0.2, least: int = 20, window: int = 100) -> None:
        self.share, self.least = share, least
        self._failed: deque[bool] = deque(maxlen=window)
        self._lock = threading.Lock()

    def record(self, failed: bool) -> str | None:
        """A clause when the limit is passed, as in "24 of the last 100 calls failed in transport"; else None."""
        with self._lock:
            self._failed.append(failed)
            count, failures = len(self._failed), sum(self._failed)
        if count < self.least or failures <= self.share * count:
            return None
        return f"{failures} of the last {count} calls failed in transport"


def parse_retry_after(headers, now: Callable[[], float] = time) -> float | None:
    """Seconds that the headers of a response ask to wait: `retry-after-ms`, else `retry-after` as seconds or a date.

    None when there is no such header, or it cannot be read.
    """
    for name, scale in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) / scale
        except ValueError:
            continue
        if 0.0 <= seconds < float("inf"):
            return seconds
    try:
        return max(0.0, parsedate_to_datetime(headers.get("retry-after", "")).timestamp() - now())
    except (ValueError, TypeError, OverflowError):
        return None
