"""How a call ends that takes too long: from inside, in the child. The parent ends what even this can't end."""

from __future__ import annotations

import faulthandler
import os
import signal
import time

AGAIN = 0.2  # seconds until a function that has caught TimeUp gets the next one
# Seconds beyond the limit after which the parent ends a child that says nothing.
GRACE = 2.0


class TimeUp(BaseException):
    """Raised inside a call that ran too long. Not an Exception: few functions catch it by accident."""


class Alarm:
    """Raises TimeUp in the main thread wherever it is in Python code, also within a search of `re`."""

    def __init__(self) -> None:
        self._parent = os.getppid()
        self._set = False
        self._rang = False  # since it was set
        self._nowhere = os.open(os.devnull, os.O_WRONLY)
        self._watched = float("-inf")

    def set(self, seconds: float) -> None:
        self._watch(seconds)
        self._rang, self._set = False, True
        signal.signal(signal.SIGALRM, self._ring)  # each time: math_verify, for one, installs its own
        signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN)

    def off(self) -> bool:
        """Whether it rang; a function that catches everything may have given a value nevertheless."""
        self._set = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        return self._rang

    def rest(self) -> None:
        """No call is under way, and none may be for long."""
        self.off()
        faulthandler.cancel_dump_traceback_later()
        self._watched = float("-inf")

    def _ring(self, *_: object) -> None:
        if os.getppid() != self._parent:  # nobody waits any more, and the function may not let go
            os._exit(1)
        if self._set:
            self._rang = True
            raise TimeUp

    def _watch(self, seconds: float) -> None:
        """Ends the process should it hang in C code and the parent, which would end it much earlier, be gone."""
        now = time.monotonic()
        if now - self._watched > 1:  # it starts a thread, so not for each call
            self._watched = now
            faulthandler.dump_traceback_later(2 * seconds + 10 * GRACE, exit=True, file=self._nowhere)
