"""Installing the toolchain with the real npm: two processes at once, no network, and what is left afterwards."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from botgrpo_cli.tasks.react.toolchain import installed

INSTALL = """
import sys
from botgrpo_cli.errors import InputError
from botgrpo_cli.tasks.react.toolchain import ensure_toolchain, find_node
try:
    folder = ensure_toolchain(lambda sentence: print(sentence, flush=True))
except InputError as problem:
    sys.exit(f"refused: {problem}")
print(find_node())
print(folder)
"""


def start(cache: Path, **more: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "BOTGRPO_CACHE": str(cache), **more}
    environment = {name: value for name, value in environment.items() if value}
    return subprocess.Popen(
        [sys.executable, "-c", INSTALL],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def leftovers(cache: Path) -> list[str]:
    return [name for name in os.listdir(cache) if not name.endswith(".lock")]


@pytest.mark.slow
def test_two_processes_install_once_with_the_node_from_pypi(tmp_path):
    """The second waits and takes what the first has made. The wheel's `bin/npm` does not work; its script does."""
    both = [start(tmp_path / "cache", PATH=str(tmp_path), BOTGRPO_NODE="") for _ in range(2)]
    outputs = [process.communicate() for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    lines = [out.splitlines() for out, _ in outputs]
    assert lines[0][-2:] == lines[1][-2:]
    assert lines[0][-2].startswith(sys.prefix)
    assert sum("Installing" in line for line in lines[0] + lines[1]) == 1
    folder = Path(lines[0][-1])
    assert installed(folder)
    assert leftovers(tmp_path / "cache") == [folder.name]


def test_no_network_is_said_in_a_sentence_and_leaves_nothing(tmp_path):
    cache = tmp_path / "cache"
    offline = {"npm_config_registry": "http://127.0.0.1:9", "npm_config_cache": str(tmp_path / "npm")}
    process = start(cache, **offline)
    out, err = process.communicate()
    assert process.returncode == 1
    assert "Installing the React toolchain" in out
    assert "npm could not install the React toolchain" in err
    assert "ECONNREFUSED" in err
    assert "botgrpo setup react" in err
    assert leftovers(cache) == []


def test_what_a_killed_installer_left_is_cleared_away(tmp_path):
    cache = tmp_path / "cache"
    process = start(cache)
    assert process.stdout is not None
    assert "Installing" in process.stdout.readline()
    os.killpg(process.pid, signal.SIGKILL)  # npm with it
    process.communicate()
    assert any(".part-" in name for name in leftovers(cache))
    assert start(cache, npm_config_registry="http://127.0.0.1:9", npm_config_cache=str(tmp_path / "npm")).wait() == 1
    assert leftovers(cache) == []
