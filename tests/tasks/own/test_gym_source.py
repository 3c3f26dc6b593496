"""Data sets of reasoning-gym as a source of prompts and of a score; the library itself, where it is installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import version

import pytest

from botgrpo_cli.errors import InputError
from botgrpo_cli.tasks.own.data import DataSection, load_rows
from botgrpo_cli.tasks.own.gym_source import extract_answer, load


@pytest.fixture
def gym():
    return pytest.importorskip("reasoning_gym", reason="the extra botgrpo[gym] is not installed")


def score(source, row: dict, text: str) -> float:
    return source.functions["solved"][1](
        text, **{name: row[name] for name in ("question", "answer", "index", "metadata")}
    )


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<answer>1</answer> or \\boxed{2}", "1"),
        ("<think><answer>1</answer></think><answer>\n 2 \n</answer> so", "2"),
        ("<answer>1</answer> <answer>2", "1"),
        ("<answer>1</answer> </answer>", "1"),
        ("</answer> \\boxed{3}", "3"),
        ("\\boxed{1}, no: \\boxed {\\frac{1}{2}}", "\\frac{1}{2}"),
        ("\\boxed{1} \\boxed{2", "1"),
        ("} \\boxed{ {1, 2} }{", "{1, 2}"),
        (" It is 7.\n", "It is 7."),
        ("\\boxed{7", "\\boxed{7"),
        ("", ""),
    ],
)
def test_where_the_answer_is_read(text, answer):
    assert extract_answer(text) == answer


def test_rows_are_the_librarys_items(gym):
    source = load("chain_sum", {"size": 30, "seed": 3, "config": {"max_terms": 3}})
    rows = source.rows()["train"]
    made = gym.create_dataset("chain_sum", size=30, seed=3, max_terms=3)
    assert [row["prompt"] for row in rows] == [row["question"] for row in rows] == [item["question"] for item in made]
    assert [row["index"] for row in rows] == [*range(30)]
    assert json.loads(json.dumps(rows)) == rows
    assert source.versions == {"reasoning-gym": version("reasoning-gym")}
    found = load_rows(source.rows(), DataSection(share=0.3), "reasoning-gym:chain_sum")
    train, held_out = ({item.given for item in found.items[split]} for split in ("train", "held-out"))
    assert train
    assert held_out
    assert not train & held_out


def test_the_size_is_a_thousand_without_options(gym):
    assert len(load("leg_counting", {}).rows()["train"]) == 1000


def test_scores_are_the_librarys_own(gym):
    source = load("countdown", {"size": 5, "seed": 1})
    function, _ = source.functions["solved"]
    assert (function.kind, function.low, function.high, function.weight, function.batch) == (
        "term",
        0.0,
        1.0,
        1.0,
        False,
    )
    for row in source.rows()["train"]:
        expression = row["metadata"]["expression"]
        assert score(source, row, f"So <answer>{expression}</answer>") == 1.0
        assert score(source, row, f"It is \\boxed{{({expression})}}.") == 1.0  # another right one
        assert score(source, row, "<answer>1 + 1</answer>") < 0.1
        assert score(source, row, "No idea.") < 0.1


@pytest.mark.parametrize("name", ["arc_agi", "rearc"])
def test_items_whose_scorer_tells_tuples_from_lists(gym, name):
    source = load(name, {"size": 3})
    for row in json.loads(json.dumps(source.rows()["train"])):
        assert score(source, row, f"<answer>{row['answer']}</answer>") == 1.0


def test_items_that_another_process_makes_otherwise_are_scored_as_the_row_has_them(gym):
    code = (
        "import json; from botgrpo_cli.tasks.own.gym_source import load; "
        "print(json.dumps(load('ransom_note', {'size': 20}).rows()['train']))"
    )
    made = []
    for seed in ("1", "2"):
        env = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
        made.append(json.loads(done.stdout))
    assert made[0] != made[1]  # else there would be nothing to see here
    source = load("ransom_note", {"size": 20})
    for row in [*made[0], *made[1]]:
        assert score(source, row, row["answer"]) == 1.0
        assert score(source, row, {"True": "False", "False": "True"}[row["answer"]]) < 0.1


def test_an_answer_that_the_scorer_cannot_parse_is_wrong_and_not_a_failure(gym, monkeypatch):
    source = load("prime_factorization", {"size": 1})
    (row,) = source.rows()["train"]
    with pytest.raises(ValueError, match="invalid literal"):
        source._dataset.score_answer("two by two", row)
    assert score(source, row, "two by two") == 0.0

    def broken(answer, entry):
        raise RuntimeError("no scorer")

    monkeypatch.setattr(source._dataset, "score_answer", broken)
    with pytest.raises(RuntimeError, match="no scorer"):
        score(source, row, "two by two")


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("chain_summ", {}, "reasoning-gym has no data set 'chain_summ'. Did you mean 'chain_sum'?"),
        ("chain_sum", {"sise": 3}, "has no option 'sise'; expected size, seed, config. Did you mean 'size'?"),
        ("chain_sum", {"size": 0}, "The option size of reasoning-gym:chain_sum is 0; expected a whole number from 1."),
        ("chain_sum", {"seed": "1"}, "The option seed of reasoning-gym:chain_sum is '1'; expected a whole number"),
        ("chain_sum", {"size": True}, "is True; expected a whole number from 1."),
        ("chain_sum", {"config": 3}, "The option config of reasoning-gym:chain_sum is 3; expected parameters"),
        ("chain_sum", {"config": {"max_term": 3}}, "has no parameter 'max_term'; it has min_terms, max_terms,"),
        ("chain_sum", {"config": {"max_term": 3}}, "Did you mean 'max_terms'?"),
        ("chain_sum", {"config": {"seed": 3}}, "seed is an option of reasoning-gym:chain_sum itself; take it out of"),
        (
            "chain_sum",
            {"config": {"min_terms": 9, "max_terms": 2}},
            "refuses the config {'min_terms': 9, 'max_ter",
        ),
        ("composite", {}, "reasoning-gym:composite refuses the config {}: Must specify at least one dataset."),
    ],
)
def test_what_is_wrong_is_named(gym, name, options, says):
    with pytest.raises(InputError) as caught:
        load(name, options)
    assert says in str(caught.value)


def test_without_the_library_it_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "reasoning_gym", None)
    with pytest.raises(InputError, match=r"reasoning-gym:chain_sum needs .*: pip install 'botgrpo\[gym\]'"):
        load("chain_sum", {})
