"""`botgrpo setup`: fetches what runs need beside the Python packages, into the cache."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.status import Status

from botgrpo_cli.cache import Notify
from botgrpo_cli.console import progress_console
from botgrpo_cli.errors import InputError, nearest


def _react(notify: Notify) -> Path:
    from botgrpo_cli.tasks.react.toolchain import ensure_toolchain

    return ensure_toolchain(notify)


def _small(notify: Notify) -> Path:
    from botgrpo_cli.policy.small import ensure_small

    return ensure_small(progress=notify)


PARTS: dict[str, tuple[str, Callable[[Notify], Path]]] = {
    "react": ("The compiler and the linter of the React task", _react),
    "small": ("The pretrained model of the small scale", _small),
}


def setup(
    part: Annotated[
        str,
        typer.Argument(
            metavar="react|small|all",
            help="react: esbuild and ESLint (125 MB); small: SmolLM2-135M-Instruct (270 MB); all: both.",
        ),
    ],
) -> None:
    """Fetch what a run needs into the cache. What is there already is left alone."""
    words = [*PARTS, "all"]
    if part not in words:
        raise InputError(f"`botgrpo setup` does not know '{part}'; expected {', '.join(words)}.{nearest(part, words)}")
    out = progress_console()
    for name in PARTS if part == "all" else [part]:
        title, fetch = PARTS[name]
        started = time.monotonic()
        with out.status(f"{title} …") as status:

            def notify(message: str, status: Status = status) -> None:
                if out.is_terminal:
                    status.update(escape(message))
                else:  # a log file has no line to rewrite, so each message gets its own
                    out.print(message, soft_wrap=True, markup=False)

            folder = fetch(notify)
        took = time.monotonic() - started
        out.print(f"{title}: ready in {folder} ({took:.0f} s).", soft_wrap=True, markup=False)
