"""Importing matplotlib whatever MPLBACKEND says: it refuses to be imported when that names no backend it knows."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_backend_asked() -> Iterator[None]:
    """MPLBACKEND is unset inside and as it was afterwards; figures are drawn by Agg and need no other backend."""
    asked = os.environ.pop("MPLBACKEND", None)
    try:
        yield
    finally:
        if asked is not None:
            os.environ["MPLBACKEND"] = asked
