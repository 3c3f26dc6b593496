"""held_out.csv: the headline metric of every held-out prompt at every evaluation, for paired comparisons.

metrics.csv holds the means over prompts; intervals over prompts and differences on the same prompts need this table.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from botgrpo_cli.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

HELD_OUT = "held_out.csv"
COLUMNS = ("step", "metric", "prompt", "samples", "value")


def encode_held_out(step: int, metric: str, rows: Iterable[tuple[str, int, float]]) -> bytes:
    """The lines of one evaluation from (prompt id, samples, mean over them); an empty cell for a missing mean."""
    cells = ((prompt, samples, "" if math.isnan(value) else repr(float(value))) for prompt, samples, value in rows)
    return _lines((step, metric, *row) for row in cells)


def kept_held_out(old: bytes, path: Path, last_step: int | None) -> bytes:
    """The whole rows up to `last_step` (None: all of them), with the header. Raises InputError."""
    return header() + _lines(row for row in _rows(old, path) if last_step is None or int(row[0]) <= last_step)


def header() -> bytes:
    return _lines([COLUMNS])


def read_held_out(folder: Path) -> pd.DataFrame | None:
    """The table of a run, one row a step and prompt; None when the run has none. Raises InputError.

    An evaluation that was cut off by a kill and done again counts once.
    """
    import pandas as pd  # training writes this table and never reads it

    path = Path(folder) / HELD_OUT
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from error
    frame = pd.DataFrame(_rows(data, path), columns=list(COLUMNS))
    values = pd.Series([float(text) if text else math.nan for text in frame["value"]], dtype="float64")
    frame = frame.assign(step=frame["step"].astype("int64"), samples=frame["samples"].astype("int64"), value=values)
    return frame.drop_duplicates(["step", "metric", "prompt"], keep="last", ignore_index=True)


def _rows(data: bytes, path: Path) -> list[list[str]]:
    """Whole rows, checked; a last line torn by a kill is left out."""
    whole = data[: data.rfind(b"\n") + 1].decode("utf-8", errors="replace")
    rows = list(csv.reader(io.StringIO(whole, newline="")))
    if rows and rows[0] != list(COLUMNS):
        raise InputError(f"{path} is not a table of held-out prompts; expected the columns {','.join(COLUMNS)}.")
    for number, row in enumerate(rows[1:], start=2):
        if len(row) != len(COLUMNS) or not (row[0].isdecimal() and row[3].isdecimal() and _number(row[4])):
            raise InputError(f"{path}, row {number}: expected {','.join(COLUMNS)}. Remove the row to go on.")
    return rows[1:]


def _number(text: str) -> bool:
    try:
        return math.isfinite(float(text or 0))
    except ValueError:
        return False


def _lines(rows: Iterable[Sequence[object]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode("utf-8", errors="backslashreplace")
