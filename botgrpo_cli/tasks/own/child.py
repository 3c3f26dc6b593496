"""The child process: loads what a recipe names, says what it has found, then does what it is asked for.

Its arguments, see `process`: the number of an open socket, what to load (`discover.load`), the options of that in JSON.
"""

from __future__ import annotations

import faulthandler
import json
import os
import pickle
import signal
import socket
import sys
from typing import Any, NoReturn

from botgrpo_cli.errors import InputError
from botgrpo_cli.tasks.own.discover import Loaded, load, worded
from botgrpo_cli.tasks.own.limits import GRACE
from botgrpo_cli.tasks.own.messages import Channel, Work
from botgrpo_cli.tasks.own.worker import Worker


def main() -> NoReturn:
    number, spec, options = sys.argv[1:]
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent
    end = socket.socket(fileno=int(number))
    end.set_inheritable(False)  # else a process that a function starts would keep it open
    sys.stdout.reconfigure(line_buffering=True)  # nothing that was printed is lost when a call ends the process
    channel = Channel(end)
    try:
        loaded = load(spec, json.loads(options))
    except InputError as problem:
        _say(channel, ("problem", str(problem)))
        _leave()
    _say(channel, ("description", loaded.description))
    worker = Worker(loaded.bound, loaded.folder, lambda answers: _say(channel, answers))
    while True:
        try:
            request = channel.receive()
        except OSError:
            _leave()  # the parent is gone, or has no more use for this process
        if isinstance(request, Work):
            worker.do(request)
            _say(channel, "done")
        else:
            _say(channel, _rows(loaded, spec))


def _rows(loaded: Loaded, spec: str) -> tuple[str, Any]:
    try:
        rows = loaded.source.rows()
        pickle.dumps(rows)  # here a value that can't be sent still has a name
        return "rows", rows
    except InputError as problem:
        return "problem", str(problem)
    except BaseException as problem:
        return "problem", f"{spec} could not give its prompts: {worded(problem)}."


def _say(channel: Channel, message: Any) -> None:
    try:
        channel.send(message)
    except BaseException:  # half a message may have been sent; nothing that follows could be understood
        os._exit(1)


def _leave() -> NoReturn:
    """As any program does, so that files get their last lines; but threads of functions that never end don't matter."""
    faulthandler.dump_traceback_later(10 * GRACE, exit=True, file=os.open(os.devnull, os.O_WRONLY))
    sys.exit()
