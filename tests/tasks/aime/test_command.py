"""`botgrpo aime inspect` as a person meets it."""

from __future__ import annotations

import re

import pytest

from botgrpo_cli.app import main

LINES = [
    "ID,Question,Answer",
    "1,Find one.,1",
    "2,Find none.,0",
    "3,Find two.,80 or 81",
    "4,Find AB. Own Problem.png,4",
    "5,find one .,001",
]


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["--no-color", "aime", "inspect", *arguments])
    return ended.value.code


def said(text: str) -> str:
    return re.sub(r"[ \t]+", " ", text)


def test_counts_rows_and_split_are_shown(tmp_path, capsys):
    path = tmp_path / "own.csv"
    path.write_text("\n".join(LINES), encoding="utf-8")
    assert run(str(path), "--held-out", "0.5", "--seed", "3") == 0
    out = said(capsys.readouterr().out)
    for line in ("rows 5 ", "figures dropped 1 ", "duplicates dropped 1 ", "problems 3 ", "with gold 0 1"):
        assert line in out
    assert "row 3 (3): 80 or 81" in out
    assert "Dropped: the text of an earlier row\n row 5 (5)" in out
    train, held_out = (int(re.search(rf"^{name} (\d+)", out, re.MULTILINE)[1]) for name in ("train", "held-out"))
    assert train + held_out == 3


def test_odd_rows_are_listed_and_refused_unless_skipped(tmp_path, capsys):
    path = tmp_path / "own.csv"
    path.write_text("\n".join([*LINES, "7,Find pi [exactly].,3.14"]), encoding="utf-8")
    assert run(str(path)) == 2
    captured = capsys.readouterr()
    assert "row 6 (7): Column 'Answer': The answer '3.14' is not an integer" in captured.out
    assert "1 of 6 rows can't be used" in captured.err
    assert run(str(path), "--skip-odd") == 0
    assert "odd rows 1 skipped" in said(capsys.readouterr().out)


def test_columns_can_be_named(tmp_path, capsys):
    path = tmp_path / "own.csv"
    path.write_text("text,value\nFind one.,1\n", encoding="utf-8")
    assert run(str(path)) == 2
    assert "Columns found: text, value" in capsys.readouterr().err
    assert run(str(path), "--problem-column", "text", "--answer-column", "value") == 0
    assert "from 'text', answers from 'value'" in capsys.readouterr().out


def test_an_empty_split_is_noted(tmp_path, capsys):
    path = tmp_path / "own.csv"
    path.write_text("problem,answer\nFind one.,1\n", encoding="utf-8")
    assert run(str(path), "--held-out", "0") == 0
    assert "one of the two splits is empty" in capsys.readouterr().err
