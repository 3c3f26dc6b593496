"""Ctrl-C at any moment, except inside the few lines that must not be cut in half.

Of several processes none may leave alone: the others would wait for it. There a signal acts at once only where a
process works by itself (`exposed`); otherwise it waits until all of them ask (`agree`).
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

from botgrpo_cli.training.processes import ALONE, Processes


class Interrupts:
    """Turns SIGINT and SIGTERM into KeyboardInterrupt; inside `shield` they wait until its end."""

    def __init__(self, processes: Processes = ALONE) -> None:
        self._processes = processes
        self._depth = 0
        self._pending = False
        self._exposed = processes.alone

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
        """Put a signal that comes while the body runs off until the body is done; of several processes, until they
        agree."""
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
        if self._pending and self._exposed and not self._depth:
            self._pending = False
            raise KeyboardInterrupt

    @contextlib.contextmanager
    def exposed(self) -> Iterator[None]:
        """The body waits for no other process, so a signal cuts it short; `Processes.agreed` around it tells them."""
        before, self._exposed = self._exposed, True
        try:
            if self._pending and not self._depth:
                self._pending = False
                raise KeyboardInterrupt
            yield
        finally:
            self._exposed = before

    def agree(self) -> None:
        """Raise KeyboardInterrupt in all processes when any of them was signalled. Nothing inside a shield, and
        nothing to do for a run alone, which stopped when the signal came.

        A shield has to be one of all processes alike.
        """
        if not self._processes.alone and not self._depth and self._processes.any(self._pending):
            self._pending = False
            raise KeyboardInterrupt

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        if self._depth or not self._exposed:
            self._pending = True
        else:
            self._exposed = self._processes.alone  # once: what unwinds from here must not be cut in half
            raise KeyboardInterrupt
