"""One child process with a person's functions, in a process group of its own, as its parent sees it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import botgrpo_cli
from botgrpo_cli.errors import InputError
from botgrpo_cli.tasks.own.messages import Channel, Description

LOAD_SECONDS = 300.0  # a file that imports torch takes 10 s; an environment may fetch its data
LIBRARIES = ("verifiers:", "reasoning-gym:")
LAST_SECONDS = 2.0  # for a process that has nothing to do to close what it has open
_ROOT = str(Path(botgrpo_cli.__file__).parents[1])
# Not `-m`: that would put the current folder first, where a person's random.py hides Python's own. The child imports
# the same botgrpo_cli as this process, installed or not.
_START = f"import sys; sys.path.append({_ROOT!r}); from botgrpo_cli.tasks.own.child import main; main()"


class Lost(Exception):
    """The process is gone when this is raised; the text says what it did, as in "ended its process (exit code 3)"."""

    def __init__(self, what: str, *, silent: bool = False) -> None:
        super().__init__(what)
        self.silent = silent  # it was there, but said nothing for too long


class FunctionProcess:
    """Starts at once. What its functions print goes to this process's standard error."""

    def __init__(self, spec: str, options: Mapping[str, Any]) -> None:
        self._spec = spec
        self._description: Description | None = None
        self._lock = threading.Lock()  # of `kill`, which any thread may call
        self._gone = False
        self._busy = True  # whether it has more to say
        mine, theirs = socket.socketpair()
        self._channel = Channel(mine)
        with theirs:
            number = theirs.fileno()
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _START, str(number), spec, json.dumps(dict(options))],
                stdin=subprocess.DEVNULL,
                stdout=2,
                pass_fds=[number],
                process_group=0,
            )
        self.pid = self._process.pid

    def describe(self) -> Description:
        """What it has loaded, once it has. Raises InputError when it can't be, and then the process is gone."""
        if self._description is None:
            try:
                kind, what = self.receive(LOAD_SECONDS)
            except Lost as problem:
                raise InputError(f"{title(self._spec)} {problem} while it was loaded.") from problem
            if kind == "problem":
                self.kill()
                raise InputError(what)
            self._description = what
        return self._description

    def send(self, request: Any, seconds: float) -> None:
        """Raises Lost."""
        self._busy = True
        with self._losing(seconds):
            self._channel.send(request, seconds)

    def receive(self, seconds: float) -> Any:
        """The next message. Raises Lost."""
        with self._losing(seconds):
            message = self._channel.receive(seconds)
        self._busy = isinstance(message, list)  # of answers, which others follow
        return message

    @contextlib.contextmanager
    def _losing(self, seconds: float) -> Iterator[None]:
        try:
            yield
        except TimeoutError as problem:
            self.kill()
            raise Lost(f"did not answer within {seconds:g} s", silent=True) from problem
        except OSError as problem:
            with contextlib.suppress(subprocess.TimeoutExpired):  # the socket closes a moment before the process ends
                self._process.wait(1)
            code = self._process.returncode
            self.kill()
            raise Lost(f"ended its process ({_ending(code)})") from problem

    def ended(self) -> bool:
        """Whether it has ended by itself while it had nothing to do."""
        return self._channel.ended()

    def hang_up(self) -> None:
        """Lets it end by itself, and close what it has open, if it has nothing to do."""
        self._channel.hang_up()

    def end(self) -> None:
        """Waits a moment for one that was hung up on, then kills it."""
        if not self._busy:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(LAST_SECONDS)
        self.kill()

    def kill(self) -> None:
        """Ends the whole process group, also what functions have started. Safe to call twice, from any thread."""
        with self._lock:
            if self._gone:  # its number may be another process's by now
                return
            self._gone = True
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
            self._process.wait()
            self._channel.close()


def absolute(spec: str) -> str:
    """A path stays the same file wherever this process goes."""
    return str(Path(spec).resolve()) if is_file(spec) else spec


def is_file(spec: str) -> bool:
    """Whether the functions are those of a file, and not of a library's environment or data set."""
    return spec.endswith(".py") and not spec.startswith(LIBRARIES)


def title(spec: str) -> str:
    return Path(spec).name if is_file(spec) else spec


def _ending(code: int | None) -> str:
    """
    >>> _ending(3), _ending(-11)
    ('exit code 3', 'signal SIGSEGV')
    """
    if code is None:
        return "its socket was closed"
    return f"exit code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"
