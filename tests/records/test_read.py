from __future__ import annotations

import math
import os

import pytest

from botgrpo_cli.errors import InputError
from botgrpo_cli.records.read import metrics_files, read_metrics, read_runs, read_samples
from botgrpo_cli.records.schema import COLUMNS, RunLabels
from botgrpo_cli.records.write import RunWriter

HEADER = ",".join(COLUMNS) + "\n"


def make_run(folder, *, run="r", method="grpo", seed=0, steps=3):
    writer = RunWriter.create(folder, RunLabels(run, "react", method, "tiny:react", "tiny", seed))
    for step in range(steps):
        writer.metrics(step, [("held-out", "compile_rate", step / 10)])
    return folder


def table(tmp_path, body, header=HEADER):
    (tmp_path / "metrics.csv").write_text(header + body)
    return tmp_path / "metrics.csv"


def test_columns_and_types(tmp_path):
    path = table(
        tmp_path, "r,NA,None,react,nan,null,tiny,1,2,held-out,compile_rate,\nr,,,react,m,b,s,1,3,train,x,0.5\n"
    )
    frame = read_metrics(path)
    assert list(frame.columns) == list(COLUMNS)
    first = frame.iloc[0]
    assert (first["study"], first["arm"], first["method"], first["base_model"]) == ("NA", "None", "nan", "null")
    assert math.isnan(first["value"])
    assert (frame["seed"].dtype, frame["step"].dtype, frame["value"].dtype) == ("int64", "int64", "float64")
    assert frame["value"].tolist()[1] == 0.5


def test_a_table_without_rows_has_the_columns(tmp_path):
    frame = read_metrics(table(tmp_path, ""))
    assert frame.empty
    assert frame["value"].dtype == "float64"


def test_windows_line_ends_are_read(tmp_path):
    path = table(tmp_path, "")
    path.write_bytes((HEADER + "r,,,react,m,b,s,1,3,train,x,0.5\n").replace("\n", "\r\n").encode())
    assert read_metrics(path)["value"].tolist() == [0.5]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("r,,,react,m,b,s,1,3,train,x\nr,,,react,m,b,s,1,3,train,x,0.5\n", "line 2: expected 12 cells, found 11"),
        ("r,,,react,m,b,s,1,3,train,x,0.5\nr,,,react,m,b,s,one,3,train,x,0.5\n", "line 3: 'seed' is 'one'"),
        ("r,,,react,m,b,s,1,3.5,train,x,0.5\n", "'step' is '3.5'"),
        ("r,,,react,m,b,s,1,3,train,x,nan\n", "'value' is 'nan'; expected a finite number or an empty cell"),
        ("r,,,react,m,b,s,1,3,train,x,high\n", "'value' is 'high'"),
    ],
)
def test_a_wrong_row_is_named(tmp_path, body, message):
    with pytest.raises(InputError, match=message):
        read_metrics(table(tmp_path, body))


@pytest.mark.parametrize("header", ["step,value\n", "", HEADER.replace("step,split", "split,step"), "\x89PNG\x00\n"])
def test_wrong_columns_are_an_input_error(tmp_path, header):
    with pytest.raises(InputError, match="is not a table of metrics"):
        read_metrics(table(tmp_path, "", header))


def test_missing_runs_name_the_nearest(tmp_path):
    make_run(tmp_path / "react-demo")
    with pytest.raises(InputError, match="Did you mean 'react-demo'"):
        read_runs([tmp_path / "reactdemo"])
    with pytest.raises(InputError, match="Did you mean 'react-demo'"):
        read_metrics(tmp_path / "reactdemo" / "metrics.csv")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"holds a metrics\.csv"):
        read_runs([tmp_path / "empty"])
    with pytest.raises(InputError, match="No run"):
        read_runs([])


def test_runs_tables_and_studies_are_read_once_each(tmp_path):
    one = make_run(tmp_path / "study/one", run="one")
    two = make_run(tmp_path / "study/two", run="two", method="bot-grpo")
    frame = read_runs([tmp_path / "study", one, two / "metrics.csv", os.path.relpath(one)])
    assert frame["run"].tolist() == ["one"] * 3 + ["two"] * 3
    assert metrics_files(tmp_path / "study") == [one / "metrics.csv", two / "metrics.csv"]


def test_same_labels_in_other_folders_are_told_apart(tmp_path):
    first, second = make_run(tmp_path / "a/demo", run="demo"), make_run(tmp_path / "b/demo", run="demo")
    assert sorted(set(read_runs([first, second])["run"])) == ["a/demo", "b/demo"]


def test_samples(tmp_path):
    make_run(tmp_path / "run")
    with pytest.raises(InputError, match=r"no samples\.jsonl"):
        list(read_samples(tmp_path / "run"))
    file = tmp_path / "run/samples.jsonl"
    file.write_bytes(b'{"step": 0, "a": null}\n{"step": 1}\n{"step": 2, "a')
    assert list(read_samples(tmp_path / "run")) == [{"step": 0, "a": None}, {"step": 1}]
    file.write_bytes(b'{"step": 0}\nnot json\n{"step": 2}\n')
    with pytest.raises(InputError, match=r"samples\.jsonl, line 2: expected a JSON object"):
        list(read_samples(tmp_path / "run"))
    file.write_bytes(b'{"step": "0"}\n')
    with pytest.raises(InputError, match="'step'"):
        list(read_samples(tmp_path / "run"))
