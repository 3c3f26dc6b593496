"""Rows of a csv, json, jsonl or parquet file, or of a data set that `datasets` reads.

Cells are texts, about whose types nothing is guessed (`080` stays `080`), or, with `typed`, what JSON and parquet say
they are. The cells of a csv file are always texts.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, time
from decimal import Decimal
from pathlib import Path
from typing import Any

from botgrpo_cli.errors import InputError, nearest

INSTALL = "pip install 'botgrpo[aime]'"


@dataclass(frozen=True)
class Row:
    """`number` counts data rows from 1. `fault` says in words why the row can't be read; None when it can."""

    number: int
    cells: Mapping[str, Any]  # texts, unless the table was read as typed
    fault: str | None = None


@dataclass(frozen=True)
class Table:
    """The rows of one source; `name` is what messages call it."""

    name: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]


def read_table(path: Path, *, typed: bool = False) -> Table:
    """Reads a file by its suffix. A first row with a single filled cell is a title and is skipped (csv only).

    `typed` keeps numbers, lists and objects of JSON and parquet, a missing value being None; without it each cell is
    text, a missing value an empty one.

    Raises InputError when there is no such file, its kind is unknown, or it can't be read as that kind.
    """
    kind = path.suffix.lower()
    if kind not in READERS:
        known = ", ".join(READERS)
        raise InputError(
            f"{path}: files of kind '{kind}' can't be read; expected one of {known}.{nearest(kind, READERS)}"
        )
    try:
        table = READERS[kind](path, typed)
    except FileNotFoundError:
        there = [file.name for file in path.parent.glob("*")] if path.parent.is_dir() else []
        raise InputError(f"{path} does not exist.{nearest(path.name, there)}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text (byte {error.start}); save it as UTF-8.") from None
    except OSError as error:
        raise InputError(f"{path} can't be read: {error.strerror or error}.") from None
    if not table.rows:
        raise InputError(f"{path} holds no rows.")
    return table


def table_of(name: str, records: Iterable[Mapping[str, Any]], *, typed: bool = False) -> Table:
    """A table of records whose values may be of any type.

    Each becomes text, a missing one an empty text; with `typed` each becomes what JSON has for it, a missing one None.
    """
    convert, missing = (as_json, None) if typed else (as_text, "")
    listed = [{str(key): convert(value) for key, value in record.items()} for record in records]
    columns = tuple(dict.fromkeys(key for record in listed for key in record))
    rows = (Row(number, dict.fromkeys(columns, missing) | record) for number, record in enumerate(listed, start=1))
    return Table(name, columns, tuple(rows))


def read_hub(name: str, *, split: str, config: str | None = None, cache: Path | None = None) -> Table:
    """The rows, typed, of one split of a hub data set or of a folder that `datasets` reads.

    Raises InputError when `datasets` is not installed, and when the data set can't be loaded.
    """
    try:
        import datasets
    except ImportError:
        raise InputError(f"The data set {name} is read through the library `datasets`: {INSTALL}.") from None
    try:
        loaded = datasets.load_dataset(name, config, split=split, cache_dir=cache and str(cache))
        records = loaded.to_list()
    except Exception as error:  # the library raises its own, the hub's, pyarrow's and built-in errors
        reason = str(error).strip().partition("\n")[0].rstrip(".") or type(error).__name__
        raise InputError(
            f"The data set {name} (split '{split}'{f', config {config!r}' if config else ''}) could not be loaded: "
            f"{reason}. Without a connection, download it as csv, jsonl or parquet and give the file."
        ) from error
    if not records:
        raise InputError(f"The data set {name} (split '{split}') holds no rows.")
    return table_of(name, records, typed=True)


def find_column(table: Table, wanted: str | None, usual: Sequence[str], key: str) -> str:
    """The column that `wanted` names, or else the first of `usual`, as it is spelt in the table, in any case.

    Raises InputError that names `key`: there is none, or more than one.
    """
    spelt: dict[str, list[str]] = {}
    for column in table.columns:
        spelt.setdefault(column.strip().lower(), []).append(column)
    found = f"Columns found: {', '.join(table.columns)}."
    if wanted is None:
        name = next((name for name in usual if name in spelt), None)
        if name is None:
            raise InputError(
                f"{table.name}: expected one of the columns {', '.join(usual)}. {found} Name the one to take ({key})."
            )
    elif (name := wanted.strip().lower()) not in spelt:
        raise InputError(f"{table.name} has no column '{wanted}' ({key}). {found}{nearest(wanted, table.columns)}")
    columns = [wanted] * table.columns.count(wanted) if wanted in table.columns else spelt[name]
    if len(columns) > 1:
        raise InputError(f"{table.name}: several columns are called {', '.join(columns)}; one is needed ({key}).")
    return columns[0]


