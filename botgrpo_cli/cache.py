"""The cache folder: what is downloaded or installed once and shared by every run."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from botgrpo_cli.errors import InputError

Notify = Callable[[str], None]
"""Takes one short sentence on what is going on, for a progress line."""


def cache_root() -> Path:
    """`$BOTGRPO_CACHE`, else `$XDG_CACHE_HOME/botgrpo`, else `~/.cache/botgrpo`. Not created here."""
    if own := os.environ.get("BOTGRPO_CACHE"):
        return Path(own).expanduser().absolute()
    shared = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification has relative paths ignored.
    return (Path(shared) if os.path.isabs(shared) else Path.home() / ".cache") / "botgrpo"


def make_folder(folder: Path) -> Path:
    """Creates `folder` with its parents. Raises InputError where that is not allowed."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"The cache folder {folder} cannot be created: {error.strerror}. "
            "Set BOTGRPO_CACHE to a folder that you can write."
        ) from error
    return folder


def need_space(folder: Path, size: int, what: str) -> None:
    """Raises InputError when the disk of `folder` has less than `size` bytes free."""
    free = shutil.disk_usage(folder).free
    if free < size:
        raise InputError(
            f"{what} needs {size / 1e6:.0f} MB, and the disk of {folder} has {free / 1e6:.0f} MB free. "
            "Make room, or set BOTGRPO_CACHE to a folder on another disk."
        )


@contextmanager
def locked(target: Path, notify: Notify) -> Iterator[None]:
    """Holds the lock of `target`, so that two processes never build it at once. The system frees it when one dies."""
    lock = FileLock(target.with_name(f".{target.name}.lock"))
    try:
        lock.acquire(timeout=0)
    except Timeout:
        notify(f"Another process is preparing {target.name}; waiting for it to finish.")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def build_once(target: Path, build: Callable[[Path], None], notify: Notify) -> Path:
    """Returns the folder `target`; when it is missing, `build` fills a folder beside it that is then renamed.

    So `target` is complete whenever it exists, whatever was interrupted. What an earlier, killed build left is removed.
    Raises what `build` raises, and InputError when the folder cannot be written.
    """
    if target.is_dir():
        return target
    make_folder(target.parent)
    with locked(target, notify):
        if target.is_dir():
            return target
        prefix = f".{target.name}.part-"
        for stale in target.parent.glob(f"{prefix}*"):
            shutil.rmtree(stale, ignore_errors=True)
        part = Path(tempfile.mkdtemp(prefix=prefix, dir=target.parent))
        try:
            build(part)
            part.chmod(0o755)  # mkdtemp makes it private
            part.rename(target)
        finally:
            shutil.rmtree(part, ignore_errors=True)
    return target
