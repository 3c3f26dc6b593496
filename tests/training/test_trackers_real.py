"""W&B offline and Trackio themselves: what they wrote, read back from their files. They come with `botgrpo[track]`."""

from __future__ import annotations

import json
import sqlite3
import struct

import pytest

from tests.program import ENVIRONMENT, FEW, botgrpo
from tests.training.test_trackers import rows

pytest.importorskip("wandb", reason="the extra botgrpo[track] is not installed")
pytest.importorskip("trackio", reason="the extra botgrpo[track] is not installed")

pytestmark = pytest.mark.slow

TRAIN = ["train", "aime_qwen", "--scale", "tiny", "--out", "run", *FEW]


@pytest.fixture
def own(tmp_path_factory):
    """Without keys and folders of whoever runs the tests."""
    home = tmp_path_factory.mktemp("home")
    kept = {name: value for name, value in ENVIRONMENT.items() if not name.startswith(("WANDB_", "TRACKIO_"))}
    places = {name: str(home) for name in ("WANDB_CONFIG_DIR", "WANDB_CACHE_DIR", "WANDB_DATA_DIR")}
    return {**kept, **places, "NETRC": str(home / "netrc")}


def records(path):
    """The records of a .wandb file: LevelDB's log format after a header of seven bytes."""
    from wandb.proto.wandb_internal_pb2 import Record

    data, place, whole = path.read_bytes(), 7, b""
    while place + 7 <= len(data):
        room = 32768 - place % 32768
        if room < 7:  # a block's end is padded
            place += room
            continue
        size, kind = struct.unpack("<HB", data[place + 4 : place + 7])
        whole += data[place + 7 : place + 7 + size]
        place += 7 + size
        if kind in (1, 4):  # whole, or its last part
            record = Record()
            record.ParseFromString(whole)
            whole = b""
            yield record


def history(path):
    """{(our step, name): value} and the ids of the runs in the file."""
    found, ids = {}, set()
    for record in records(path):
        if record.HasField("run"):
            ids.add(record.run.run_id)
        if record.HasField("history"):
            items = record.history.item
            values = {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items}
            found |= {(values["step"], name): value for name, value in values.items() if "/" in name}
    return found, ids


def test_a_run_and_its_resumption_are_one_run_in_both(tmp_path, own):
    words = [*TRAIN, "--set", "training.trackers=[wandb, trackio]"]
    environment = {**own, "WANDB_MODE": "offline"}
    first = botgrpo(*words, "--steps", 1, cwd=tmp_path, environment=environment)
    assert first.returncode == 0, first.stderr
    assert "trackio" not in first.stdout.lower().partition("step    0")[2]  # its greetings
    second = botgrpo(*words, "--steps", 2, "--resume", cwd=tmp_path, environment=environment)
    assert second.returncode == 0, second.stderr
    written = rows(tmp_path / "run")
    files = sorted((tmp_path / "run" / "tracking" / "wandb").glob("offline-run-*/*.wandb"))
    (early, ids), (late, same) = map(history, files)
    assert ids == same == {(tmp_path / "run" / "tracking" / "wandb-id.txt").read_text().strip()}
    assert {step for step, _ in early} == {0, 1}
    assert {step for step, _ in late} == {2}
    assert written.items() <= (early | late).items()
    with sqlite3.connect(tmp_path / "run" / "tracking" / "trackio" / "botgrpo.db") as table:
        kept = table.execute("select run_id, step, metrics from metrics").fetchall()
        (config,) = table.execute("select config from configs").fetchone()
    assert json.loads(config)["training.trackers"] == '["wandb", "trackio"]'
    assert len({run for run, _, _ in kept}) == 1
    values = {(step, name): value for _, step, data in kept for name, value in json.loads(data).items()}
    assert written.items() <= values.items()


def test_without_a_key_nothing_starts(tmp_path, own):
    done = botgrpo(*TRAIN, "--set", "training.trackers=[wandb]", cwd=tmp_path, environment=own)
    assert done.returncode == 2
    assert "there is no key" in done.stderr
    assert "WANDB_MODE=offline" in done.stderr
    assert list(tmp_path.iterdir()) == []
