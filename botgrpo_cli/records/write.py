"""Append-safe writing of a run's tables: a kill at any moment leaves files that can be read and resumed.

The layout of a run folder and the one-append-a-step rule are our choice; the paper released no records.
"""

from __future__ import annotations

import csv
import errno
import io
import json
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from botgrpo_cli.errors import InputError, RunError
from botgrpo_cli.records.held_out import HELD_OUT, encode_held_out, header, kept_held_out
from botgrpo_cli.records.read import parse_metrics, parse_samples
from botgrpo_cli.records.schema import COLUMNS, RunLabels
from botgrpo_cli.tasks.base import Attachment

METRICS = "metrics.csv"
SAMPLES = "samples.jsonl"
EVENTS = "events.log"

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # disk, quota or file-size limit
_ATTACHMENT = re.compile(r"step-(\d+)-[a-z-]+-\d+\.\w+\Z")
_OPEN_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND


@dataclass(frozen=True)
class RunWriter:
    """Writes one run's folder. Make one with `create` (a new run) or `resume` (an existing one)."""

    folder: Path
    labels: RunLabels

    @classmethod
    def create(cls, folder: Path, labels: RunLabels) -> RunWriter:
        """Start a new run in `folder`, which may exist only if it is empty.

        Raises InputError when the folder holds anything or cannot be made.
        """
        folder = Path(folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if any(folder.iterdir()):
                raise _occupied(folder)
            fd = os.open(folder / METRICS, _OPEN_FLAGS | os.O_EXCL, 0o666)  # two starts at once: one of them loses
        except (FileExistsError, NotADirectoryError):
            raise _occupied(folder) from None
        except OSError as error:
            raise InputError(
                f"The run folder {folder} cannot be made: {error.strerror}. Name another with --out."
            ) from error
        os.close(fd)
        writer = cls(folder, labels)
        writer._append(METRICS, _csv_line(COLUMNS), "the header")
        return writer

    @classmethod
    def resume(cls, folder: Path, labels: RunLabels) -> RunWriter:
        """Go on with the run in `folder`; a line torn by a kill is removed first.

        Raises InputError when there is no such folder, or a file in it is not what a run writes.
        """
        folder = Path(folder)
        if not folder.is_dir():
            raise InputError(f"There is no run in {folder} to resume. Leave --resume out to start one there.")
        writer = cls(folder, labels)
        writer._rewrite(last_step=None)
        return writer

    def metrics(self, step: int, rows: Sequence[tuple[str, str, float | None]]) -> None:
        """Append all of a step's `(split, metric, value)` rows in one write; missing and non-finite values are empty.

        Raises RunError when they cannot be written; the file is then as it was before the call.
        """
        cells = [self.labels.row(int(step), *row) for row in rows]
        lines = [_csv_line([row[name] for name in COLUMNS]) for row in cells]
        self._append(METRICS, b"".join(lines), f"the metrics of step {step}")

    def held_out(self, step: int, metric: str, rows: Sequence[tuple[str, int, float]]) -> None:
        """Append one evaluation's `(prompt id, samples, mean over them)` in one write. Raises RunError as `metrics`."""
        first = b"" if (self.folder / HELD_OUT).exists() else header()
        self._append(HELD_OUT, first + encode_held_out(step, metric, rows), f"the evaluation of step {step}")

    def samples(self, step: int, rows: Sequence[Mapping[str, Any]]) -> None:
        """Append one strict JSON object a line, `step` first; non-finite floats become null.

        An `Attachment` becomes a file of its own, named by step, split and rollout; the row holds its path in the run's
        folder. Raises RunError when something cannot be written; samples.jsonl is then as it was before the call.
        """
        rows = [self._detached(step, number, row) for number, row in enumerate(rows)]
        lines = [to_json({"step": int(step), **row}).encode("ascii") + b"\n" for row in rows]
        self._append(SAMPLES, b"".join(lines), f"the samples of step {step}")

    def event(self, text: str) -> None:
        """Append one line, with the time in UTC, to events.log."""
        stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        line = f"{stamp} {' | '.join(text.splitlines())}\n".encode(errors="backslashreplace")
        self._append(EVENTS, line, "an event")

    def truncate_after(self, step: int) -> None:
        """Drop the rows of the tables and of samples.jsonl whose step is past `step`, each file in one rename, then
        the attachments of such steps."""
        self._rewrite(last_step=step)
        for path in self.folder.glob("*/step-*-*-*.*"):
            if (found := _ATTACHMENT.match(path.name)) and int(found[1]) > step:
                path.unlink(missing_ok=True)

    def _detached(self, step: int, number: int, row: Mapping[str, Any]) -> dict[str, Any]:
        """`row` with its attachments written, and their paths in their place."""
        kept = dict(row)
        for key, value in row.items():
            if isinstance(value, Attachment):
                rollout = int(row.get("rollout", number))
                name = f"step-{step:04d}-{row.get('split', 'sample')}-{rollout:03d}{value.suffix}"
                path = self.folder / value.folder / name
                try:
                    path.parent.mkdir(exist_ok=True)
                except OSError as error:
                    raise RunError(f"{path.parent} cannot be made: {error.strerror}.") from error
                write_atomic(path, value.data)
                kept[key] = f"{value.folder}/{name}"
        return kept

    def _append(self, name: str, data: bytes, what: str) -> None:
        if not data:
            return
        path = self.folder / name
        try:
            fd = os.open(path, _OPEN_FLAGS, 0o666)
            try:
                _write_whole(fd, data)
            finally:
                os.close(fd)
        except OSError as error:
            raise RunError(
                f"{path}: {_reason(error)}, so {what} could not be added. Everything written before is kept, and so "
                "are the checkpoints. Mend that, then go on with --resume."
            ) from error

    def _rewrite(self, last_step: int | None) -> None:
        """Keep the whole rows up to `last_step` (None: all of them); untouched files are not rewritten."""
        for name, keep in ((METRICS, _kept_metrics), (SAMPLES, _kept_samples), (HELD_OUT, kept_held_out)):
            path = self.folder / name
            if name == HELD_OUT and not path.exists():
                continue  # the run is from before there was such a table
            old = path.read_bytes() if path.exists() else b""
            new = keep(old, path, last_step)
            if new != old:
                write_atomic(path, new)


def make_folder(folder: Path) -> None:
    """Raises InputError, which names --out, when it can't be made."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"The folder {folder} cannot be made: {error.strerror}. Name another with --out.") from error


def write_atomic(path: Path, data: bytes) -> None:
    """Replace `path` by `data`: readers see the old file or the new one, never a part. Raises RunError."""
    path = Path(path)
    beside = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        try:
            _write_whole(fd, data)
        finally:
            os.close(fd)
        os.replace(beside, path)
        _sync_folder(path.parent)
    except OSError as error:
        with suppress(OSError):
            beside.unlink()
        raise RunError(f"{path}: {_reason(error)}. What stood there before, if anything, is kept.") from error


def to_json(value: Any, *, indent: int | None = None) -> str:
    """Strict JSON in ASCII: null for non-finite floats, U+FFFD for lone surrogates. Raises TypeError for other types.

    >>> to_json({"loss": float("nan"), "code": "a\\ud800\\0"})
    '{"loss": null, "code": "a\\\\ufffd\\\\u0000"}'
    """
    return json.dumps(_plain(value), indent=indent, allow_nan=False)


def _plain(value: Any) -> Any:
    """`value` in the types that JSON has."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, Mapping):
        return {_plain(str(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in (sorted(value) if isinstance(value, set | frozenset) else value)]
    if hasattr(value, "tolist"):  # tensors and arrays of any shape
        return _plain(value.tolist())
    raise TypeError(f"a {type(value).__name__} has no JSON form: {value!r:.80}")


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, str | int) and not isinstance(value, bool):
        return str(value)
    number = float(value)  # type: ignore[arg-type]
    return repr(number) if math.isfinite(number) else ""


def _csv_line(cells: Iterable[object]) -> bytes:
    text = io.StringIO()
    # The terminator decides which characters get quotes: with a bare "\n" a "\r" inside a label would end its row.
    csv.writer(text, lineterminator="\r\n").writerow([_cell(cell) for cell in cells])
    return text.getvalue().removesuffix("\r\n").encode("utf-8", errors="backslashreplace") + b"\n"


def _kept_metrics(old: bytes, path: Path, last_step: int | None) -> bytes:
    header = _csv_line(COLUMNS)
    if header.startswith(old):  # absent, empty, torn inside the header, or the header alone
        return header
    rows = parse_metrics(old, path)
    step = COLUMNS.index("step")
    return header + b"".join(_csv_line(row) for row in rows if last_step is None or int(row[step]) <= last_step)


def _kept_samples(old: bytes, path: Path, last_step: int | None) -> bytes:
    lines = parse_samples(old.splitlines(keepends=True), path)
    return b"".join(line for line, sample in lines if last_step is None or sample["step"] <= last_step)


def _write_whole(fd: int, data: bytes) -> None:
    """Write and sync, or leave the file as long as it was."""
    size = os.fstat(fd).st_size
    try:
        view = memoryview(data)
        while view:  # one write, unless the disk fills up in the middle of it
            view = view[os.write(fd, view) :]
        os.fsync(fd)
    except OSError:
        with suppress(OSError):
            os.ftruncate(fd, size)
        raise


def _sync_folder(folder: Path) -> None:
    """Make a rename durable; not every file system lets a folder be synced."""
    with suppress(OSError):
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def _occupied(folder: Path) -> InputError:
    return InputError(
        f"The run folder {folder} is not empty, and a run never overwrites another. "
        "Go on with that run with --resume, or name another folder with --out."
    )


def _reason(error: OSError) -> str:
    return "the disk is full" if error.errno in _FULL else f"writing failed ({error.strerror})"
