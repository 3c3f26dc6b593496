"""What a file says of its functions, and what a child process finds in it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from botgrpo_cli.errors import InputError
from botgrpo_cli.tasks.own.arguments import empty_parameters
from botgrpo_cli.tasks.own.declare import metric, signal, term
from botgrpo_cli.tasks.own.functions import Function
from botgrpo_cli.tasks.own.pool import describe

FORMS = '''\
import functools
from math import sqrt  # public and callable, but not of this file
from botgrpo_cli.tasks.own.declare import metric, signal, term

def solved(text, answer):
    """Whether the answer
    is in the text.

    More about it.
    """
    return float(answer in text)

def lengths(completions, **kwargs):
    return [float(len(c)) for c in completions]

def short(completion_ids, **kwargs):
    return [0.0] * len(completion_ids)

async def asked(text, question=""): ...

@functools.cache
def cached(text): ...

def helper(answer, text): ...
def _hidden(text): ...

class Plain:
    def method(self, text): ...

@term(low=-2)
def wide(text): ...

@term
def bare(completions): ...

@term(low=0, high=1)
def bounded(completions): ...

@metric
@functools.cache
def words(text): ...

@signal("lines")
def doubt(text): ...

@signal(
    "tokens",
    low=None,
)
async def surprise(completions): ...

also_solved = solved
small = term(lambda text: 0.5)
'''


def written(folder: Path, text: str, name: str = "sums.py") -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def refusal(folder: Path, text: str, name: str = "sums.py") -> str:
    with pytest.raises(InputError) as caught:
        describe(written(folder, text, name))
    assert "Traceback" not in str(caught.value)
    return str(caught.value)


def test_decorators_return_the_function_itself():
    def plain(text):
        return 1.0

    def other(text):
        return 1.0

    def third(text):
        return 1.0

    assert term(plain) is plain
    assert signal("steps")(other) is other
    assert metric(third) is third
    assert term(low=0, high=2)(lambda text: 2.0)("any") == 2.0


@pytest.mark.parametrize(
    ("declare", "words"),
    [
        (lambda: signal("line"), "got 'line'. Did you mean 'lines'?"),
        (lambda: signal(len), "without brackets"),
        (lambda: term(low=1, high=0), "low of @term is 1 and high 0; expected low < high."),
        (lambda: term(high=float("nan")), "high of @term is nan"),
        (lambda: signal("lines", low="0"), "low of @signal is '0'"),
        (lambda: metric(3), "@metric stands above a function; got 3."),
        (lambda: metric(term(lambda text: 1)), "expected one"),
    ],
)
def test_what_a_decorator_refuses(declare, words):
    with pytest.raises(InputError) as caught:
        declare()
    assert words in str(caught.value)


def test_every_form_of_function_is_found(tmp_path: Path):
    found = describe(written(tmp_path, FORMS))
    assert found.functions == {
        function.name: function
        for function in (
            Function("solved", "term", None, False, 0, 1, "Whether the answer is in the text.", "sums.py:5"),
            Function("lengths", "term", None, True, None, None, "", "sums.py:13"),
            Function("short", "term", None, True, None, None, "", "sums.py:16"),
            Function("asked", "term", None, False, 0, 1, "", "sums.py:19"),
            Function("cached", "term", None, False, 0, 1, "", "sums.py:22"),
            Function("wide", "term", None, False, -2, 1, "", "sums.py:31"),
            Function("bare", "term", None, True, None, None, "", "sums.py:34"),
            Function("bounded", "term", None, True, 0, 1, "", "sums.py:37"),
            Function("words", "metric", None, False, None, None, "", "sums.py:41"),
            Function("doubt", "signal", "lines", False, -1, 1, "", "sums.py:44"),
            Function("surprise", "signal", "tokens", True, None, 1, "", "sums.py:50"),
            Function("small", "term", None, False, 0, 1, "", "sums.py:53"),
        )
    }
    assert found.concurrent == {"asked"}
    assert found.required["solved"] == ("answer",)
    assert found.required["asked"] == found.required["lengths"] == ()
    assert found.tasks == found.files == ()


def test_modules_beside_the_file_are_imported_and_named(tmp_path: Path):
    (tmp_path / "tools" / "site-packages").mkdir(parents=True)
    (tmp_path / "tools" / "__init__.py").write_text("")
    (tmp_path / "tools" / "parse.py").write_text("VALUE = 0.5")
    (tmp_path / "shared.py").write_text(
        "from botgrpo_cli.tasks.own.declare import term\n@term\ndef declared(text): ...\ndef plain(text): ..."
    )
    (tmp_path / "unused.py").write_text("")
    found = describe(
        written(tmp_path, "from tools.parse import VALUE\nfrom shared import declared, plain\ndef solved(text): ...")
    )
    assert list(found.functions) == ["declared", "solved"]  # a decorator counts wherever it stands
    assert found.functions["declared"].place == "shared.py:3"
    expected = ["shared.py", "tools/__init__.py", "tools/parse.py"]
    assert found.files == tuple(str(tmp_path.resolve() / name) for name in expected)
    assert sorted(found.versions) == ["shared.py", "sums.py", *expected[1:]]
    assert all(digest.startswith("sha256:") for digest in found.versions.values())


def test_a_task_class_is_named_and_needs_no_functions(tmp_path: Path):
    text = "from botgrpo_cli.tasks.base import Task\nclass Sums(Task): ...\nclass Harder(Sums): ...\nclass Other: ..."
    assert describe(written(tmp_path, text)).tasks == ("Sums", "Harder")


def test_a_file_may_have_the_name_of_a_module_of_python(tmp_path: Path):
    text = "import sys\nassert sys.modules['json'].dumps\ndef solved(text): ..."
    assert list(describe(written(tmp_path, text, "json.py")).functions) == ["solved"]
    (tmp_path / "here").mkdir()
    os.link(tmp_path / "json.py", tmp_path / "here" / "socket.py")
    before = Path.cwd()
    try:
        os.chdir(tmp_path / "here")  # the current folder is no place for the child's own imports
        assert list(describe("socket.py").functions) == ["solved"]
    finally:
        os.chdir(before)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("import math\n\nimport numpyy\n", "sums.py:3: ModuleNotFoundError: No module named 'numpyy'."),
        ("def solved(text)\n    pass\n", "sums.py:1: SyntaxError: expected ':'."),
        ("def f():\n    return 1 / 0\n\nf()\n", "sums.py:2: ZeroDivisionError: division by zero."),
        (
            "from botgrpo_cli.tasks.own.declare import signal\n@signal('word')\ndef f(text): ...\n",
            "sums.py:2: @signal takes one of 'characters', 'lines', 'steps', 'tokens'; got 'word'.",
        ),
        (
            "from botgrpo_cli.tasks.own.declare import term\n\n@term\ndef solved(answer): ...\n",
            "sums.py:4: solved(answer) is under @term; expected 'text' as its first parameter, or 'completions' for "
            "all of them in one call.",
        ),
        (
            "def solved(completion, answer): ...\n",
            "sums.py has no function to call. Expected a public function with 'text' as its first parameter, or "
            "'completions' for all of them in one call; or one under @term, @signal or @metric of botgrpo_cli. It has "
            "solved(completion, answer).",
        ),
        (
            "import sys\nsys.exit('usage')\n",
            "sums.py:2: SystemExit: usage; it ends when it is imported. Put what it runs under "
            "`if __name__ == '__main__':`.",
        ),
        ("import os\nos._exit(3)\n", "sums.py ended its process (exit code 3) while it was loaded."),
        ("\0", "SyntaxError"),
    ],
)
def test_what_a_file_has_wrong_is_one_sentence_with_its_line(tmp_path: Path, text: str, sentence: str):
    assert sentence in refusal(tmp_path, text)


def test_an_error_in_a_module_beside_the_file_names_both_places(tmp_path: Path):
    (tmp_path / "helpers.py").write_text("\n\nraise ValueError('no data')\n")
    assert refusal(tmp_path, "import os\nimport helpers\n") == "sums.py:2: ValueError: no data (helpers.py:3)."
    (tmp_path / "helpers.py").write_text("a = (\n")
    assert refusal(tmp_path, "import helpers  # \n") == "sums.py:1: SyntaxError: '(' was never closed (helpers.py:1)."


def test_what_is_no_file_of_functions(tmp_path: Path):
    with pytest.raises(InputError, match=r"none\.py is no Python file that exists"):
        describe(str(tmp_path / "none.py"))
    with pytest.raises(InputError, match=r"ends in \.py"):
        describe(written(tmp_path, "", "sums.txt"))
    with pytest.raises(InputError, match=r"sums\.py takes no options; got size\."):
        describe(written(tmp_path, "def solved(text): ..."), {"size": 3})
    with pytest.raises(InputError, match="reasoning-gym"):
        describe("reasoning-gym:no_such_thing")


def test_a_description_is_remembered_until_the_file_changes(tmp_path: Path):
    spec = written(tmp_path, "import os\nopen('loads', 'a').write('x')\ndef one(text): ...")
    before = Path.cwd()
    try:
        os.chdir(tmp_path)
        assert describe(spec) is describe("sums.py")
        assert Path("loads").read_text() == "x"
        written(tmp_path, "def two(text): ...")
        assert list(describe(spec).functions) == ["two"]
    finally:
        os.chdir(before)


def test_parameters_that_no_column_fills_are_found_before_anything_runs(tmp_path: Path):
    found = describe(
        written(
            tmp_path,
            "def one(text, anser, prompt, steps, level=1): ...\n"
            "def many(completions, prompts, prompt, log_metric): ...\n"
            "def free(text, **rest): ...\n",
        )
    )
    assert empty_parameters(found, ["one", "many", "free"], ["prompt", "answer"]) == [
        "sums.py:1: one takes 'anser', which is no column of the data. Its columns are prompt and answer; built in "
        "are prompt, prompt_id, finished, tokens and steps. Did you mean 'answer'?",
        "sums.py:2: many takes 'prompt', which is no column of the data. Its columns are answer; built in are "
        "prompts, completions, completion_ids, trainer_state, log_extra, log_metric, prompt_id, finished, tokens and "
        "steps. Did you mean 'prompts'?",
    ]
    assert empty_parameters(found, ["one"], ["anser"]) == []
