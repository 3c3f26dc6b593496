from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from botgrpo_cli.errors import InputError, RunError
from botgrpo_cli.records.read import read_metrics, read_samples
from botgrpo_cli.records.schema import COLUMNS, RunLabels
from botgrpo_cli.records.write import RunWriter, to_json, write_atomic
from botgrpo_cli.tasks.base import Attachment

LABELS = RunLabels(run="demo", task="react", method="bot-grpo", base_model="tiny:react", scale="tiny", seed=0)


def three_steps(folder: Path) -> RunWriter:
    writer = RunWriter.create(folder, LABELS)
    for step in range(3):
        writer.metrics(step, [("train", "reward", 0.5 + step), ("held-out", "compile_rate", step / 8)])
        writer.samples(step, [{"prompt": "p1", "reward": 0.25, "code": f"line\n{step}"}])
    return writer


def test_a_step_is_one_append_with_the_header_once(tmp_path):
    three_steps(tmp_path / "run")
    lines = (tmp_path / "run/metrics.csv").read_text().splitlines()
    assert lines[0] == ",".join(COLUMNS)
    assert lines[1:3] == [
        "demo,,,react,bot-grpo,tiny:react,tiny,0,0,train,reward,0.5",
        "demo,,,react,bot-grpo,tiny:react,tiny,0,0,held-out,compile_rate,0.0",
    ]
    assert len(lines) == 7


@pytest.mark.parametrize(
    "value", [None, float("nan"), float("inf"), -float("inf"), np.float32("nan"), torch.tensor(torch.nan)]
)
def test_missing_and_non_finite_values_are_empty_cells(tmp_path, value):
    RunWriter.create(tmp_path / "run", LABELS).metrics(0, [("train", "loss", value)])
    assert (tmp_path / "run/metrics.csv").read_text().splitlines()[1].endswith(",train,loss,")


@pytest.mark.parametrize("value", [0.1 + 0.2, 1e-300, np.float32(0.1), torch.tensor(3.5), 7, True])
def test_values_read_back_exactly(tmp_path, value):
    RunWriter.create(tmp_path / "run", LABELS).metrics(np.int64(4), [("train", "x", value)])
    frame = read_metrics(tmp_path / "run")
    assert frame["value"].tolist() == [float(value)]
    assert frame["step"].tolist() == [4]


@settings(deadline=None)
@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=12))
def test_any_label_reads_back(tmp_path_factory, text):
    folder = tmp_path_factory.mktemp("label") / "run"
    labels = RunLabels(run=text, task="react", method="None", base_model="NA", scale="", seed=1, arm="null")
    RunWriter.create(folder, labels).metrics(0, [("train", "nan", 1.0)])
    row = read_metrics(folder).iloc[0]
    assert (row["run"], row["method"], row["base_model"], row["scale"], row["arm"], row["metric"]) == (
        text,
        "None",
        "NA",
        "",
        "null",
        "nan",
    )


def test_create_refuses_a_folder_with_anything_in_it_and_leaves_it_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match=r"(?s)--resume.*--out"):
        RunWriter.create(tmp_path, LABELS)
    assert [entry.name for entry in tmp_path.iterdir()] == ["notes.txt"]
    with pytest.raises(InputError, match="--out"):
        RunWriter.create(tmp_path / "notes.txt", LABELS)
    with pytest.raises(InputError, match="--out"):
        RunWriter.create(tmp_path / "notes.txt" / "run", LABELS)


def test_create_takes_an_empty_folder_once(tmp_path):
    RunWriter.create(tmp_path, LABELS)
    assert len(read_metrics(tmp_path)) == 0
    with pytest.raises(InputError, match="not empty"):
        RunWriter.create(tmp_path, LABELS)


def test_resume_needs_a_run(tmp_path):
    with pytest.raises(InputError, match="no run in"):
        RunWriter.resume(tmp_path / "absent", LABELS)


def test_truncate_drops_rows_past_the_step_and_appends_go_on(tmp_path):
    three_steps(tmp_path / "run")
    writer = RunWriter.resume(tmp_path / "run", LABELS)
    writer.truncate_after(1)
    assert sorted(set(read_metrics(tmp_path / "run")["step"])) == [0, 1]
    assert [sample["step"] for sample in read_samples(tmp_path / "run")] == [0, 1]
    writer.metrics(2, [("train", "reward", 9.0)])
    writer.samples(2, [{"reward": 9.0}])
    assert read_metrics(tmp_path / "run")["value"].tolist() == [0.5, 0.0, 1.5, 0.125, 9.0]
    assert [sample["reward"] for sample in read_samples(tmp_path / "run")] == [0.25, 0.25, 9.0]


