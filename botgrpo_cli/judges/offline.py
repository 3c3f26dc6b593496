"""What offline judges share: their threads, with the counters of a model judge, and their simulated errors."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any

from botgrpo_cli.errors import RunError
from botgrpo_cli.judges.base import OUTCOMES
from botgrpo_cli.judges.simulate import SIMULATED, Errors
from botgrpo_cli.recipe.schema import JudgeConfig


class Tally(Executor):
    """An executor that counts what it is given, so that offline judges have the counters of the others."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="heuristic-judge")
        self._lock = threading.Lock()
        self._count = 0

    def submit(self, work: Callable, /, *arguments: Any, **named: Any) -> Future:
        with self._lock:
            self._count += 1
        try:
            return self._threads.submit(work, *arguments, **named)
        except RuntimeError:
            raise RunError("The judges were closed while samples were waiting.") from None

    def take(self) -> dict[str, float | None]:
        with self._lock:
            count, self._count = self._count, 0
        counts = dict.fromkeys(("asks", "calls", "cache_hits", *OUTCOMES), 0.0)
        return {**counts, "asks": float(count), "ok": float(count)}

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._threads.shutdown(wait, cancel_futures=cancel_futures)


def errors_of(config: JudgeConfig, seed: int) -> Errors:
    """The errors that a `judge:` section asks for."""
    return Errors(seed, **{name: getattr(config, name) for name in SIMULATED})
