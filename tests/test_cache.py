"""The cache folder: where it is, and that what is built in it is built once and never half."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from botgrpo_cli.cache import build_once, cache_root, make_folder, need_space
from botgrpo_cli.errors import InputError


@pytest.mark.parametrize(
    ("own", "shared", "expected"),
    [
        ("/a/b", "/x", "/a/b"),
        (None, "/x", "/x/botgrpo"),
        (None, None, "/home/me/.cache/botgrpo"),
        ("", "not/absolute", "/home/me/.cache/botgrpo"),
        ("~/mine", None, "/home/me/mine"),
    ],
)
def test_root(monkeypatch, own, shared, expected):
    monkeypatch.setenv("HOME", "/home/me")
    for name, value in (("BOTGRPO_CACHE", own), ("XDG_CACHE_HOME", shared)):
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)
    assert cache_root() == Path(expected)


def test_a_build_that_fails_leaves_nothing_under_the_name(tmp_path):
    def fail(part: Path) -> None:
        (part / "half").write_text("half")
        raise InputError("The network is gone.")

    with pytest.raises(InputError, match="network"):
        build_once(tmp_path / "model", fail, print)
    assert [path.name for path in tmp_path.iterdir()] == [".model.lock"]


def test_what_a_killed_build_left_is_removed_and_the_build_runs_again(tmp_path):
    left = tmp_path / ".model.part-abc"
    left.mkdir()
    (left / "half").write_text("half")
    folder = build_once(tmp_path / "model", lambda part: (part / "whole").write_text("whole") and None, print)
    assert [path.name for path in folder.iterdir()] == ["whole"]
    assert not left.exists()


def test_of_several_processes_one_builds(tmp_path):
    program = """
import sys
from pathlib import Path
from botgrpo_cli.cache import build_once

def build(part):
    with open(sys.argv[1] + "/builds", "a") as log:
        log.write("built\\n")
    (part / "blob").write_bytes(b"x" * 20_000_000)

folder = build_once(Path(sys.argv[1]) / "model", build, print)
assert (folder / "blob").stat().st_size == 20_000_000
"""
    command = [sys.executable, "-c", program, str(tmp_path)]
    processes = [subprocess.Popen(command) for _ in range(4)]
    assert [process.wait() for process in processes] == [0, 0, 0, 0]
    assert (tmp_path / "builds").read_text() == "built\n"


def test_a_cache_that_cannot_be_made_names_the_variable(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="Set BOTGRPO_CACHE"):
        make_folder(tmp_path / "file" / "cache")


def test_too_little_space_is_said_with_both_numbers(tmp_path):
    with pytest.raises(InputError, match=r"The model needs 1000000000000 MB.* has \d+ MB free"):
        need_space(tmp_path, 10**18, "The model")