def test_attachments_become_files_that_the_rows_name_and_go_with_their_steps(tmp_path):
    writer = RunWriter.create(tmp_path / "run", LABELS)
    for step in range(3):
        picture = Attachment(f"picture {step}".encode(), "screenshots", ".png")
        rows = [{"split": split, "rollout": 7, "reward": 0.5, "page": picture} for split in ("train", "held-out")]
        writer.samples(step, [*rows, {"split": "train", "rollout": 8}])
    names = [sample.get("page") for sample in read_samples(tmp_path / "run")]
    assert names[:3] == ["screenshots/step-0000-train-007.png", "screenshots/step-0000-held-out-007.png", None]
    assert (tmp_path / "run" / names[3]).read_bytes() == b"picture 1"
    (tmp_path / "run" / "checkpoints").mkdir()
    (tmp_path / "run" / "checkpoints" / "step-9-notes.txt").touch()
    writer.truncate_after(1)
    kept = sorted(path.name for path in (tmp_path / "run" / "screenshots").iterdir())
    assert kept == [f"step-000{step}-{split}-007.png" for step in (0, 1) for split in ("held-out", "train")]
    assert (tmp_path / "run" / "checkpoints" / "step-9-notes.txt").exists()


def test_a_folder_of_attachments_that_cannot_be_made_is_said(tmp_path):
    writer = RunWriter.create(tmp_path / "run", LABELS)
    (tmp_path / "run" / "screenshots").touch()
    with pytest.raises(RunError, match="screenshots"):
        writer.samples(0, [{"page": Attachment(b"x", "screenshots", ".png")}])


