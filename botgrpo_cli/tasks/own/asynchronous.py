"""Runs async functions at once, each within its time. Imported when there are some: asyncio takes a while to load."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from botgrpo_cli.tasks.own.limits import GRACE, Alarm, TimeUp

# What to await, and who takes its result or the exception that it ended with.
Item = tuple[Callable[[], Coroutine[Any, Any, Any]], Callable[[Any], None]]


class Loop:
    """One event loop for all calls: a client or a semaphore of a user's file belongs to the loop that it met first."""

    def __init__(self, alarm: Alarm) -> None:
        self._alarm = alarm
        self._runner: asyncio.Runner | None = None

    def run(self, items: Sequence[Item], seconds: float) -> None:
        """Gives every item its result as soon as it is there: what its coroutine returned, or an exception."""
        if self._runner is None:
            self._runner = asyncio.Runner()
        open_items = dict(enumerate(items))
        try:
            self._runner.run(self._all(open_items, seconds))
        except BaseException as problem:  # it came out of a task or a callback that a function left behind
            self._runner = None  # its tasks would go on in the next run
            for number in [*open_items]:
                open_items.pop(number)[1](problem)
        finally:
            self._alarm.off()

    async def _all(self, open_items: dict[int, Item], seconds: float) -> None:
        beat = asyncio.create_task(self._beat(seconds))
        try:
            await asyncio.gather(*(self._one(open_items, number, seconds) for number in [*open_items]))
        finally:
            beat.cancel()

    async def _one(self, open_items: dict[int, Item], number: int, seconds: float) -> None:
        result: Any
        try:
            async with asyncio.timeout(seconds) as timer:
                result = await open_items[number][0]()
        except TimeoutError as problem:
            result = TimeUp() if timer.expired() else problem
        except BaseException as problem:
            result = problem
        if number in open_items:
            self._alarm.set(seconds + _beat(seconds))  # it must not ring while an answer is on its way
            open_items.pop(number)[1](result)

    async def _beat(self, seconds: float) -> None:
        """A function that blocks the loop is beyond a timeout's reach, but not beyond the alarm's: it stops this."""
        while True:
            self._alarm.set(seconds + _beat(seconds))
            await asyncio.sleep(_beat(seconds))


def _beat(seconds: float) -> float:
    """Seconds between beats: the alarm rings that much late at most, which has to be before the parent loses hope."""
    return min(seconds / 8, GRACE / 4)
