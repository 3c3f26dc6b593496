"""From the keys of a recipe to prompts in two splits: real little files, written here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from botgrpo_cli.errors import InputError
from botgrpo_cli.tasks.own.data import DataSection, load_data, load_rows, say_counts

CHAT = [{"role": "user", "content": "Hello?"}]


def jsonl(path: Path, records: list[dict]) -> str:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return str(path)


def sums(count: int, first: int = 0) -> list[dict]:
    return [{"question": f"What is {n} + 1?", "answer": n + 1} for n in range(first, first + count)]


def load(folder: Path, records: list[dict], **keys):
    return load_data(DataSection(data=jsonl(folder / "own.jsonl", records), **keys))


def both(found) -> list:
    return [*found.items["train"], *found.items["held-out"]]


def refused(folder: Path, records: list[dict], **keys) -> str:
    with pytest.raises(InputError) as caught:
        load(folder, records, **keys)
    return str(caught.value)


def test_rows_keep_their_columns_and_their_types(tmp_path):
    records = [{"prompt": f"{n}?", "n": n, "half": n / 2, "parts": [n, {"a": None}], "none": None} for n in range(20)]
    found = load(tmp_path, records, share=0.5)
    assert sorted((item.columns for item in both(found)), key=lambda row: row["n"]) == records
    assert all(item.prompt == item.given == item.columns["prompt"] for item in both(found))
    assert found.counts == {
        "source": str(tmp_path / "own.jsonl"), "rows": 20, "duplicates": 0, "ids": "hash of the row",
        "train": len(found.items["train"]), "held-out": len(found.items["held-out"]),
    }  # fmt: skip


def test_the_split_depends_on_seed_and_prompt_alone(tmp_path):
    def held_out(records, **keys):
        return {item.given for item in load(tmp_path, records, **keys).items["held-out"]}

    records = sums(2000)
    once = held_out(records)
    assert abs(len(once) - 200) < 4 * (2000 * 0.1 * 0.9) ** 0.5
    assert held_out([row | {"answer": "other"} for row in reversed(records[:1000])]) == {
        row["question"] for row in records[:1000] if row["question"] in once
    }
    assert held_out(records, seed=1) != once
    assert once < held_out(records, share=0.2)
    # another wording of the instruction splits alike
    assert held_out(records, instruction="Think. {prompt}") == held_out(records, instruction="{prompt}!") == once


def test_rows_of_one_prompt_are_on_one_side(tmp_path):
    records = [row | {"answer": n} for row in sums(200) for n in range(3)]
    found = load(tmp_path, records, share=0.5)
    train, held_out = ({item.given for item in found.items[split]} for split in ("train", "held-out"))
    assert not train & held_out
    assert (len(train | held_out), len(both(found))) == (200, 600)
    # where the instruction puts a column into the prompt, the prompt is another one
    asked = load(tmp_path, records, share=0.5, instruction="{prompt} ({answer})")
    assert {item.given for item in asked.items["train"]} & {item.given for item in asked.items["held-out"]}


# --- ids -------------------------------------------------------------------------------------------------------------
def test_ids_are_stable_and_unique(tmp_path):
    records = sums(50)
    first, again = load(tmp_path, records), load(tmp_path, records[::-1], seed=3)
    ids = {item.columns["answer"]: item.id for item in both(first)}
    assert len({*ids.values()}) == 50
    assert {item.columns["answer"]: item.id for item in both(again)} == ids
    assert all(len(number) == 16 for number in ids.values())


@pytest.mark.parametrize("make", [lambda n: f"own-{n}", lambda n: n])
def test_a_column_id_names_the_prompts(tmp_path, make):
    found = load(tmp_path, [row | {"ID": make(n)} for n, row in enumerate(sums(30))], share=0.5)
    assert {item.id for item in both(found)} == {str(make(n)) for n in range(30)}
    assert found.counts["ids"] == "column 'ID'"


@pytest.mark.parametrize("make", [lambda n: n // 2, lambda n: n or None, lambda n: [n]])
def test_a_column_id_that_names_no_prompt_is_a_column_like_others(tmp_path, make):
    found = load(tmp_path, [row | {"id": make(n)} for n, row in enumerate(sums(30))], share=0.5)
    assert len({item.id for item in both(found)}) == 30
    assert found.counts["ids"] == "hash of the row"


def test_ids_that_both_files_count_from_zero_are_not_taken(tmp_path):
    other = jsonl(tmp_path / "other.jsonl", [row | {"id": n} for n, row in enumerate(sums(5, first=100))])
    found = load(tmp_path, [row | {"id": n} for n, row in enumerate(sums(5))], held_out=other)
    assert len({item.id for item in both(found)}) == 10


def test_rows_that_are_the_same_count_once(tmp_path):
    records = sums(40)
    found = load(tmp_path, records + records[:7] + [records[0] | {"answer": "another"}], share=0.5)
    assert (found.counts["rows"], found.counts["duplicates"], len(both(found))) == (48, 7, 41)
    assert "Rows that repeat another one and were dropped: 7." in say_counts(found)


# --- what is held out ------------------------------------------------------------------------------------------------
def test_a_held_out_file_takes_its_prompts_out_of_training(tmp_path):
    also = [{"question": " What is 3\n+ 1? ", "answer": 0}]  # the same, but for white space
    other = jsonl(tmp_path / "other.jsonl", sums(5, first=8) + also)
    found = load(tmp_path, sums(10), held_out=other)
    assert [item.columns["answer"] for item in found.items["train"]] == [1, 2, 3, 5, 6, 7, 8]
    assert len(found.items["held-out"]) == 6
    assert (found.counts["in_both"], found.counts["held_out_source"]) == (3, other)
    assert say_counts(found) == (
        f"{tmp_path / 'own.jsonl'}: 7 prompts to train on, 6 held out. "
        "Prompts that are held out too and left the training set: 3."
    )


SPLITS = ["train"] * 6 + ["test"] * 3 + ["dev"] * 2


@pytest.mark.parametrize(
    ("keys", "train", "held_out", "others"),
    [
        ({"held_out_split": "test"}, range(1, 7), range(7, 10), {"dev": 2}),
        ({"split": "dev", "held_out_split": "test"}, range(10, 12), range(7, 10), {"train": 6}),
        ({"split": "test", "held_out_split": "train"}, range(7, 10), range(1, 7), {"dev": 2}),
    ],
)
def test_a_column_split_is_chosen_from(tmp_path, keys, train, held_out, others):
    found = load(tmp_path, [row | {"split": split} for row, split in zip(sums(11), SPLITS, strict=True)], **keys)
    assert [item.columns["answer"] for item in found.items["train"]] == [*train]
    assert [item.columns["answer"] for item in found.items["held-out"]] == [*held_out]
    assert found.counts["other_splits"] == others
    assert "Rows of other splits, which are not used: " in say_counts(found)


def test_without_a_named_split_train_is_shared_and_the_others_are_left_alone(tmp_path):
    found = load(tmp_path, [row | {"split": split} for row, split in zip(sums(11), SPLITS, strict=True)], share=0.5)
    assert {item.columns["answer"] for item in both(found)} == {*range(1, 7)}
    assert found.counts["other_splits"] == {"test": 3, "dev": 2}


def test_a_column_split_without_train_is_a_column_like_others(tmp_path):
    found = load(tmp_path, [row | {"split": str(n % 2)} for n, row in enumerate(sums(40))], share=0.5)
    assert len(both(found)) == 40
    part = load(tmp_path, [row | {"split": str(n % 2)} for n, row in enumerate(sums(40))], held_out_split="1")
    assert {item.columns["split"] for item in part.items["train"]} == {"0"}
    assert (len(part.items["train"]), part.counts["in_both"]) == (20, 0)


def test_a_folder_has_splits_too(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    (tmp_path / "own").mkdir()
    jsonl(tmp_path / "own/train.jsonl", sums(8))
    jsonl(tmp_path / "own/test.jsonl", sums(2, first=7))
    found = load_data(DataSection(data=str(tmp_path / "own"), held_out_split="test"))
    assert [item.columns["answer"] for item in found.items["train"]] == [*range(1, 8)]
    assert [item.columns["answer"] for item in found.items["held-out"]] == [8, 9]
    assert found.versions["datasets"]
    again = load(tmp_path, sums(20, first=50), held_out=str(tmp_path / "own"))  # its split test
    assert [item.columns["answer"] for item in again.items["held-out"]] == [8, 9]


# --- what is refused -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"instruction": "{promt} please"}, "the place {promt}, which is no column of {file}. Did you mean 'prompt'?"),
        (
            {"instruction": "{prompt} {anser}"},
            "the place {anser}, which is no column of {file}. Did you mean 'answer'?",
        ),
        (
            {"instruction": r"Solve \boxed{prompt}"},
            "task.instruction has no place for the prompt; expected {prompt} in",
        ),
        (
            {"prompt_column": "Questions"},
            "has no column 'Questions' (task.prompt_column). Columns found: question, ans",
        ),
        ({"prompt_column": "answer"}, "row 1: Column 'answer': expected a text or a list of chat messages, found 1."),
        ({"split": "train"}, "{file} has no column 'split' (task.split: train). Columns found: question, answer."),
        ({"held_out_split": "test"}, "has no column 'split' (task.held_out_split: test)"),
        ({"config": "main"}, "{file} is a file; task.config chooses in a data set of the hub."),
        ({"share": 0.0}, "None of the 3 prompts of {file} is left to hold out with task.share 0 and task.seed 0"),
        ({"share": 1.0}, "None of the 3 prompts of {file} is left to train on with task.share 1"),
        ({"held_out": "{file}"}, "All 3 prompts of {file} are held out too, so none is left to train on."),
        ({"held_out": "{file}x"}, "can't be read"),
    ],
)
def test_keys_that_do_not_fit_the_data(tmp_path, keys, says):
    file = str(tmp_path / "own.jsonl")
    if "held_out" in keys:
        keys = {"held_out": keys["held_out"].replace("{file}", file)}
    assert says.replace("{file}", file) in refused(tmp_path, sums(3), **keys)


def test_splits_that_are_not_there(tmp_path):
    records = [row | {"split": split} for row, split in zip(sums(11), SPLITS, strict=True)]
    found = refused(tmp_path, records, split="tran", held_out_split="test")
    assert (
        "no row has 'tran' in its column 'split' (task.split). Found: train, test, dev. Did you mean 'train'?" in found
    )
    assert "(task.held_out_split). Found" in refused(tmp_path, records, held_out_split="held")
    assert "are both 'test'; expected two splits" in refused(tmp_path, records, split="test", held_out_split="test")


def test_many_odd_rows_are_counted(tmp_path):
    found = refused(tmp_path, [{"prompt": ""} for _ in range(30)])
    assert "30 of 30 rows can't be used" in found
    assert found.endswith("\n  and 20 more")


def test_a_csv_row_of_another_length_is_refused_even_in_a_split_that_is_not_used(tmp_path):
    (tmp_path / "own.csv").write_text("prompt,split\na,train\nb\n")
    with pytest.raises(InputError, match="row 2: The row has 1 cells where the header has 2"):
        load_data(DataSection(data=str(tmp_path / "own.csv")))


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (None, "task.data names no prompts"),
        ("owm.jsonl", "owm.jsonl does not exist. Did you mean 'own.jsonl'?"),
        ("own.txt", "files of kind '.txt' can't be read"),
    ],
)
def test_data_that_is_not_there(tmp_path, data, says):
    jsonl(tmp_path / "own.jsonl", sums(3))
    with pytest.raises(InputError) as caught:
        load_data(DataSection(data=data and str(tmp_path / data)))
    assert says in str(caught.value)


def test_a_hub_data_set_without_a_connection_is_one_sentence_and_what_to_do():
    with pytest.raises(InputError, match=r"The data set some/where \(split 'train'\) could not be loaded: .*download"):
        load_data(DataSection(data="some/where"))


# --- a source's own rows ---------------------------------------------------------------------------------------------
def test_rows_of_a_source(tmp_path):
    rows = {"train": [{"prompt": f"{n}?", "pair": (n, n)} for n in range(40)]}
    found = load_rows(rows, DataSection(share=0.5, system="Count.", instruction="Q: {prompt}"), "gym:x")
    assert len(both(found)) == 40
    item = found.items["train"][0]
    assert item.prompt == [{"role": "system", "content": "Count."}, {"role": "user", "content": f"Q: {item.given}"}]
    assert item.columns["pair"] == [int(item.given[:-1])] * 2
    assert say_counts(found).startswith("gym:x: ")


def test_rows_of_both_splits_share_no_prompt():
    rows = {"train": [{"prompt": "a"}, {"prompt": "b"}], "held-out": [{"prompt": "b"}]}
    found = load_rows(rows, DataSection(), "gym:x")
    assert [item.given for item in found.items["train"]] == ["a"]
    assert found.counts["in_both"] == 1


@pytest.mark.parametrize(
    ("rows", "keys", "says"),
    [
        (
            {"train": [{"prompt": "a"}]},
            {"data": "own.jsonl"},
            "gym:x brings its own prompts, so task.data must be null.",
        ),
        (
            {"train": [{"prompt": "a"}]},
            {"split": "a", "held_out": "b"},
            "so task.split and task.held_out must be null.",
        ),
        ({"train": []}, {}, "gym:x has no rows to train on."),
        ({"held-out": [{"prompt": "a"}]}, {}, "gym:x has no rows to train on."),
        ({"train": [{"prompt": "a"}], "heldout": []}, {}, "of a split 'heldout'; expected train or held-out. Did you"),
        ({"train": [{"question": "a"}]}, {}, "gym:x has no column 'prompt'"),
    ],
)
def test_rows_of_a_source_that_do_not_fit(rows, keys, says):
    with pytest.raises(InputError) as caught:
        load_rows(rows, DataSection(**keys), "gym:x")
    assert says in str(caught.value)
