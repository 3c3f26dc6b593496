"""What a task tells `botgrpo doctor` and `botgrpo setup` of itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from botgrpo_cli.cache import Notify


@dataclass(frozen=True)
class Finding:
    """One row of `doctor`. `absent` is not here and not needed at tiny scale; `missing` stops the tiny scale."""

    part: str
    state: Literal["ok", "absent", "missing"]
    found: str
    mend: str = ""  # one command; empty when there is nothing to do


@dataclass(frozen=True)
class Part:
    """One word of `setup`: what it fetches into the cache, and how."""

    word: str
    title: str
    fetch: Callable[[Notify], Path]
