from __future__ import annotations

import json
import platform
import subprocess
from pathlib import Path

import pytest

import botgrpo_cli
from botgrpo_cli.errors import InputError
from botgrpo_cli.records.manifest import git_state, hardware, read_manifest, software, write_manifest


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_round_trip_is_strict_json(tmp_path):
    write_manifest(tmp_path, {"wall_seconds": float("nan"), "seeds": (0, 1), "heuristic": []})
    raw = (tmp_path / "manifest.json").read_text()
    assert "NaN" not in raw
    assert read_manifest(tmp_path) == {"wall_seconds": None, "seeds": [0, 1], "heuristic": []}
    write_manifest(tmp_path, {"wall_seconds": 1.5})
    assert read_manifest(tmp_path) == {"wall_seconds": 1.5}
    assert [entry.name for entry in tmp_path.iterdir()] == ["manifest.json"]


def test_places_are_left_out(tmp_path):
    home = str(Path.home())
    data = {
        "model": str(tmp_path / "weights"),
        "at": tmp_path,
        "note": f"found in {home}/models",
        "hub": "a/b",
        "steps": 3,
    }
    write_manifest(tmp_path, {"policy": [data]})
    [read] = read_manifest(tmp_path)["policy"]
    assert read == {
        "model": ".../weights",
        "at": f".../{tmp_path.name}",
        "note": "found in ~/models",
        "hub": "a/b",
        "steps": 3,
    }


def test_a_missing_or_broken_manifest_is_an_input_error(tmp_path):
    for text in (None, "{", "[]"):
        if text is not None:
            (tmp_path / "manifest.json").write_text(text)
        with pytest.raises(InputError, match="manifest"):
            read_manifest(tmp_path)


def test_hardware_and_software_say_what_and_not_who(tmp_path):
    machine, libraries = hardware(), software()
    assert machine["cores"] >= 1
    assert machine["memory_gib"] > 0
    assert machine["cpu"]
    assert machine["torch_threads"] >= 1
    assert libraries["botgrpo"] == botgrpo_cli.__version__
    assert libraries["python"] == platform.python_version()
    assert libraries["torch"]
    words = json.dumps([machine, libraries])
    assert platform.node() not in words
    assert str(Path.home()) not in words


def test_git_state(tmp_path, monkeypatch):
    assert git_state(tmp_path / "absent") is None
    git(tmp_path, "init", "-q")
    assert git_state(tmp_path) is None  # no commit yet
    (tmp_path / ".gitignore").write_text("ignored/\n")
    git(tmp_path, "add", ".gitignore")
    git(tmp_path, "commit", "-q", "-m", "one")
    commit = git(tmp_path, "rev-parse", "HEAD")
    assert git_state(tmp_path) == {"commit": commit, "dirty": False}
    for name in ("inside", "ignored"):
        (tmp_path / name).mkdir()
    (tmp_path / "inside/new.py").write_text("x = 1\n")
    assert git_state(tmp_path / "inside") == {"commit": commit, "dirty": True}
    assert git_state(tmp_path / "ignored") is None
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    assert git_state(tmp_path) == {"commit": commit, "dirty": True}
    monkeypatch.setenv("PATH", "")
    assert git_state(tmp_path) is None
