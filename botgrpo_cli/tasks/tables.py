"""Rows of text from a csv, json, jsonl or parquet file. Nothing is guessed about types: `080` stays `080`."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from botgrpo_cli.errors import InputError, nearest

INSTALL = "pip install 'botgrpo[aime]'"


@dataclass(frozen=True)
class Row:
    """`number` counts data rows from 1. `fault` says in words why the row can't be read; None when it can."""

    number: int
    cells: Mapping[str, str]
    fault: str | None = None


@dataclass(frozen=True)
class Table:
    """The rows of one source; `name` is what messages call it."""

    name: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]


def read_table(path: Path) -> Table:
    """Reads a file by its suffix. A first row with a single filled cell is a title and is skipped (csv only).

    Raises InputError when there is no such file, its kind is unknown, or it can't be read as that kind.
    """
    kind = path.suffix.lower()
    if kind not in READERS:
        known = ", ".join(READERS)
        raise InputError(
            f"{path}: files of kind '{kind}' can't be read; expected one of {known}.{nearest(kind, READERS)}"
        )
    try:
        table = READERS[kind](path)
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


def table_of(name: str, records: Iterable[Mapping[str, Any]]) -> Table:
    """A table of records whose values may be of any type; each becomes text, a missing one an empty text."""
    listed = [{str(key): as_text(value) for key, value in record.items()} for record in records]
    columns = tuple(dict.fromkeys(key for record in listed for key in record))
    rows = (Row(number, dict.fromkeys(columns, "") | record) for number, record in enumerate(listed, start=1))
    return Table(name, columns, tuple(rows))


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


def _csv(path: Path) -> Table:
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


def _jsonl(path: Path) -> Table:
    records = []
    for number, line in enumerate(path.read_text(encoding="utf-8-sig").split("\n"), start=1):
        if line.strip():
            records.append(_parsed(line, f"{path}, line {number}"))
            if not isinstance(records[-1], dict):
                raise InputError(f"{path}, line {number}: expected a JSON object, one a line.")
    return table_of(str(path), records)


def _json(path: Path) -> Table:
    records = _parsed(path.read_text(encoding="utf-8-sig"), str(path))
    if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
        raise InputError(f"{path}: expected a JSON list of objects, one for each problem.")
    return table_of(str(path), records)


def _parsed(text: str, where: str) -> Any:
    try:
        return json.loads(text, parse_int=str, parse_float=str)
    except ValueError as error:
        raise InputError(f"{where}: not valid JSON: {error}.") from None
    except RecursionError:
        raise InputError(f"{where}: the JSON is nested too deeply.") from None


def _parquet(path: Path) -> Table:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise InputError(f"{path}: reading parquet needs pyarrow, which comes with {INSTALL}.") from None
    try:
        table = pyarrow.parquet.read_table(path)
    except pyarrow.ArrowException as error:
        raise InputError(f"{path}: not a valid parquet file: {error}.") from None
    return table_of(str(path), table.to_pylist())


READERS: dict[str, Callable[[Path], Table]] = {".csv": _csv, ".json": _json, ".jsonl": _jsonl, ".parquet": _parquet}