def as_text(value: Any) -> str:
    """The text of a cell; null and NaN are empty, a list stands for alternatives.

    >>> as_text("080"), as_text(0), as_text(42.0), as_text(None), as_text(float("nan")), as_text([80, 81])
    ('080', '0', '42.0', '', '', '80 or 81')
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, list | tuple):
        return " or ".join(as_text(item) for item in value)
    return value if isinstance(value, str) else str(value)


def as_json(value: Any) -> Any:
    """What JSON has for a value: arrays and tuples become lists, numpy's numbers Python's, a time its ISO text.

    Bytes can't be written as JSON, so only their number is kept; anything else becomes its text.

    >>> as_json({"a": (1, 2.5), 3: [True, None]}), as_json(b"abc")
    ({'a': [1, 2.5], '3': [True, None]}, '<3 bytes>')
    """
    if value is None or type(value) in (str, int, float, bool):
        return value
    if isinstance(value, Mapping):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, Decimal):
        return float(value)
    import numpy as np  # here, since few values get this far and few commands need it

    return as_json(value.tolist()) if isinstance(value, np.ndarray | np.generic) else str(value)


def _csv(path: Path, typed: bool) -> Table:
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, strict=True)
        try:
            lines = [cells for cells in reader if any(cell.strip() for cell in cells)]
        except csv.Error as error:
            raise InputError(f"{path}, line {reader.line_num}: not valid csv: {error}.") from None
    if len(lines) > 1 and _filled(lines[0]) == 1 < _filled(lines[1]):
        del lines[0]
    if not lines:
        return Table(str(path), (), ())
    columns = tuple(cell.strip() for cell in lines[0])
    rows = []
    for number, cells in enumerate(lines[1:], start=1):
        fault = None
        if len(cells) != len(columns):
            fault = f"The row has {len(cells)} cells where the header has {len(columns)}."
        rows.append(Row(number, dict(zip(columns, cells, strict=False)), fault))
    return Table(str(path), columns, tuple(rows))


def _filled(cells: list[str]) -> int:
    return sum(bool(cell.strip()) for cell in cells)


def _jsonl(path: Path, typed: bool) -> Table:
    records = []
    for number, line in enumerate(path.read_text(encoding="utf-8-sig").split("\n"), start=1):
        if line.strip():
            records.append(_parsed(line, f"{path}, line {number}", typed))
            if not isinstance(records[-1], dict):
                raise InputError(f"{path}, line {number}: expected a JSON object, one a line.")
    return table_of(str(path), records, typed=typed)


def _json(path: Path, typed: bool) -> Table:
    records = _parsed(path.read_text(encoding="utf-8-sig"), str(path), typed)
    if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
        raise InputError(f"{path}: expected a JSON list of objects, one a row.")
    return table_of(str(path), records, typed=typed)


def _parsed(text: str, where: str, typed: bool) -> Any:
    # As text a number stays as it is written; where types are kept, NaN is no value that JSON has.
    number = {} if typed else {"parse_int": str, "parse_float": str}
    try:
        return json.loads(text, **number)
    except ValueError as error:
        raise InputError(f"{where}: not valid JSON: {error}.") from None
    except RecursionError:
        raise InputError(f"{where}: the JSON is nested too deeply.") from None


def _parquet(path: Path, typed: bool) -> Table:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise InputError(f"{path}: reading parquet needs pyarrow, which comes with {INSTALL}.") from None
    try:
        table = pyarrow.parquet.read_table(path)
    except pyarrow.ArrowException as error:
        raise InputError(f"{path}: not a valid parquet file: {error}.") from None
    return table_of(str(path), table.to_pylist(), typed=typed)


READERS: dict[str, Callable[[Path, bool], Table]] = {
    ".csv": _csv,
    ".json": _json,
    ".jsonl": _jsonl,
    ".parquet": _parquet,
}
