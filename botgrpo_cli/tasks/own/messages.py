"""What the parent and the child that calls the functions say to each other, and how.

Messages are pickles with their length in front, over a socket that is neither's standard input or output: whatever the
functions print goes elsewhere.
"""

from __future__ import annotations

import contextlib
import pickle
import socket
import struct
import time
from dataclasses import dataclass, field
from typing import Any, Literal

from botgrpo_cli.tasks.own.functions import Call, Failure, Function

_LENGTH = struct.Struct("!Q")

# How pairs of a job are called: one after the other, all at once (async functions), or in one call (batch form).
Mode = Literal["each", "together", "batch"]
Pair = tuple[str, int]  # name of a function, index of a call


@dataclass(frozen=True)
class Description:
    """What a source holds, as the child reports it when it has loaded it."""

    functions: dict[str, Function]
    versions: dict[str, str]  # of the source; a file's own digest and those of `files`
    required: dict[str, tuple[str, ...]] = field(default_factory=dict)  # parameters that only columns can fill
    asked: dict[str, tuple[str, ...]] = field(default_factory=dict)  # "tokens" and "steps" where a function names them
    concurrent: frozenset[str] = frozenset()  # async functions of one completion
    tasks: tuple[str, ...] = ()  # classes of the file that are a Task of botgrpo
    files: tuple[str, ...] = ()  # of the modules that the file imported from its own folder


@dataclass(frozen=True)
class Job:
    """Pairs of one mode; those of a batch have one function."""

    mode: Mode
    pairs: tuple[Pair, ...]


@dataclass(frozen=True)
class Work:
    """A request: jobs to do in order, on these calls. Answers come as lists of (name, index, answer), then "done"."""

    jobs: tuple[Job, ...]
    calls: list[Call]
    timeout: float  # seconds a call
    trainer_state: dict[str, Any]


class Channel:
    """One end of the socket. The other end is trusted as much as the code it runs."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._buffer = bytearray()

    def send(self, message: Any, timeout: float | None = None) -> None:
        """Raises OSError when the other end is gone, TimeoutError after `timeout` seconds."""
        data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
        self._limit(timeout)
        self._socket.sendall(_LENGTH.pack(len(data)) + data)

    def receive(self, timeout: float | None = None) -> Any:
        """The next message. Raises OSError when the other end is gone, TimeoutError after `timeout` seconds."""
        deadline = None if timeout is None else time.monotonic() + timeout
        self._fill(_LENGTH.size, deadline)
        (length,) = _LENGTH.unpack_from(self._buffer)
        end = _LENGTH.size + length
        self._fill(end, deadline)
        message = pickle.loads(memoryview(self._buffer)[_LENGTH.size : end])
        del self._buffer[:end]
        return message

    def _fill(self, size: int, deadline: float | None) -> None:
        while len(self._buffer) < size:
            self._limit(None if deadline is None else max(0.001, deadline - time.monotonic()))
            chunk = self._socket.recv(1 << 18)
            if not chunk:
                raise ConnectionError("the other end is closed")
            self._buffer += chunk

    def _limit(self, timeout: float | None) -> None:
        if timeout != self._socket.gettimeout():  # a system call saved for each answer
            self._socket.settimeout(timeout)

    def ended(self) -> bool:
        """Whether the other end is closed, without waiting; for who expects no message at the moment."""
        try:
            self._socket.settimeout(0)
            return not self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def hang_up(self) -> None:
        """The end of the conversation for both sides; wakes a thread that waits in `receive`, too."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.hang_up()
        self._socket.close()


def blame(function: Function, call: Call, what: str, then: str = "", *, of: int | None = None) -> Failure:
    """The sentence about one call that failed; `of`: it was one of so many in one call.

    >>> solved = Function("solved", "term", place="sums.py:12")
    >>> blame(solved, Call("p3", "1 + 1?", "3"), "gave 1.7", "; expected a number from 0 to 1").reason
    "sums.py:12: solved gave 1.7 for the prompt 'p3'; expected a number from 0 to 1."
    """
    subject = f"{function.place}: {function.name}" if function.place else function.name
    whom = f"the prompt {call.prompt_id!r}"
    if of is not None:
        whom = f"{of} completions, one of them for {whom}"
    return Failure(f"{subject} {what} for {whom}{then}.")
