"""The real program in a process of its own, and settings that make its runs short.

Importing torch and transformers costs more than most of these tests, so `botgrpo` forks the process from one that has
them already. `cold` starts it as a user does: in the first test of `train`, `evaluate`, `ablate` and `winrate`.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import CompletedProcess

FEW = [
    *("--set", "sampling.prompts=2", "--set", "sampling.group_size=4", "--set", "training.micro_batch=8"),
    *("--set", "evaluation.prompts=4", "--set", "sampling.max_new_tokens=200"),
]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200", "NO_COLOR": "1"}

_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload(["tests.preload"])


def cold(
    *arguments: object, cwd: Path, environment: Mapping[str, str] = ENVIRONMENT, seconds: float = 300
) -> CompletedProcess[str]:
    """Runs `botgrpo` with `arguments` in `cwd`. Raises subprocess.TimeoutExpired after `seconds`."""
    command = [sys.executable, "-m", "botgrpo_cli", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=seconds)


def botgrpo(
    *arguments: object, cwd: Path, environment: Mapping[str, str] = ENVIRONMENT, seconds: float = 300
) -> CompletedProcess[str]:
    """As `cold`, sooner."""
    return Forked("botgrpo_cli", *arguments, cwd=cwd, environment=environment).wait(seconds)


class Forked:
    """`python -m module arguments` in a process that runs until `wait` has seen its end or `kill` is called."""

    def __init__(self, module: str, *arguments: object, cwd: Path, environment: Mapping[str, str]) -> None:
        self._words = [module, *map(str, arguments)]
        self._said = tempfile.TemporaryDirectory()
        given = (self._words, str(cwd), dict(environment), self._said.name)
        self._process = _PROCESSES.Process(target=_run, args=given)
        self._process.start()

    def wait(self, seconds: float) -> CompletedProcess[str]:
        """Raises subprocess.TimeoutExpired, the process killed, after `seconds`."""
        self._process.join(seconds)
        code = self._process.exitcode
        self.kill()
        said = [(Path(self._said.name) / name).read_text(encoding="utf-8") for name in ("out", "err")]
        self._said.cleanup()
        if code is None:
            raise subprocess.TimeoutExpired(self._words, seconds, *said)
        return CompletedProcess(self._words, code, *said)

    def kill(self) -> None:
        self._process.kill()
        self._process.join()


def assert_starts_nothing(*arguments: object, cwd: Path, words: Sequence[str]) -> None:
    """The command ends with code 2 and one message that holds all of `words`, and leaves no file in `cwd`."""
    done = botgrpo(*arguments, cwd=cwd)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr
    assert list(cwd.iterdir()) == []


def _run(words: list[str], cwd: str, environment: dict[str, str], folder: str) -> None:
    for name, number in (("out", 1), ("err", 2)):
        os.dup2(os.open(os.path.join(folder, name), os.O_WRONLY | os.O_CREAT), number)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = words
    runpy.run_module(words[0], run_name="__main__", alter_sys=True)
