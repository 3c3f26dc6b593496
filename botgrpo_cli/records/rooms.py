"""The folder of results that commands use when nobody names one, and those beside it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count
from pathlib import Path

RESULTS = Path("results")


def rooms() -> Iterator[Path]:
    """`results`, `results-2`, `results-3` and so on without an end."""
    yield RESULTS
    for number in count(2):
        yield RESULTS.with_name(f"{RESULTS.name}-{number}")


def rooms_there() -> list[Path]:
    """Those of `rooms` that exist, in the order of their numbers; RESULTS always."""
    pattern = re.compile(rf"{RESULTS.name}-([2-9]|[1-9]\d+)")
    numbered = [(int(match[1]), path) for path in RESULTS.parent.iterdir() if (match := pattern.fullmatch(path.name))]
    return [RESULTS, *(path for _, path in sorted(numbered) if path.is_dir())]