def test_truncating_nothing_leaves_the_bytes(tmp_path):
    writer = three_steps(tmp_path / "run")
    before = {path: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    writer.truncate_after(2)
    assert {path: path.read_bytes() for path in (tmp_path / "run").iterdir()} == before


@pytest.mark.parametrize("name", ["metrics.csv", "samples.jsonl"])
def test_a_file_cut_at_any_byte_is_read_and_mended(tmp_path, name):
    labels = RunLabels(run='a "b",\nc', task="t", method="m", base_model="b", scale="s", seed=0, arm="x\ny")
    writer = RunWriter.create(tmp_path / "run", labels)
    for step in range(2):
        writer.metrics(step, [("train", "reward", 0.25)])
        writer.samples(step, [{"code": "a\nb"}])
    path = tmp_path / "run" / name
    whole = path.read_bytes()
    first = len(",".join(COLUMNS)) + 1 if name == "metrics.csv" else 0

    def steps() -> list[int]:
        read = (
            read_metrics(path)["step"] if name == "metrics.csv" else (row["step"] for row in read_samples(path.parent))
        )
        return list(read)

    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        expected = [0, 1] if cut == len(whole) else [0] if cut >= first + (len(whole) - first) // 2 else []
        if cut >= first:
            assert steps() == expected
        resumed = RunWriter.resume(tmp_path / "run", labels)
        assert steps() == expected
        resumed.metrics(7, [("train", "reward", 1.0)])
        resumed.samples(7, [{"code": ""}])
        assert steps() == [*expected, 7]
        if name == "metrics.csv":
            (tmp_path / "run/samples.jsonl").unlink()
        else:
            (tmp_path / "run/metrics.csv").unlink()


def test_a_zeroed_tail_is_dropped(tmp_path):
    writer = three_steps(tmp_path / "run")
    for name in ("metrics.csv", "samples.jsonl"):
        with (tmp_path / "run" / name).open("ab") as file:
            file.write(b"demo,,\0\0\0\0")
    writer.truncate_after(2)
    assert len(read_metrics(tmp_path / "run")) == 6
    assert len(list(read_samples(tmp_path / "run"))) == 3


WRITE_FOR_EVER = """
import itertools, sys
from pathlib import Path
from botgrpo_cli.records.schema import RunLabels
from botgrpo_cli.records.write import RunWriter
writer = RunWriter.create(Path(sys.argv[1]), RunLabels("r", "react", "grpo", "b", "tiny", 0))
for step in itertools.count():
    writer.metrics(step, [("train", f"metric_{i}", i / 7) for i in range(200)])
    writer.samples(step, [{"code": "x" * 5000}])
    print(step, flush=True)
"""


def test_sigkill_leaves_whole_steps(tmp_path):
    folder = tmp_path / "run"
    with subprocess.Popen(
        [sys.executable, "-c", WRITE_FOR_EVER, str(folder)], stdout=subprocess.PIPE, text=True
    ) as child:
        said = [int(child.stdout.readline()) for _ in range(20)]
        child.send_signal(signal.SIGKILL)
    assert said[-1] == 19
    counts = read_metrics(folder).groupby("step").size()
    assert counts.index.tolist() == list(range(len(counts)))
    assert len(counts) >= 20
    assert set(counts[:20]) == {200}
    writer = RunWriter.resume(folder, LABELS)
    writer.truncate_after(10)
    assert read_metrics(folder)["step"].max() == 10
    assert [sample["step"] for sample in read_samples(folder)] == list(range(11))


WRITE_TO_THE_LIMIT = """
import resource, sys
from pathlib import Path
from botgrpo_cli.errors import RunError
from botgrpo_cli.records.schema import RunLabels
from botgrpo_cli.records.write import RunWriter
writer = RunWriter.resume(Path(sys.argv[1]), RunLabels("demo", "react", "bot-grpo", "tiny:react", "tiny", 0))
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
try:
    writer.metrics(3, [("train", "reward", 0.5)] * 4)
except RunError as error:
    print(error)
"""


def test_no_room_leaves_the_step_out_whole_and_says_what_is_kept(tmp_path):
    three_steps(tmp_path / "run")
    path = tmp_path / "run/metrics.csv"
    before = path.read_bytes()
    limit = str(len(before) + 70)  # room for one row and a part of the next
    done = subprocess.run(
        [sys.executable, "-c", WRITE_TO_THE_LIMIT, str(tmp_path / "run"), limit], capture_output=True, text=True
    )
    assert done.stderr == ""
    assert "the disk is full, so the metrics of step 3 could not be added" in done.stdout
    assert "kept" in done.stdout
    assert "--resume" in done.stdout
    assert path.read_bytes() == before


def test_a_full_device_is_a_run_error(tmp_path):
    writer = three_steps(tmp_path / "run")
    full = Path("/dev/full")
    target = full if full.exists() else tmp_path  # elsewhere a folder, which cannot be appended to either
    (tmp_path / "run/events.log").symlink_to(target)
    with pytest.raises(RunError, match="could not be added"):
        writer.event("hello")


def test_events_are_stamped_single_lines(tmp_path):
    writer = RunWriter.create(tmp_path / "run", LABELS)
    writer.event("started\nagain \ud800")
    writer.event("done")
    lines = (tmp_path / "run/events.log").read_text().splitlines()
    assert [line.split(" ", 1)[1] for line in lines] == ["started | again \\ud800", "done"]
    assert lines[0].split(" ")[0].endswith("Z")


def test_samples_are_strict_json(tmp_path):
    writer = RunWriter.create(tmp_path / "run", LABELS)
    hostile = "a\ud800b\0\u2028\x85\r\n<>'\\"
    writer.samples(
        3, [{"code": hostile, "reward": float("nan"), "terms": {"lint": np.float32(0.5)}, "ids": torch.tensor([1, 2])}]
    )
    raw = (tmp_path / "run/samples.jsonl").read_bytes()
    assert raw.count(b"\n") == 1

    def refuse(name: str) -> None:
        raise AssertionError(name)

    assert json.loads(raw, parse_constant=refuse) == {
        "step": 3,
        "code": "a\ufffdb\0\u2028\x85\r\n<>'\\",
        "reward": None,
        "terms": {"lint": 0.5},
        "ids": [1, 2],
    }


@settings(deadline=None)
@given(st.text(st.characters()))
def test_text_survives_json_but_for_lone_surrogates(text):
    read = json.loads(to_json(text))
    read.encode("utf-8")  # no surrogate is left
    if not any("\ud800" <= char <= "\udfff" for char in text):
        assert read == text


def test_json_refuses_what_it_cannot_say():
    with pytest.raises(TypeError, match="object"):
        to_json({"x": object()})


def test_write_atomic_replaces_and_leaves_nothing_beside(tmp_path):
    write_atomic(tmp_path / "a.txt", b"one")
    write_atomic(tmp_path / "a.txt", b"two")
    assert (tmp_path / "a.txt").read_bytes() == b"two"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.txt"]
    (tmp_path / "folder").mkdir()
    with pytest.raises(RunError, match="kept"):
        write_atomic(tmp_path / "folder", b"three")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["a.txt", "folder"]
