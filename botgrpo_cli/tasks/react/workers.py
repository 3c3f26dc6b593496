"""A pool of Node processes that compile and lint. They boot once, answer one request at a time, and may die.

A sample that kills its worker or runs out of time is tried once more in a fresh one; after that it counts as crashed
and the batch goes on. Tools that are broken for every sample (ESLint silent, Node that won't boot) are a RunError.
The code of a sample is parsed and bundled, never executed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import queue
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from botgrpo_cli.errors import RunError
from botgrpo_cli.tasks.react.toolchain import SETUP_COMMAND, WORKER, ensure_toolchain, find_node

BOOT_SECONDS = 120.0  # takes 2 s; a machine that swaps may take long
TRIES = 2  # of a sample, and of starting a worker
# Memory stays bounded whatever the sample; a young generation of 32 MB saves a fifth of the time in collections.
NODE_FLAGS = ("--max-old-space-size=512", "--max-semi-space-size=32")
CACHED_RESULTS = 8192


@dataclass(frozen=True)
class Diagnostic:
    """One finding. `line` is 0-based in the checked code, None when no line is to blame."""

    line: int | None
    rule: str
    message: str
    severity: Literal["error", "warning"] = "error"


@dataclass(frozen=True)
class CheckResult:
    """What the tools say of one file. It compiles when `errors` is empty and it did not crash."""

    errors: tuple[Diagnostic, ...] = ()  # of the compiler, sorted by line
    findings: tuple[Diagnostic, ...] = ()  # of ESLint
    parsed: bool = False  # ESLint could read it
    markup: bool = False  # there is JSX in it
    language: str = "jsx"  # the grammar that fits: jsx or tsx
    crashed: bool = False  # two workers died or ran out of time over it

    @property
    def compiled(self) -> bool:
        return not self.errors and not self.crashed


class WorkerLost(Exception):
    """The process died or did not answer in time; it is gone when this is raised."""


class BootFailed(WorkerLost):
    """It was lost before it had taken a sample, so no sample is to blame."""


@cache
def isolation() -> tuple[str, ...]:
    """Words in front of a command that take the network away from it, empty where the machine does not allow that."""
    words = ("unshare", "--user", "--map-root-user", "--net")
    try:
        allowed = subprocess.run([*words, "true"], capture_output=True, timeout=20, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return words if allowed else ()


class Worker:
    """One Node process in a process group of its own, spoken to over a socket pair.

    A socket, unlike a pipe, has time limits for sending too: a stopped process can't hang the sender.
    """

    def __init__(self, node: str, toolchain: Path) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by kill()
        self._socket, theirs = socket.socketpair()
        self._buffer = b""
        self._requests = 0
        self._ready = False
        with theirs:
            self._process = subprocess.Popen(
                [*isolation(), node, *NODE_FLAGS, str(WORKER), str(toolchain)],
                stdin=theirs,
                stdout=theirs,
                stderr=self._errors,
                process_group=0,
                env={**os.environ, "GOMAXPROCS": "1", "NODE_OPTIONS": ""},
            )
        self.pid = self._process.pid

    def check(self, code: str, timeout: float) -> CheckResult:
        """Raises WorkerLost, after which the worker is of no use, and RunError when the tools are broken."""
        self._await_ready()
        self._requests += 1
        request = json.dumps({"id": self._requests, "code": code})  # ASCII: lone surrogates travel as escapes
        answer = self._exchange(request.encode() + b"\n", time.monotonic() + timeout)
        if answer.get("id") != self._requests:
            self.kill()
            raise WorkerLost(f"answer {answer.get('id')} to request {self._requests}")
        return _result(answer)

    def _await_ready(self) -> None:
        if self._ready:
            return
        try:
            self._exchange(b"", time.monotonic() + BOOT_SECONDS)
        except WorkerLost as problem:
            raise BootFailed(str(problem)) from problem
        self._ready = True

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
            raise RunError(f"The React toolchain is broken, scoring stopped. {answer['infrastructure']}")
        return answer

    def _last_words(self) -> str:
        with contextlib.suppress(OSError, ValueError):
            self._errors.seek(0)
            lines = self._errors.read(4000).decode(errors="replace").split("\n")
            return next((line.strip() for line in lines if "Error" in line or "error" in line), lines[0].strip())[:300]
        return ""

    def kill(self) -> None:
        """Ends the whole process group, esbuild's own process included. Safe to call twice, from any thread."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if self._process.returncode is None:
                os.killpg(self.pid, signal.SIGKILL)
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes a thread that is reading
        self._process.wait()
        self._socket.close()
        self._errors.close()


