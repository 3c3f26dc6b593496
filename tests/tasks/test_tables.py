"""Tables as text and as typed values, and finding a column in one."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from botgrpo_cli.errors import InputError
from botgrpo_cli.tasks.tables import as_json, find_column, read_hub, read_table, table_of

RECORD = {"text": "080", "whole": 80, "half": 0.5, "yes": True, "none": None, "list": [1, "a"], "object": {"a": [2.0]}}


def parquet(path: Path, columns: dict) -> Path:
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    return path


def cells(path: Path, **options) -> list[dict]:
    return [dict(row.cells) for row in read_table(path, **options).rows]


@pytest.mark.parametrize("kind", ["json", "jsonl"])
def test_json_keeps_its_types_only_when_asked(tmp_path, kind):
    path = tmp_path / f"rows.{kind}"
    path.write_text(json.dumps([RECORD]) if kind == "json" else json.dumps(RECORD), encoding="utf-8")
    assert cells(path, typed=True) == [RECORD]
    text = cells(path)[0]
    assert text == RECORD | {
        "whole": "80", "half": "0.5", "yes": "True", "none": "", "list": "1 or a", "object": "{'a': ['2.0']}"
    }  # fmt: skip


def test_numbers_stay_as_they_are_written_where_all_is_text(tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"a": 1e3, "b": 12345678901234567890.10}')
    assert cells(tmp_path / "rows.jsonl") == [{"a": "1e3", "b": "12345678901234567890.10"}]
    assert cells(tmp_path / "rows.jsonl", typed=True)[0]["a"] == 1000.0


def test_a_missing_value_is_none_where_types_are_kept(tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"a": 1}\n\n{"b": "x"}\n')
    assert cells(tmp_path / "rows.jsonl", typed=True) == [{"a": 1, "b": None}, {"a": None, "b": "x"}]
    assert cells(tmp_path / "rows.jsonl") == [{"a": "1", "b": ""}, {"a": "", "b": "x"}]


def test_the_cells_of_a_csv_file_are_texts_either_way(tmp_path):
    (tmp_path / "rows.csv").write_text("a,b\n080,\n1,true\n")
    assert cells(tmp_path / "rows.csv", typed=True) == [{"a": "080", "b": ""}, {"a": "1", "b": "true"}]


def test_parquet_gives_types_that_json_has(tmp_path):
    columns = {
        "whole": [1, None],
        "lists": [[1.5, 2.0], []],
        "object": [{"role": "user", "n": 1}, {"role": "x", "n": None}],
        "day": [datetime.date(2024, 2, 29), None],
        "price": [Decimal("1.50"), Decimal("2.00")],
        "data": [b"abc", b""],
    }
    first, second = cells(parquet(tmp_path / "rows.parquet", columns), typed=True)
    assert first == {
        "whole": 1, "lists": [1.5, 2.0], "object": {"role": "user", "n": 1}, "day": "2024-02-29", "price": 1.5,
        "data": "<3 bytes>",
    }  # fmt: skip
    assert (second["whole"], second["lists"], second["day"]) == (None, [], None)
    assert json.loads(json.dumps([first, second])) == [first, second]


def test_values_of_numpy_become_pythons():
    made = as_json(
        {"array": np.array([[1, 2], [3, 4]]), "number": np.float64(0.5), "flag": np.bool_(True), 3: np.str_("x")}
    )
    assert made == {"array": [[1, 2], [3, 4]], "number": 0.5, "flag": True, "3": "x"}
    assert [type(made[key]) for key in ("number", "flag", "3")] == [float, bool, str]
    assert type(made["array"][0][0]) is int
    assert as_json(np.array(["2024-02-29"], dtype="datetime64[D]")) == ["2024-02-29"]


def test_records_become_a_table_with_every_column_in_every_row():
    table = table_of("made", [{"a": (1, 2)}, {"b": {1: None}}], typed=True)
    assert table.columns == ("a", "b")
    assert [(row.number, dict(row.cells)) for row in table.rows] == [
        (1, {"a": [1, 2], "b": None}),
        (2, {"a": None, "b": {"1": None}}),
    ]


@pytest.mark.parametrize(
    ("wanted", "usual", "found"),
    [
        (None, ("prompt", "question"), "Question"),
        ("question", (), "Question"),
        ("Twice", (), "Twice"),
        ("twice", (), "twice"),
    ],
)
def test_a_column_is_found_in_any_case_and_as_it_is_spelt(wanted, usual, found):
    table = table_of("made", [{"Question": 1, "Twice": 2, "twice": 3}])
    assert find_column(table, wanted, usual, "task.prompt_column") == found


@pytest.mark.parametrize(
    ("wanted", "usual", "says"),
    [
        (None, ("prompt", "twice"), "made: several columns are called Twice, twice; one is needed (task.x)."),
        (None, ("prompt",), "made: expected one of the columns prompt. Columns found: Question, Twice, twice. Name"),
        ("queston", (), "made has no column 'queston' (task.x). Columns found: Question, Twice, twice. Did you mean"),
        ("TWICE", (), "several columns are called Twice, twice"),
    ],
)
def test_a_column_that_is_not_there_or_there_twice(wanted, usual, says):
    table = table_of("made", [{"Question": 1, "Twice": 2, "twice": 3}])
    with pytest.raises(InputError) as caught:
        find_column(table, wanted, usual, "task.x")
    assert says in str(caught.value)


def test_a_name_that_a_csv_header_has_twice_can_not_be_taken(tmp_path):
    (tmp_path / "rows.csv").write_text("a,a\n1,2\n")
    with pytest.raises(InputError, match="several columns are called a, a"):
        find_column(read_table(tmp_path / "rows.csv"), "a", (), "task.x")


def test_a_folder_is_read_with_its_types(tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own/train.jsonl").write_text('{"q": "x", "n": 1, "m": [{"role": "user", "content": "hi"}]}\n')
    table = read_hub(str(tmp_path / "own"), split="train", cache=tmp_path / "cache")
    assert [dict(row.cells) for row in table.rows] == [{"q": "x", "n": 1, "m": [{"role": "user", "content": "hi"}]}]
    with pytest.raises(InputError, match=r"\(split 'tset'\) could not be loaded: .*train"):
        read_hub(str(tmp_path / "own"), split="tset", cache=tmp_path / "cache")


def test_without_datasets_it_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "datasets", None)
    with pytest.raises(InputError, match=r"read through the library `datasets`: pip install 'botgrpo\["):
        read_hub("some/where", split="train")
