"""The processes: who gets what, in which order, with which surroundings, and from which sources."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from botgrpo_cli.errors import InputError, RunError
from botgrpo_cli.tasks.own.pool import FunctionPool
from tests.tasks.own.asking import calls, reason


def test_neighbours_share_a_process_and_a_batch_has_all_calls_in_the_first(start):
    pool = start(
        "seen = []\n"
        "def one(text, level):\n    time.sleep(0.02); seen.append(level); return 0.5\n"
        "def order(text):\n    return seen.index(int(text)) / 10\n"
        "def count(completions, level):\n    return [len(completions)] * len(completions)\n"
        "def process(completions):\n    return [os.getpid()] * len(completions)\n",
        workers=3,
    )
    many = calls(*range(7))
    first = pool.pids[0]
    answers = pool.submit(["one", "count", "process"], many).result(30)
    assert [list(answer) for answer in answers] == [["one", "count", "process"]] * 7
    assert answers == [{"one": 0.5, "count": 7.0, "process": first}] * 7
    assert len(pool.pids) == 3
    assert pool.submit([], many).result(0) == [{}] * 7
    assert pool.submit(["one"], []).result(0) == []


def test_single_calls_use_every_process(start):
    pool = start("@__import__('botgrpo_cli.tasks.own.declare').tasks.own.declare.metric\ndef pid(text):\n"
                 "    time.sleep(0.05); return os.getpid()\n", workers=2)  # fmt: skip
    futures = [pool.submit(["pid"], calls(n)) for n in range(6)]
    assert {future.result(30)[0]["pid"] for future in futures} == set(pool.pids)


def test_submit_returns_at_once_and_works_from_several_threads(start):
    pool = start("def slow(text, level):\n    time.sleep(0.1); return level / 10\n")
    before = time.monotonic()
    future = pool.submit(["slow"], calls(1, 2, 3))
    assert not future.done()
    assert time.monotonic() - before < 0.25  # the calls take 0.3 s
    found: dict[int, float] = {}

    def ask(level: int) -> None:
        found[level] = pool.submit(["slow"], calls(level)).result(30)[0]["slow"]

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {0: 0.0, 1: 0.1, 2: 0.2, 3: 0.3}
    assert [answer["slow"] for answer in future.result(30)] == [0.1, 0.2, 0.3]


def test_prints_go_to_standard_error_and_input_is_empty(start, capfd: pytest.CaptureFixture[str]):
    pool = start("print('loading')\ndef f(text):\n    print('calling', text, len(input.__doc__) > 0)\n"
                 "    os.write(1, b'raw\\n')\n    import sys\n    return float(sys.stdin.read() == '')\n")  # fmt: skip
    assert pool.submit(["f"], calls(7)).result(30) == [{"f": 1.0}]
    out, err = capfd.readouterr()
    assert out == ""
    assert err == "loading\ncalling 7 True\nraw\n"


def test_environment_and_folder_are_passed_on(start, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OWN_VALUE", "0.25")
    pool = start("here = os.getcwd()\ndef f(text): return float(os.environ['OWN_VALUE'])\n"
                 f"def g(text): return here == {os.getcwd()!r}\n")  # fmt: skip
    assert pool.submit(["f", "g"], calls(1)).result(30) == [{"f": 0.25, "g": 1.0}]


def test_an_edit_during_a_run_stops_it(start, tmp_path: Path):
    pool = start("def f(text, level):\n    if level == 2: os._exit(1)\n    return 1\n")
    (tmp_path / "sums.py").write_text("def f(text, level): return 0\n")
    assert pool.submit(["f"], calls(1)).result(30) == [{"f": 1.0}]  # the process has the old one
    with pytest.raises(RunError, match=r"sums\.py was edited since the run started"):
        pool.submit(["f"], calls(2, 3)).result(30)
    (tmp_path / "sums.py").write_text("def f(text, level) return 0\n")
    with pytest.raises(RunError, match=r"sums\.py:1: SyntaxError"):
        pool.submit(["f"], calls(3)).result(30)


def test_a_file_that_is_wrong_starts_nothing(start):
    with pytest.raises(InputError, match=r"sums\.py:2: ModuleNotFoundError"):
        start("import numpyy\n", workers=2)
    pool = start("def solved(text): return 1\n")
    with pytest.raises(InputError, match=r"sums\.py has no function 'solve'\. Did you mean 'solved'\?"):
        pool.submit(["solve"], calls(1))
    assert pool.rows() is None


# A source of a library's, in the place of the module that reads it.
LIBRARY = """
import sys, types
from botgrpo_cli.tasks.own.functions import Function

class Environment:
    versions = {"verifiers": "1.2"}

    def __init__(self, name, options):
        self.rows_of = {"train": [{"prompt": name, "level": n} for n in range(options["size"])]}
        place = f"verifiers:{name}"
        self.functions = {
            "reward": (Function("reward", "term", weight=0.5, place=place), lambda text, **columns: columns["level"]),
            "odd": (Function("odd", "term", low=0, high=1, place=place), lambda text: 2),
        }

    def rows(self):
        if not self.rows_of["train"]:
            raise KeyError("nothing")
        return self.rows_of

module = types.ModuleType("verifiers_source")
module.load = Environment
sys.modules["botgrpo_cli.tasks.own.verifiers_source"] = module
"""


def test_a_library_gives_functions_and_prompts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "sitecustomize.py").write_text(LIBRARY)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with FunctionPool("verifiers:sums", options={"size": 2}) as pool:
        assert pool.describe().versions == {"verifiers": "1.2"}
        assert pool.describe().functions["reward"].weight == 0.5
        assert pool.rows() == {"train": [{"prompt": "sums", "level": 0}, {"prompt": "sums", "level": 1}]}
        (answer,) = pool.submit(["reward", "odd"], calls(3)).result(30)
    assert answer["reward"] == 3.0
    sentence = "verifiers:sums: odd gave 2 for the prompt 'p3'; expected a number from 0 to 1."
    assert reason(answer["odd"]) == sentence
    with (
        FunctionPool("verifiers:sums", options={"size": 0}) as pool,
        pytest.raises(InputError, match="verifiers:sums could not give its prompts: KeyError: 'nothing'"),
    ):
        pool.rows()
    with pytest.raises(InputError, match="verifiers:sums could not be loaded: KeyError: 'size'"):
        FunctionPool("verifiers:sums")
