from __future__ import annotations

import pytest

from botgrpo_cli.errors import InputError
from botgrpo_cli.futures import ready
from botgrpo_cli.judges.pairwise import Choice
from botgrpo_cli.tasks.base import Scored
from botgrpo_cli.tasks.react.compare import AppComparison
from botgrpo_cli.winrate import run as library
from botgrpo_cli.winrate.sides import FolderSide, find_sides, shared_prompts, shared_steps
from botgrpo_cli.winrate.tables import read_table
from tests.recipes import ReactRecipe
from tests.winrate.pages import StandIn


class Constant:
    """A judge of sources that says the same whatever it is shown, or what `knows` finds better."""

    looks, shown, label = False, "sources", "constant"

    def __init__(self, pick=None, knows=None):
        self.pick, self.knows, self.asked = pick, knows, []

    def submit(self, prompt, first, second, *, round):
        self.asked.append((prompt.id, first.code, second.code, round))
        pick = self.pick or ("first" if self.knows in first.code else "second")
        return ready(Choice(pick, "ok"))

    def counters(self):
        return {}

    def describe(self):
        return {"kind": self.label}

    def close(self):
        pass


class Quiet:
    def sampling(self, side, step, total):
        return lambda: None

    def judging(self, steps, total):
        return lambda _: None

    def judged(self, steps, found):
        pass


def contest(tmp_path, a, b, steps, judge):
    return library.win_rates(a, b, steps, shared_prompts(a, b), judge, None, tmp_path, Quiet())


def test_a_judge_that_always_says_first_gives_exactly_one_half(tmp_path):
    for pick in ("first", "second", "tie"):
        judge = Constant(pick)
        [rate] = contest(tmp_path, StandIn("a"), StandIn("b"), [(None, None)], judge).rates
        assert rate.rate.mean == 0.5
        assert (rate.win, rate.tie, rate.loss) == (0.0, 1.0, 0.0)
        assert rate.first_position_rate == {"first": 1.0, "second": 0.0, "tie": None}[pick]
        assert len(judge.asked) == 3 * 4


def test_the_two_orders_give_w_and_one_minus_w(tmp_path):
    judge = Constant(knows="p2")  # a judge that prefers an app for reasons of its own
    a, b = StandIn("a"), StandIn("b")
    judge.knows = "code of a None"
    [there] = contest(tmp_path, a, b, [(None, None)], judge).rates
    [back] = contest(tmp_path, b, a, [(None, None)], judge).rates
    assert there.rate.mean == 1.0
    assert back.rate.mean == 0.0


def test_what_has_no_steps_is_asked_once_and_every_step_gets_a_row(tmp_path):
    a, b = StandIn("a", steps=(10, 20), method="bot-grpo"), StandIn("b", method="grpo")
    found = contest(tmp_path, a, b, shared_steps(a, b, "all"), Constant("first"))
    assert (a.asked, b.asked) == ([10, 20], [None])
    table = read_table(tmp_path / "winrate.csv")
    assert table["step_a"].tolist() == [10, 20]
    assert table["step_b"].isna().all()
    assert table["rate"].tolist() == [0.5, 0.5]
    assert len(found.rows) == 2
    lines = (tmp_path / "pairs.jsonl").read_text().splitlines()
    assert len(lines) == 6


@pytest.mark.parametrize(
    ("a", "b", "wanted", "steps"),
    [
        ((5, 10), (5, 10), "last", [(10, 10)]),
        ((5, 10), (10, 20), "last", [(10, 20)]),
        ((5, 10, 20), (10, 20, 30), "all", [(10, 10), (20, 20)]),
        ((5, 10, 20), (5, 10, 20), "20, 5", [(5, 5), (20, 20)]),
        ((None,), (5, 10), "all", [(None, 5), (None, 10)]),
        ((None,), (None,), "last", [(None, None)]),
    ],
)
def test_steps_to_compare(a, b, wanted, steps):
    assert shared_steps(StandIn("a", steps=a), StandIn("b", steps=b), wanted) == steps


@pytest.mark.parametrize(
    ("a", "b", "wanted", "words"),
    [
        ((5,), (10,), "all", "no checkpoint of the same step. a has 5; b has 10"),
        ((5, 10), (10,), "5", "step 5. a has 5, 10; b has 10"),
        ((5,), (5,), "five", "expected last, all, or steps"),
        ((None,), (None,), "all", "leave --checkpoints out"),
    ],
)
def test_steps_that_are_not_there(a, b, wanted, words):
    with pytest.raises(InputError, match=words):
        shared_steps(StandIn("a", steps=a), StandIn("b", steps=b), wanted)


def test_prompts_are_those_that_both_can_answer():
    a, b = StandIn("a", count=2), StandIn("b", files=("p3", "p1"))
    assert [prompt.id for prompt in shared_prompts(a, b)] == ["p1", "p3"]
    assert [prompt.id for prompt in shared_prompts(a, b, 1)] == ["p1"]
    assert [prompt.id for prompt in shared_prompts(a, StandIn("b"))] == ["p1", "p2"]  # what the recipe evaluates on
    with pytest.raises(InputError, match="no held-out prompt in common"):
        shared_prompts(a, StandIn("b", prompts=("q1",)))


def test_a_folder_without_files_of_prompts_is_refused(tmp_path):
    (tmp_path / "mine.jsx").write_text("x")
    with pytest.raises(InputError, match=r"no file is named after a held-out prompt, as .+ would be"):
        find_sides(str(tmp_path), str(tmp_path))


def test_two_files_for_one_prompt_are_refused(tmp_path):
    from botgrpo_cli.recipe.load import load_recipe

    recipe = load_recipe("react_qwen", scale="tiny").recipe
    for suffix in ("jsx", "tsx"):
        (tmp_path / f"p.{suffix}").write_text("x")
    with pytest.raises(InputError, match="two files for the prompt p"):
        FolderSide(tmp_path, recipe)


def scored(compiled, code="x", messages=()):
    found = [{"tool": "compile", "message": message} for message in messages]
    detail = {"code": code, "language": "tsx", "diagnostics": [{"tool": "lint", "message": "no"}, *found]}
    return Scored(0.0, [], {}, {"compile_rate": float(compiled)}, detail)


def test_what_does_not_compile_says_why():
    entry = AppComparison(ReactRecipe()).entry
    assert entry(scored(True)).code == "x"
    broken = entry(scored(False, messages=["Expected )"]))
    assert (broken.code, broken.source, broken.problem) == (None, "x", "It does not compile: Expected )")
    assert entry(scored(False, code=None)).problem == "There is no code block in the answer."


def test_a_folder_that_holds_something_else_is_left_alone(tmp_path):
    (tmp_path / "thesis.md").write_text("x")
    with pytest.raises(InputError, match="holds something else than a comparison"):
        library.make_room(tmp_path)
    (tmp_path / "winrate.csv").write_text("x")
    library.make_room(tmp_path)
