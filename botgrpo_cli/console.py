"""The terminal: where results, progress and errors go, and how much is said."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass

from rich.console import Console

from botgrpo_cli.training.processes import is_main


@dataclass
class _Amount:
    verbose: bool = False
    quiet: bool = False


_amount = _Amount()


def set_up(*, verbose: bool = False, quiet: bool = False, color: bool = True) -> None:
    """Applies the global options, once, before a command runs."""
    _amount.verbose, _amount.quiet = verbose, quiet
    if verbose:
        logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
        os.environ.setdefault("TRANSFORMERS_VERBOSITY", "info")  # it keeps its own level
    if not color:
        os.environ["NO_COLOR"] = "1"  # rich, and every program we start, look at it


def is_verbose() -> bool:
    """True when an error is to keep its traceback."""
    return _amount.verbose


def is_quiet() -> bool:
    """True when only results are to be shown."""
    return _amount.quiet


def console() -> Console:
    """Standard output, for results. This and the others are silent in all but the main one of several processes."""
    return Console(highlight=False, quiet=not is_main())


def progress_console() -> Console:
    """Standard output, for what is going on: plans, bars, status lines. Silent under `--quiet`."""
    return Console(highlight=False, quiet=_amount.quiet or not is_main())


def error_console() -> Console:
    """Standard error, for what a person must read. Long lines are left to the terminal."""
    return Console(stderr=True, highlight=False, soft_wrap=True, quiet=not is_main())
