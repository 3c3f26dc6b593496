"""A task owns everything that is its own: no other room names one, and what a task does not say has a default."""

from __future__ import annotations

import re
from concurrent.futures import Future
from pathlib import Path

import pytest

from botgrpo_cli.errors import InputError
from botgrpo_cli.recipe.load import load_recipe
from botgrpo_cli.studies.shipped import study_names
from botgrpo_cli.tasks import registry
from botgrpo_cli.tasks.base import Completion, Prompt, Scored, Task
from botgrpo_cli.tasks.registry import SHIPPED, find_task, make_task, task_of

PACKAGE = Path(registry.__file__).parents[1]
ROOMS = ("recipe", "studies", "training", "judges", "winrate", "export", "commands")


def test_no_room_but_the_tasks_own_names_a_task():
    word = re.compile(rf"\b({'|'.join(SHIPPED)})\b", re.IGNORECASE)
    listed = {f'"{name}",' for name in study_names()}  # studies are named after what they are about
    found = [
        f"{path.relative_to(PACKAGE)}:{number}: {line.strip()}"
        for room in ROOMS
        for path in sorted((PACKAGE / room).rglob("*.py"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if word.search(line) and line.strip() not in listed
    ]
    assert found == []
    assert len(list((PACKAGE / "recipe").glob("*.py"))) > 5, "else this test looks at nothing"


class Echo(Task):
    """The least that a task has."""

    name, headline = "echo", "right"

    def prompts(self, split):
        return [Prompt(f"{split}-{n}", f"Say {n}.", "easy") for n in range(12)]

    def submit(self, completion: Completion) -> Future[Scored]:
        right = float("1" in completion.text)
        future: Future[Scored] = Future()
        metrics = {"right": right, "truncated": float(not completion.finished), "length": float(len(completion.ids))}
        future.set_result(Scored(right, [0.0] * len(completion.pieces), {"right": right}, metrics))
        return future


def test_what_a_task_does_not_say_has_a_default():
    recipe = load_recipe("react_qwen").recipe
    assert (list(Echo.clashes(recipe)), Echo.counts(recipe), Echo.metrics(recipe), Echo.pass_at) == ([], None, None, ())
    assert (list(Echo.needs(recipe)), Echo.asks(recipe), list(Echo.findings()), list(Echo.parts())) == ([], {}, [], [])
    assert Echo.for_evaluation(recipe) is recipe
    with pytest.raises(InputError, match=r"task 'echo' can't be compared pair by pair. `botgrpo evaluate`"):
        Echo.comparison(recipe)
    with Echo.start(recipe, print) as task:
        assert task.provenance() == {"heuristic": [], "simulated": []}


def test_a_prompt_is_a_chat_of_one_message_unless_it_says_more():
    assert Prompt("p", "Hi.", "easy").messages == [{"role": "user", "content": "Hi."}]
    chat = ({"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi."})
    prompt = Prompt("p", "Hi.", "easy", chat=chat, columns={"a": [1]})
    assert prompt.messages == list(chat)
    assert len({prompt, prompt}) == 1, "prompts can be kept in sets, whatever their columns hold"


@pytest.mark.parametrize("name", [*SHIPPED, "./mine.py"])
def test_tasks_are_found_by_name_or_path(tmp_path, name):
    (tmp_path / "mine.py").write_text("def good(text): return 1.0\n")
    found, known_as = find_task(name, tmp_path)
    assert issubclass(found, Task)
    assert known_as == (str(tmp_path / "mine.py") if name.startswith(".") else name)
    assert find_task(known_as)[0] is found, "asked for again it is the same class"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("reactt", "Did you mean 'react'?"),
        ("mine", "Did you mean './mine.py'?"),
        ("./mime.py", "there is no file .*Did you mean 'mine.py'?"),
        ("verifierz:gsm8k", "expected react, aime, a Python file"),
    ],
)
def test_a_name_that_means_nothing(tmp_path, name, says):
    (tmp_path / "mine.py").write_text("def good(text): return 1.0\n")
    with pytest.raises(InputError, match=says):
        find_task(name, tmp_path)


MINE = '''
from tests.tasks.test_protocol import Echo
from botgrpo_cli.recipe.section import TaskSection


class Keys(TaskSection):
    loud: bool = False
    """Whether it shouts."""


class Shout(Echo):
    name, keys = 'shout', Keys
'''


def test_a_class_in_a_file_has_its_own_keys(tmp_path):
    (tmp_path / "shout.py").write_text(MINE)
    (tmp_path / "r.yaml").write_text("task: {name: ./shout.py, loud: true}\nevaluation: {prompts: 12}\n")
    recipe = load_recipe(tmp_path / "r.yaml").recipe
    assert (task_of(recipe).__name__, recipe.task.loud) == ("Shout", True)
    with make_task(recipe) as task:
        assert (task.name, len(task.prompts("train"))) == ("shout", 12)
    (tmp_path / "r.yaml").write_text("task: {name: ./shout.py, lout: true}\n")
    with pytest.raises(InputError, match=r"r\.yaml:1: task\.lout: Found an unknown key; .*Did you mean 'loud'\?"):
        load_recipe(tmp_path / "r.yaml")


class Point:
    """An entry point of an installed package."""

    name, value, dist = "plugged", "package:Task", None

    def __init__(self, target):
        self.target = target

    def load(self):
        if isinstance(self.target, Exception):
            raise self.target
        return self.target


@pytest.mark.parametrize(
    ("target", "says"),
    [
        (Echo, None),
        (ImportError("no torch"), r"can't be loaded: ImportError\('no torch'\)"),
        (dict, "expected a class"),
    ],
)
def test_a_plugin_is_named_by_its_entry_point(monkeypatch, target, says):
    monkeypatch.setattr(registry, "entry_points", lambda group: [Point(target)])
    assert registry.task_names() == ["react", "aime", "plugged"]
    if says is None:
        assert find_task("plugged") == (Echo, "plugged")
        return
    with pytest.raises(InputError, match=says):
        find_task("plugged")
