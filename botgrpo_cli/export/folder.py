"""Writing a folder all at once: it is there complete, or not at all."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from botgrpo_cli.errors import InputError, RunError


def refuse_occupied(folder: Path) -> None:
    """Say at once, before anything is loaded, that a folder is taken.

    Raises:
        InputError: `folder` is a file, or holds something.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} holds something already and was left as it is; name a new or an empty folder.")


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """A folder beside `folder` to write into; it takes the name of `folder` when the body ends without an error.

    Raises:
        InputError: `folder` is taken, or can't be made.
        RunError: the disk is full or not writable; nothing is left behind.
    """
    refuse_occupied(folder)
    folder = folder.resolve()
    beside = folder.with_name(f".writing-{folder.name}")
    try:
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir(parents=True)
    except OSError as error:
        raise InputError(f"The folder {folder} can't be made: {error.strerror or error}.") from error
    try:
        yield beside
        if folder.exists():
            folder.rmdir()  # empty, and only then: rename would fail on some systems
        beside.rename(folder)
    except OSError as error:
        raise RunError(f"{folder} could not be written: {error.strerror or error}; nothing was left there.") from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)
