"""Ctrl-C at any moment, except inside the few lines that must not be cut in half."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType


class Interrupts:
    """Turns SIGINT and SIGTERM into KeyboardInterrupt; inside `shield` they wait until its end."""

    def __init__(self) -> None:
        self._depth = 0
        self._pending = False

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Handle signals while the body runs. Outside the main thread Python allows no handlers, so none is set."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        kept = {s: signal.signal(s, self._handle) for s in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in kept.items():
                signal.signal(number, handler)

    @contextlib.contextmanager
    def shield(self) -> Iterator[None]:
        """Put a signal that comes while the body runs off until the body is done."""
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
        if self._pending and not self._depth:
            self._pending = False
            raise KeyboardInterrupt

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        if self._depth:
            self._pending = True
        else:
            raise KeyboardInterrupt
