"""The two errors that a person sees; everything else is a bug and keeps its traceback."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class InputError(Exception):
    """The input is wrong and nothing was started: exit code 2. The text is one or more sentences."""


class RunError(Exception):
    """The run failed after it was started: exit code 1. The text says what is kept and how to go on."""


def first_line(error: Exception) -> str:
    """What the error of a library says first, as a sentence; its kind where it says nothing.

    >>> first_line(OSError("the server is gone.\\n  in line 3")), first_line(KeyError())
    ('the server is gone.', 'KeyError.')
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__).rstrip(".") + "."


def nearest(word: str, valid: Iterable[str]) -> str:
    """`" Did you mean 'tiny'?"`, or an empty string when nothing valid is close to `word`."""
    close = difflib.get_close_matches(str(word), list(valid), n=1, cutoff=0.6)
    return f" Did you mean '{close[0]}'?" if close else ""
