"""`botgrpo setup` and `botgrpo doctor` on this machine, and on the same machine with parts taken away."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import pytest

from botgrpo_cli import console
from botgrpo_cli.app import main
from botgrpo_cli.commands.doctor import examine, print_findings
from botgrpo_cli.tasks.needs import Finding
from botgrpo_cli.tasks.react.browser import BROWSERS
from botgrpo_cli.tasks.react.toolchain import ensure_toolchain


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stop:
        main(list(arguments))
    return stop.value.code or 0


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BOTGRPO_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def finding(part: str) -> Finding:
    return next(found for found in examine() if found.part == part)


def program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_setup_suggests_the_nearest_part(capsys):
    assert run("setup", "smal") == 2
    message = capsys.readouterr().err
    assert "react, small, judge, all" in message
    assert "Did you mean 'small'?" in message


def test_setup_react_says_where_the_tools_are(capsys):
    folder = ensure_toolchain()
    assert run("setup", "react") == 0
    assert f"ready in {folder}" in capsys.readouterr().out


def test_setup_is_silent_when_asked(capsys):
    ensure_toolchain()
    assert run("-q", "setup", "react") == 0
    console.set_up()
    assert capsys.readouterr().out == ""


def test_doctor_passes_where_the_tests_run(capsys):
    ensure_toolchain()
    assert run("doctor") == 0
    text = capsys.readouterr().out
    for part in ("Python", "torch", "GPU", "transformers", "tiny policy", "Node", "React tools", "disk", "Chromium"):
        assert part in text
    assert "The tiny scale can run" in text


def test_doctor_fails_without_the_react_tools_and_names_the_command(empty_cache, capsys):
    assert run("doctor") == 1
    text = capsys.readouterr().out
    assert "botgrpo setup react" in text
    assert "botgrpo setup small" in text
    assert "cannot run yet: React tools missing." in text
    assert not empty_cache.exists(), "looking must not create the cache"


def test_doctor_reports_a_node_that_is_not_node(monkeypatch):
    monkeypatch.setenv("BOTGRPO_NODE", sys.executable)
    found = finding("Node")
    assert found.state == "missing"
    assert "BOTGRPO_NODE" in found.found
    assert found.mend


def test_doctor_finds_the_browser_on_the_path(tmp_path, monkeypatch):
    monkeypatch.delenv("BOTGRPO_CHROMIUM", raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path / "playwright"))
    assert finding("Chromium").state == "absent"
    assert finding("Chromium").mend == "apt-get install chromium-headless-shell"
    for name in reversed(BROWSERS):  # the first of BROWSERS wins over those that are there already
        path = program(tmp_path / name)
        assert finding("Chromium") == Finding("Chromium", "ok", str(path))


def test_doctor_takes_the_browser_that_is_named(tmp_path, monkeypatch):
    path = program(tmp_path / "mine")
    monkeypatch.setenv("BOTGRPO_CHROMIUM", str(path))
    assert finding("Chromium").found == str(path)
    monkeypatch.setenv("BOTGRPO_CHROMIUM", str(tmp_path / "gone"))
    assert finding("Chromium").state == "absent"


def test_everything_that_is_not_ok_has_a_command_or_a_reason(empty_cache):
    for found in examine():
        assert found.found
        assert found.state == "ok" or found.mend or found.part == "GPU"


def test_paths_are_not_broken_in_a_pipe(capsys):
    path = "/a/" + "long/" * 12 + "path"
    print_findings([Finding("Node", "ok", path)])
    assert path in capsys.readouterr().out
