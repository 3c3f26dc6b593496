"""The processes: who gets what, in which order, with which surroundings, and from which sources."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from botgrpo_cli.errors import InputError, RunError
from botgrpo_cli.tasks.own.pool import FunctionPool
from tests.tasks.own.asking import calls, reason, started

# A function that goes on once `count` processes have come to it, so that each of them has taken something.
MEET = """
from botgrpo_cli.tasks.own.declare import metric

def meet(count):
    here = os.path.dirname(os.path.abspath(__file__))
    open(os.path.join(here, f"at-{os.getpid()}"), "w").close()
    while sum(name.startswith("at-") for name in os.listdir(here)) < count:
        time.sleep(0.002)
"""


def test_neighbours_share_a_process_and_a_batch_has_all_calls_in_the_first(tmp_path: Path):
    text = (
        f"{MEET}\n"
        "@metric\ndef process(text):\n    meet(3)\n    return os.getpid()\n"
        "def all_of_them(completions, level):\n"
        "    assert level == list(range(7)), level\n"
        "    return [os.getpid()] * len(completions)\n"
    )
    with started(tmp_path, text, workers=3) as pool:
        first, *_ = pids = pool.pids
        answers = pool.submit(["process", "all_of_them"], calls(*range(7))).result(30)
        assert [list(answer) for answer in answers] == [["process", "all_of_them"]] * 7
        assert [answer["all_of_them"] for answer in answers] == [first] * 7
        found = [answer["process"] for answer in answers]
        assert found == [found[0]] * 3 + [found[3]] * 2 + [found[5]] * 2
        assert set(found) == set(pids)
        assert pool.submit([], calls(1, 2)).result(0) == [{}, {}]
        assert pool.submit(["process"], []).result(0) == []


def test_single_calls_use_every_process(tmp_path: Path):
    text = f"{MEET}\n@metric\ndef process(text):\n    meet(2)\n    return os.getpid()\n"
    with started(tmp_path, text, workers=2) as pool:
        futures = [pool.submit(["process"], calls(n)) for n in range(2)]
        assert {future.result(30)[0]["process"] for future in futures} == set(pool.pids)


def test_submit_does_not_wait_and_serves_several_threads(tmp_path: Path):
    text = (
        "def slow(text, level):\n"
        f"    while not os.path.exists({str(tmp_path / 'go')!r}): time.sleep(0.002)\n"
        "    return level / 10\n"
    )
    found: dict[int, float] = {}
    with started(tmp_path, text) as pool:

        def ask(level: int) -> None:
            found[level] = pool.submit(["slow"], calls(level)).result(30)[0]["slow"]

        future = pool.submit(["slow"], calls(1, 2, 3))
        threads = [threading.Thread(target=ask, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        assert not future.done()
        (tmp_path / "go").touch()
        for thread in threads:
            thread.join()
        assert found == {0: 0.0, 1: 0.1, 2: 0.2, 3: 0.3}
        assert [answer["slow"] for answer in future.result(30)] == [0.1, 0.2, 0.3]


def test_prints_go_to_standard_error_and_there_is_no_input(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    text = (
        "import sys\n"
        "print('loading')\n"
        "def f(text):\n"
        "    print('calling', text)\n"
        "    os.write(1, b'raw\\n')\n"
        "    return float(sys.stdin.read() == '')\n"
    )
    (tmp_path / "input").write_text("for this process alone")
    kept = os.dup(0)
    try:
        with open(tmp_path / "input") as given:
            os.dup2(given.fileno(), 0)
        with started(tmp_path, text) as pool:
            assert pool.submit(["f"], calls(7)).result(30) == [{"f": 1.0}]
    finally:
        os.dup2(kept, 0)
        os.close(kept)
    out, err = capfd.readouterr()
    assert out == ""
    assert err == "loading\ncalling 7\nraw\n"


def test_environment_and_folder_are_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OWN_VALUE", "0.25")
    text = f"def f(text): return float(os.environ['OWN_VALUE'])\ndef g(text): return os.getcwd() == {os.getcwd()!r}\n"
    with started(tmp_path, text) as pool:
        assert pool.submit(["f", "g"], calls(1)).result(30) == [{"f": 0.25, "g": 1.0}]


def test_an_edit_during_a_run_stops_it(tmp_path: Path):
    text = "def f(text, level):\n    if level == 2: os._exit(1)\n    return 1\n"
    with started(tmp_path, text) as pool:
        (tmp_path / "sums.py").write_text("def f(text, level): return 0\n")
        assert pool.submit(["f"], calls(1)).result(30) == [{"f": 1.0}]  # the process has the old one
        with pytest.raises(RunError, match=r"sums\.py was edited since the run started"):
            pool.submit(["f"], calls(2, 3)).result(30)
        (tmp_path / "sums.py").write_text("def f(text, level) return 0\n")
        with pytest.raises(RunError, match=r"sums\.py:1: SyntaxError"):
            pool.submit(["f"], calls(3)).result(30)


def test_a_file_that_is_wrong_starts_nothing(tmp_path: Path):
    with pytest.raises(InputError, match=r"sums\.py:2: ModuleNotFoundError"), started(tmp_path, "import numpyy\n"):
        pass
    with started(tmp_path, "def solved(text): return 1\n") as pool:
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
import botgrpo_cli.tasks.own
botgrpo_cli.tasks.own.verifiers_source = module
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
