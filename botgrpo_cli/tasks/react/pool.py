"""A pool of Node processes. They boot once, answer one request at a time, and may die.

A sample that kills its process or runs out of time is tried once more in a fresh one; after that it is given up and
the batch goes on.
"""

from __future__ import annotations

import hashlib
import queue
import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, Self, TypeVar

from botgrpo_cli.errors import RunError
from botgrpo_cli.tasks.react.process import BootFailed, NodeProcess, WorkerLost

TRIES = 2  # of a sample, and of starting a process

Result = TypeVar("Result")


class NodePool(ABC, Generic[Result]):
    """`size` processes, started at once by `begin`; results are remembered by the hash of the request.

    Use it as a context manager, or call `close`.
    """

    title = "Node pool"  # in errors

    def __init__(self, size: int, remembered: int) -> None:
        self._remembered = remembered
        self._lock = threading.Lock()
        self._closed = False
        self._results: OrderedDict[bytes, Future[Result]] = OrderedDict()
        self._processes: set[NodeProcess] = set()
        self._idle: queue.SimpleQueue[NodeProcess] = queue.SimpleQueue()
        self._size = size
        self._threads = ThreadPoolExecutor(size, thread_name_prefix=self.title.replace(" ", "-"))

    @abstractmethod
    def _spawn(self) -> NodeProcess: ...

    @abstractmethod
    def _ask(self, process: NodeProcess, code: str, language: str) -> Result: ...

    @abstractmethod
    def _given_up(self) -> Result:
        """The result of a sample that was lost `TRIES` times."""

    @abstractmethod
    def _does_not_start(self, problem: BootFailed) -> RunError: ...

    def _worth_keeping(self, result: Result) -> bool:
        return True

    def begin(self) -> None:
        for _ in range(self._size):
            self._idle.put(self._start())

    @property
    def pids(self) -> list[int]:
        """Process ids of the processes that are alive, which are also the ids of their process groups."""
        with self._lock:
            return sorted(process.pid for process in self._processes)

    def _submit(self, code: str, language: str) -> Future[Result]:
        key = hashlib.sha256(f"{language}\n{code}".encode("utf-8", "surrogatepass")).digest()
        with self._lock:
            if key in self._results:
                self._results.move_to_end(key)
                return self._results[key]
            future = self._threads.submit(self._work, key, code, language)
            self._results[key] = future
            if len(self._results) > self._remembered:
                self._results.popitem(last=False)
            return future

    def _start(self) -> NodeProcess:
        with self._lock:
            if self._closed:
                raise RunError(f"The {self.title} was closed while samples were waiting.")
            process = self._spawn()
            self._processes.add(process)
            return process

    def _work(self, key: bytes, code: str, language: str) -> Result:
        process = self._idle.get()
        try:
            tries = boots = 0
            while tries < TRIES:
                try:
                    result = self._ask(process, code, language)
                    if not self._worth_keeping(result):
                        self._forget(key)
                    return result
                except BootFailed as problem:
                    boots += 1
                    if boots == TRIES:
                        raise self._does_not_start(problem) from problem
                except WorkerLost:
                    tries += 1
                with self._lock:
                    self._processes.discard(process)
                process = self._start()
        except BaseException:
            self._forget(key)
            raise
        finally:
            self._idle.put(process)
        # Not remembered: the cause may have been the machine's (memory, a stray signal) and not the sample's.
        self._forget(key)
        return self._given_up()

    def _forget(self, key: bytes) -> None:
        with self._lock:
            self._results.pop(key, None)

    def close(self) -> None:
        """Ends every process and thread; samples still waiting are cancelled. Safe to call twice."""
        with self._lock:
            self._closed = True
            processes, self._processes = self._processes, set()
        self._threads.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.kill()
        self._threads.shutdown(wait=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
