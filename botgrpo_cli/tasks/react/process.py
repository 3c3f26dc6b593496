"""One Node process in a process group of its own, spoken to in JSON lines over a socket pair."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from botgrpo_cli.errors import RunError
from botgrpo_cli.tasks.react.toolchain import WORKER

BOOT_SECONDS = 120.0  # takes 2 s; a machine that swaps may take long
# Memory stays bounded whatever the sample; a young generation of 32 MB saves a fifth of the time in collections.
NODE_FLAGS = ("--max-old-space-size=512", "--max-semi-space-size=32")


class WorkerLost(Exception):
    """The process died or did not answer in time; it is gone when this is raised."""


class BootFailed(WorkerLost):
    """It was lost before it had taken a sample, so no sample is to blame."""


@cache
def isolation(user: int = 0) -> tuple[str, ...]:
    """Words in front of a command that take the network away from it, empty where the machine does not allow that.

    The command believes that it runs as `user`; files are still opened with the rights of the real one.
    """
    who = ("--map-root-user",) if user == 0 else (f"--map-user={user}", f"--map-group={user}")
    words = ("unshare", "--user", *who, "--net")
    try:
        # The workers' own file: a superuser loses the right to read what others keep to themselves.
        tried = subprocess.run([*words, "test", "-r", WORKER], capture_output=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return words if tried.returncode == 0 else ()


class NodeProcess:
    """Runs `command`, whose first line says that it is ready; then one request in flight, one line each way.

    A socket, unlike a pipe, has time limits for sending too: a stopped process can't hang the sender. `tools` is what
    an error calls the programs behind it.
    """

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], tools: str = "The React toolchain"
    ) -> None:
        self._tools = tools
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by kill()
        self._socket, theirs = socket.socketpair()
        self._buffer = b""
        self._requests = 0
        self.greeting: dict[str, Any] = {}  # its first line, once it has come
        with theirs:
            self._process = subprocess.Popen(
                command, stdin=theirs, stdout=theirs, stderr=self._errors, process_group=0, env=dict(environment)
            )
        self.pid = self._process.pid

    def ask(self, request: Mapping[str, Any], timeout: float) -> dict[str, Any]:
        """The answer to one request, in at most `timeout` seconds after it is ready.

        Raises WorkerLost, after which the process is of no use, and RunError when the tools are broken.
        """
        self.await_ready()
        self._requests += 1
        line = json.dumps({"id": self._requests, **request})  # ASCII: lone surrogates travel as escapes
        answer = self._exchange(line.encode() + b"\n", time.monotonic() + timeout)
        if answer.get("id") != self._requests:
            self.kill()
            raise WorkerLost(f"answer {answer.get('id')} to request {self._requests}")
        return answer

    def await_ready(self) -> None:
        """Raises BootFailed, and RunError when the tools are broken."""
        if self.greeting:
            return
        try:
            self.greeting = self._exchange(b"", time.monotonic() + BOOT_SECONDS)
        except WorkerLost as problem:
            raise BootFailed(str(problem)) from problem

    def _exchange(self, data: bytes, deadline: float) -> dict[str, Any]:
        """Sends, then reads one line, all before the deadline (of time.monotonic)."""
        try:
            self._socket.settimeout(max(0.001, deadline - time.monotonic()))
            self._socket.sendall(data)
            while b"\n" not in self._buffer:
                self._socket.settimeout(max(0.001, deadline - time.monotonic()))
                chunk = self._socket.recv(1 << 16)
                if not chunk:
                    raise ConnectionError("it died")
                self._buffer += chunk
        except TimeoutError as problem:
            self.kill()
            raise WorkerLost("it did not answer in time") from problem
        except OSError as problem:
            words = self._last_words()
            self.kill()
            raise WorkerLost(f"it died: {words}" if words else "it died") from problem
        line, _, self._buffer = self._buffer.partition(b"\n")
        answer = json.loads(line)
        if "infrastructure" in answer:
            self.kill()
            raise RunError(f"{self._tools} is broken, scoring stopped. {answer['infrastructure']}")
        return answer

    def _last_words(self) -> str:
        with contextlib.suppress(OSError, ValueError):
            self._errors.seek(0)
            lines = self._errors.read(4000).decode(errors="replace").split("\n")
            return next((line.strip() for line in lines if "Error" in line or "error" in line), lines[0].strip())[:300]
        return ""

    def kill(self) -> None:
        """Ends the whole process group. Safe to call twice, from any thread."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if self._process.returncode is None:
                os.killpg(self.pid, signal.SIGKILL)
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes a thread that is reading
        self._process.wait()
        self._socket.close()
        self._errors.close()
