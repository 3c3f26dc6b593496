"""Reading what `write` wrote. A last line torn by a kill is ignored; anything else that is wrong is an InputError."""

from __future__ import annotations

import csv
import io
import json
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from botgrpo_cli.errors import InputError, nearest
from botgrpo_cli.records.schema import COLUMNS

if TYPE_CHECKING:  # a second to import, which training need not wait for
    import pandas as pd


def read_metrics(path: Path) -> pd.DataFrame:
    """The rows of a run folder or a metrics.csv, with the columns of `records.schema.COLUMNS`.

    Labels are text as written ("None" and "NA" stay text), `seed` and `step` integers, `value` float with NaN for
    an empty cell. Raises InputError when there is no such file or it does not hold these columns.
    """
    import pandas as pd

    path = Path(path)
    file = path / "metrics.csv" if path.is_dir() else path
    frame = pd.DataFrame(parse_metrics(_bytes(file), file), columns=list(COLUMNS))
    values = [float(text) if text else math.nan for text in frame["value"]]
    return frame.assign(
        seed=frame["seed"].astype("int64"), step=frame["step"].astype("int64"), value=pd.Series(values, dtype="float64")
    )


def metrics_files(path: Path) -> list[Path]:
    """The tables that `path` stands for: itself, its metrics.csv, or those of the runs inside a study folder.

    Raises InputError when there is none.
    """
    path = Path(path)
    if path.is_file():
        return [path]
    if not path.exists():
        raise InputError(f"There is no run at {path}.{_similar(path)}")
    own = path / "metrics.csv"
    found = [own] if own.is_file() else sorted(path.rglob("metrics.csv"))
    if not found:
        raise InputError(f"There is no run in {path}: neither it nor a folder inside it holds a metrics.csv.")
    return found


def read_runs(paths: Sequence[Path]) -> pd.DataFrame:
    """The rows of several runs in one frame, in the order given; a path may be a run, a table or a study folder.

    A table named twice is read once. Runs in different folders that bear the same label are told apart by
    their folders. Raises InputError as `metrics_files` and `read_metrics` do.
    """
    import pandas as pd

    files = list(dict.fromkeys(file.resolve() for path in paths for file in metrics_files(path)))
    if not files:
        raise InputError("No run was named.")
    frames = [read_metrics(file) for file in files]
    homes: dict[str, set[Path]] = {}
    for file, frame in zip(files, frames, strict=True):
        for run in frame["run"].unique():
            homes.setdefault(run, set()).add(file.parent)
    renamed = []
    for file, frame in zip(files, frames, strict=True):
        names = {run: _full_name(run, file.parent, homes[run]) for run in frame["run"].unique()}
        renamed.append(frame.assign(run=frame["run"].map(names).astype(frame["run"].dtype)))
    return pd.concat(renamed, ignore_index=True)


def read_samples(folder: Path) -> Iterator[dict[str, Any]]:
    """The rollouts kept in a run's samples.jsonl, in order, one at a time. Raises InputError."""
    file = Path(folder) / "samples.jsonl"
    if not file.is_file():
        raise InputError(f"There are no samples in {folder}: it holds no samples.jsonl.")
    with file.open("rb") as lines:
        for _, sample in parse_samples(lines, file):
            yield sample


def parse_metrics(data: bytes, file: Path) -> list[list[str]]:
    """The whole rows of a metrics.csv as text, checked; `file` is named in the InputError."""
    torn = not data.endswith(b"\n")
    text = data.decode("utf-8", errors="replace")
    reader = csv.reader(io.StringIO(text, newline=""))
    rows = [(reader.line_num, row) for row in reader if row]
    if torn and rows:
        rows.pop()
    if not rows or rows[0][1] != list(COLUMNS):
        raise _wrong_columns(file, rows[0][1] if rows else [])
    if len(rows) > 1 and len(rows[-1][1]) != len(COLUMNS):  # torn inside a quoted label that holds a newline
        rows.pop()
    for line, row in rows[1:]:
        _check(row, f"{file}, line {line}")
    return [row for _, row in rows[1:]]


def parse_samples(lines: Iterable[bytes], file: Path) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """Each whole line with the object it holds; `file` is named in the InputError."""
    for number, line in enumerate(lines, start=1):
        if not line.endswith(b"\n"):
            return
        try:
            sample = json.loads(line)
        except ValueError:
            raise InputError(f"{file}, line {number}: expected a JSON object. Remove the line to go on.") from None
        if not isinstance(sample, dict) or not isinstance(sample.get("step"), int):
            raise InputError(f"{file}, line {number}: expected a JSON object with a whole number at 'step'.")
        yield line, sample


def _check(row: list[str], where: str) -> None:
    if len(row) != len(COLUMNS):
        raise InputError(f"{where}: expected {len(COLUMNS)} cells, found {len(row)}. Remove the line to go on.")
    cells = dict(zip(COLUMNS, row, strict=True))
    for key in ("seed", "step"):
        if not cells[key].isdecimal():
            raise InputError(f"{where}: '{key}' is {cells[key]!r}; expected a whole number.")
    try:
        finite = math.isfinite(float(cells["value"] or 0))
    except ValueError:
        finite = False
    if not finite:
        raise InputError(f"{where}: 'value' is {cells['value']!r}; expected a finite number or an empty cell.")


def _wrong_columns(file: Path, found: list[str]) -> InputError:
    missing = [name for name in COLUMNS if name not in found]
    detail = f"missing {', '.join(missing)}" if missing else "in another order"
    return InputError(f"{file} is not a table of metrics: its columns are {detail}. Expected {','.join(COLUMNS)}.")


def _bytes(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        raise InputError(f"There is no run at {file.parent}: {file.name} is missing.{_similar(file.parent)}") from None
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror}.") from error


def _similar(path: Path) -> str:
    """The neighbour that was probably meant."""
    if not path.parent.is_dir():
        return ""
    return nearest(path.name, (entry.name for entry in path.parent.iterdir() if entry.is_dir()))


def _full_name(run: str, home: Path, homes: set[Path]) -> str:
    """`run`, or the part of its folder that tells it from the other runs with this label."""
    if len(homes) == 1:
        return run
    return home.relative_to(os.path.commonpath(homes)).as_posix()
