"""How far a run is, read from the tables that it appends to."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from botgrpo_cli.records.schema import COLUMNS
from botgrpo_cli.records.write import METRICS
from botgrpo_cli.winrate.tables import COLUMNS as WINRATE_COLUMNS
from botgrpo_cli.winrate.tables import TABLE


class Follower(Protocol):
    step: int  # the last one
    value: float | None  # what people watch, at its last evaluation

    def look(self) -> None:
        """Read what is new."""
        ...


class Tail:
    """Whole new lines of a file that grows, or is replaced by another one."""

    def __init__(self, path: Path) -> None:
        self._path, self._inode, self._offset = path, -1, 0

    def lines(self) -> Iterator[list[str]]:
        try:
            with self._path.open("rb") as file:
                about = os.fstat(file.fileno())
                if about.st_ino != self._inode or about.st_size < self._offset:
                    self._inode, self._offset = about.st_ino, 0
                file.seek(self._offset)
                data = file.read()
        except OSError:
            return
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        yield from csv.reader(whole.decode(errors="replace").splitlines())


class RunFollower:
    """A run's metrics.csv: its step, and a held-out metric."""

    def __init__(self, folder: Path, metric: str) -> None:
        self._tail, self._metric = Tail(folder / METRICS), metric
        self.step = 0
        self.value: float | None = None

    def look(self) -> None:
        for row in self._tail.lines():
            cells = dict(zip(COLUMNS, row, strict=False))
            if not cells.get("step", "").isdecimal():
                continue
            self.step = int(cells["step"])
            if cells["split"] == "held-out" and cells["metric"] == self._metric and cells.get("value"):
                self.value = float(cells["value"])


class WinrateFollower:
    """A comparison's winrate.csv: one row a checkpoint."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / TABLE
        self.step = 0
        self.value: float | None = None

    def look(self) -> None:
        rows = list(Tail(self._path).lines())[1:]  # written anew each time
        self.step = len(rows)
        if rows:
            rate = dict(zip(WINRATE_COLUMNS, rows[-1], strict=False)).get("rate")
            self.value = float(rate) if rate else None