def _result(answer: dict[str, Any]) -> CheckResult:
    def diagnostics(key: str) -> tuple[Diagnostic, ...]:
        return tuple(
            Diagnostic(None if f["line"] is None else f["line"] - 1, f["rule"], f["message"], f["severity"])
            for f in answer[key]
        )

    errors, findings = diagnostics("errors"), diagnostics("findings")
    return CheckResult(errors, findings, answer["parsed"], answer["markup"], answer["language"])


class ReactChecker:
    """Checks code in `workers` Node processes; results are remembered by the hash of the code.

    Processes start at once and boot in parallel; `timeout` is in seconds a sample and try. Raises InputError when
    Node is missing or the toolchain can't be installed. Use it as a context manager, or call `close`.
    """

    def __init__(self, workers: int, timeout: float, progress: Callable[[str], None] | None = None) -> None:
        self._toolchain = ensure_toolchain(progress)
        self._node = find_node()
        self._timeout = timeout
        self._lock = threading.Lock()
        self._closed = False
        self._results: OrderedDict[bytes, Future[CheckResult]] = OrderedDict()
        self._workers: set[Worker] = set()
        self._idle: queue.SimpleQueue[Worker] = queue.SimpleQueue()
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="react-checker")
        for _ in range(workers):
            self._idle.put(self._start())

    @property
    def pids(self) -> list[int]:
        """Process ids of the workers that are alive, which are also the ids of their process groups."""
        with self._lock:
            return sorted(worker.pid for worker in self._workers)

    def submit(self, code: str) -> Future[CheckResult]:
        """The result of `code`; the same future for the same code, so it must not be cancelled.

        The future raises RunError when the tools themselves are broken.
        """
        key = hashlib.sha256(code.encode("utf-8", "surrogatepass")).digest()
        with self._lock:
            if key in self._results:
                self._results.move_to_end(key)
                return self._results[key]
            future = self._threads.submit(self._check, key, code)
            self._results[key] = future
            if len(self._results) > CACHED_RESULTS:
                self._results.popitem(last=False)
            return future

    def _start(self) -> Worker:
        with self._lock:
            if self._closed:
                raise RunError("The React checker was closed while samples were waiting.")
            worker = Worker(self._node, self._toolchain)
            self._workers.add(worker)
            return worker

    def _check(self, key: bytes, code: str) -> CheckResult:
        worker = self._idle.get()
        try:
            tries = boots = 0
            while tries < TRIES:
                try:
                    return worker.check(code, self._timeout)
                except BootFailed as problem:
                    boots += 1
                    if boots == TRIES:
                        raise self._does_not_start(problem) from problem
                except WorkerLost:
                    tries += 1
                with self._lock:
                    self._workers.discard(worker)
                worker = self._start()
        except BaseException:
            self._forget(key)
            raise
        finally:
            self._idle.put(worker)
        # Not remembered: the cause may have been the machine's (memory, a stray signal) and not the sample's.
        self._forget(key)
        return CheckResult(crashed=True)

    def _does_not_start(self, problem: BootFailed) -> RunError:
        return RunError(
            f"The Node worker that compiles and lints does not start ({problem}). If its packages were damaged, "
            f"delete '{self._toolchain}' and run `{SETUP_COMMAND}`."
        )

    def _forget(self, key: bytes) -> None:
        with self._lock:
            self._results.pop(key, None)

    def close(self) -> None:
        """Ends every process and thread; samples still waiting are cancelled. Safe to call twice."""
        with self._lock:
            self._closed = True
            workers, self._workers = self._workers, set()
        self._threads.shutdown(wait=False, cancel_futures=True)
        for worker in workers:
            worker.kill()
        self._threads.shutdown(wait=True)

    def __enter__(self) -> ReactChecker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
