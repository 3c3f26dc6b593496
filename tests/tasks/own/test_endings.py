"""Processes that hang or die, and that end with the pool or with its process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from botgrpo_cli.errors import RunError
from tests.tasks.own.asking import calls, reason, started

HANGS = "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM}); time.sleep(600)"  # as C code that never returns


@pytest.fixture(autouse=True)
def _little_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("botgrpo_cli.tasks.own.pool.GRACE", 0.5)  # on top of the limit, until a process is ended


def ended(pid: int) -> bool:
    """Nothing reaps what an ended process leaves in a container, so a zombie counts."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def wait_for(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 15  # before the watchdog that ends a process in C code
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.mark.parametrize(
    ("ending", "words"),
    [
        ("os._exit(3)", "ended its process (exit code 3) for the prompt 'p2'."),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "ended its process (signal SIGSEGV) for the prompt 'p2'."),
        (HANGS, "did not answer within 0.5 s for the prompt 'p2' and was ended with its process."),
    ],
)
def test_a_lost_process_costs_the_call_that_was_running(tmp_path: Path, ending: str, words: str):
    text = (
        f"ran = open({str(tmp_path / 'ran')!r}, 'ab', 0)\n"
        f"def f(text, level):\n    ran.write(text.encode())\n    if level == 2: {ending}\n    return level / 10\n"
        "def g(text): return 1\n"
    )
    with started(tmp_path, text, timeout=0.5) as pool:
        before = pool.pids
        answers = pool.submit(["f", "g"], calls(0, 1, 2, 3, 4)).result(30)
        assert [answer["g"] for answer in answers] == [1.0] * 5
        assert reason(answers[2]["f"]) == f"sums.py:3: f {words}"
        assert [answers[n]["f"] for n in (0, 1, 3, 4)] == [0.0, 0.1, 0.3, 0.4]
        assert (tmp_path / "ran").read_text() == "01234"  # nothing ran twice
        assert ended(before[0])
        assert pool.pids != before
        assert pool.submit(["f"], calls(4)).result(30) == [{"f": 0.4}]


def test_a_lost_process_costs_a_batch_all_its_completions(tmp_path: Path):
    text = (
        "def f(completions, level):\n    if 2 in level: os._exit(0)\n    return level\n"
        "def g(completions): return [1, 2]\n"
    )
    with started(tmp_path, text) as pool:
        answers = pool.submit(["f", "g"], calls(1, 2)).result(30)
    assert [answer["g"] for answer in answers] == [1.0, 2.0]
    words = "sums.py:2: f ended its process (exit code 0) for 2 completions, one of them for the prompt 'p{}'."
    assert [reason(answer["f"]) for answer in answers] == [words.format(1), words.format(2)]


def test_of_async_functions_only_the_guilty_ones_fail(tmp_path: Path):
    text = (
        "import asyncio\n"
        "async def f(text, level):\n"
        "    await asyncio.sleep(0.05 if level == 0 else 0.01)\n"  # the innocent one comes first and is open yet
        "    if level == 1: os._exit(4)\n"
        f"    if level == 2: {HANGS}\n"
        "    return level / 10\n"
        "async def g(text): return 1\n"
    )
    with started(tmp_path, text, timeout=0.5) as pool:
        answers = pool.submit(["f", "g"], calls(0, 1, 2, 3)).result(30)
    assert [answer["g"] for answer in answers] == [1.0] * 4
    assert (answers[0]["f"], answers[3]["f"]) == (0.0, 0.3)
    assert "ended its process (exit code 4) for the prompt 'p1'" in reason(answers[1]["f"])
    assert "did not answer within 0.5 s for the prompt 'p2'" in reason(answers[2]["f"])


def test_what_a_function_has_started_ends_with_its_process(tmp_path: Path):
    text = (
        "import subprocess\n"
        "def f(text):\n"
        f"    open({str(tmp_path / 'pid')!r}, 'w').write(str(subprocess.Popen(['sleep', '600']).pid))\n"
        "    os._exit(1)\n"
    )
    with started(tmp_path, text) as pool:
        pool.submit(["f"], calls(1)).result(30)
        wait_for(lambda: ended(int((tmp_path / "pid").read_text())))


def test_a_process_that_ends_between_two_requests_costs_nothing(tmp_path: Path):
    with started(tmp_path, "def f(text): return 1\n") as pool:
        (pid,) = pool.pids
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: ended(pid))
        assert pool.submit(["f"], calls(1)).result(30) == [{"f": 1.0}]
        assert pool.pids != [pid]


def test_a_process_that_has_nothing_to_do_closes_its_files(tmp_path: Path):
    text = f"log = open({str(tmp_path / 'log')!r}, 'a')\ndef f(text):\n    log.write(text)\n    return 1\n"
    with started(tmp_path, text, workers=2) as pool:
        pool.submit(["f"], calls(1, 2)).result(30)
    assert sorted((tmp_path / "log").read_text()) == ["1", "2"]


def test_ctrl_c_is_the_parents_business(tmp_path: Path):
    with started(tmp_path, "def f(text): return 1\n") as pool:
        before = pool.pids
        os.kill(before[0], signal.SIGINT)
        assert pool.submit(["f"], calls(1)).result(30) == [{"f": 1.0}]
        assert pool.pids == before


def test_closing_ends_everything_and_tells_who_waits(tmp_path: Path):
    with started(tmp_path, f"def f(text): {HANGS}\n", workers=2, timeout=60) as pool:
        pids = pool.pids
        futures = [pool.submit(["f"], calls(n)) for n in range(4)]
        closers = [threading.Thread(target=pool.close) for _ in range(2)]
        for closer in closers:
            closer.start()
        for closer in closers:
            closer.join(30)
        for future in futures:
            with pytest.raises(RunError, match=r"The functions of sums\.py were closed while completions waited"):
                future.result(30)
        assert all(map(ended, pids))
        with pytest.raises(RunError):
            pool.submit(["f"], calls(1))


PARENT = """
import sys, time
from botgrpo_cli.tasks.own.functions import Call
from botgrpo_cli.tasks.own.pool import FunctionPool

pool = FunctionPool(sys.argv[1], workers=2, timeout=0.3)
pool.submit(["stubborn"], [Call("p", "?", "text")])
print(*pool.pids, flush=True)
time.sleep(600)
"""


def test_children_end_with_a_parent_that_is_killed(tmp_path: Path):
    """One of them waits; the other is in a function that catches everything."""
    spec, busy = tmp_path / "sums.py", tmp_path / "busy"
    spec.write_text(
        "import time\n"
        "def stubborn(text):\n"
        f"    open({str(busy)!r}, 'w').close()\n"
        "    while True:\n"
        "        try:\n"
        "            while True: time.sleep(0.001)\n"
        "        except BaseException: pass\n"
    )
    with subprocess.Popen([sys.executable, "-c", PARENT, str(spec)], stdout=subprocess.PIPE, text=True) as parent:
        pids = [int(word) for word in parent.stdout.readline().split()]
        assert len(pids) == 2
        wait_for(busy.exists)
        parent.kill()
        wait_for(lambda: all(map(ended, pids)))
