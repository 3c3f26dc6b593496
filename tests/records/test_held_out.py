from __future__ import annotations

import math

import pytest

from botgrpo_cli.errors import InputError
from botgrpo_cli.records.held_out import HELD_OUT, read_held_out
from botgrpo_cli.records.schema import RunLabels
from botgrpo_cli.records.write import RunWriter

LABELS = RunLabels(run="demo", task="react", method="bot-grpo", base_model="tiny:react", scale="tiny", seed=0)


def evaluated(folder, steps=(0, 5)):
    writer = RunWriter.create(folder, LABELS)
    for step in steps:
        writer.held_out(step, "compile_rate", [("p-1", 2, 0.5), ('odd, "id"', 2, math.nan)])
    return writer


def test_read_back_as_written(tmp_path):
    evaluated(tmp_path / "run")
    table = read_held_out(tmp_path / "run")
    assert (tmp_path / "run" / HELD_OUT).read_text().splitlines()[0] == "step,metric,prompt,samples,value"
    assert table["step"].tolist() == [0, 0, 5, 5]
    assert table["prompt"].tolist() == ["p-1", 'odd, "id"'] * 2
    assert table["samples"].tolist() == [2] * 4
    assert table["value"].fillna(-1).tolist() == [0.5, -1, 0.5, -1]
    assert set(table["metric"]) == {"compile_rate"}


def test_a_run_without_the_table_has_none(tmp_path):
    RunWriter.create(tmp_path / "run", LABELS)
    assert read_held_out(tmp_path / "run") is None


@pytest.mark.parametrize("cut", range(1, 40, 3))
def test_a_torn_end_is_left_out_and_mended_by_resuming(tmp_path, cut):
    evaluated(tmp_path / "run")
    path = tmp_path / "run" / HELD_OUT
    data = path.read_bytes()
    path.write_bytes(data[:-cut])
    rows = len(read_held_out(tmp_path / "run"))
    assert rows == data[:-cut].count(b"\n") - 1
    writer = RunWriter.resume(tmp_path / "run", LABELS)
    writer.truncate_after(0)
    writer.held_out(5, "compile_rate", [("p-1", 2, 1.0)])
    assert read_held_out(tmp_path / "run")["value"].dropna().tolist() == [0.5, 1.0]


def test_a_file_torn_inside_its_header_starts_again(tmp_path):
    writer = RunWriter.create(tmp_path / "run", LABELS)
    (tmp_path / "run" / HELD_OUT).write_bytes(b"step,met")
    RunWriter.resume(tmp_path / "run", LABELS)
    writer.held_out(0, "solved", [("a", 1, 1.0)])
    assert read_held_out(tmp_path / "run")["metric"].tolist() == ["solved"]


def test_an_evaluation_that_was_done_again_counts_once(tmp_path):
    writer = evaluated(tmp_path / "run", steps=(0,))
    writer.held_out(0, "compile_rate", [("p-1", 2, 1.0)])
    table = read_held_out(tmp_path / "run")
    assert table.loc[table["prompt"] == "p-1", "value"].tolist() == [1.0]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a,b\n1,2\n", "expected the columns step,metric,prompt,samples,value"),
        ("step,metric,prompt,samples,value\n1,m,p,1\n", "row 2"),
        ("step,metric,prompt,samples,value\n1,m,p,1,much\n", "row 2"),
        ("step,metric,prompt,samples,value\n1,m,p,1,nan\n", "row 2"),
    ],
)
def test_another_table_is_refused(tmp_path, text, says):
    (tmp_path / HELD_OUT).write_text(text)
    with pytest.raises(InputError, match=says):
        read_held_out(tmp_path)
