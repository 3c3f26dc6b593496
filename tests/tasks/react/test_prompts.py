"""The written prompt sets: sizes, levels, no overlap between the splits, and clear errors for wrong data."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from botgrpo_cli.errors import InputError
from botgrpo_cli.tasks.base import Prompt
from botgrpo_cli.tasks.react.content import check_asks, vocabulary
from botgrpo_cli.tasks.react.prompts import checked, load_prompts, normalise, read_briefs

TRAIN = load_prompts("briefs", "train")
HELD_OUT = load_prompts("briefs", "held-out")
BOTH = [*TRAIN, *HELD_OUT]
ROW = {"id": "a-1", "split": "train", "level": "easy", "brief": "A counter.", "asks": ["state"]}


def test_sizes() -> None:
    assert len(TRAIN) >= 420
    assert len(HELD_OUT) >= 110


@pytest.mark.parametrize("prompts", [TRAIN, HELD_OUT], ids=["train", "held-out"])
def test_levels_are_graded(prompts: list[Prompt]) -> None:
    share = {level: count / len(prompts) for level, count in Counter(prompt.level for prompt in prompts).items()}
    assert set(share) == {"easy", "medium", "hard"}
    assert 0.35 <= share["easy"] <= 0.45
    assert 0.35 <= share["medium"] <= 0.45
    assert 0.15 <= share["hard"] <= 0.25


def test_ids_are_unique_over_both_splits() -> None:
    assert len({prompt.id for prompt in BOTH}) == len(BOTH)


def test_no_overlap_after_normalising() -> None:
    forms = [normalise(prompt.text) for prompt in BOTH]
    assert all(forms)
    assert [form for form, count in Counter(forms).items() if count > 1] == []


def test_no_near_duplicates_of_held_out_briefs() -> None:
    def words(prompt: Prompt) -> set[str]:
        return set(normalise(prompt.text).split())

    train = [words(prompt) for prompt in TRAIN]
    nearest = max(len(held & other) / len(held | other) for held in map(words, HELD_OUT) for other in train)
    assert nearest < 0.5


def test_easy_briefs_are_the_easy_ones_and_short() -> None:
    for split, every, least in (("train", TRAIN, 160), ("held-out", HELD_OUT, 45)):
        easy = load_prompts("easy-briefs", split)
        assert easy == [prompt for prompt in every if prompt.level == "easy"]
        assert len(easy) >= least
        assert max(len(prompt.text) for prompt in easy) <= 150


def test_asks_are_valid_distinct_and_few() -> None:
    for prompt in BOTH:
        check_asks(prompt.asks)
        assert 1 <= len(prompt.asks) == len(set(prompt.asks)) <= 5


def test_text_asks_stand_in_the_brief() -> None:
    for prompt in BOTH:
        words = set(normalise(prompt.text).split()) | set(prompt.text.casefold().replace('"', " ").split())
        for ask in prompt.asks:
            assert not ask.startswith("text:") or any(word.strip(".,:;") == ask[5:] for word in words), prompt


def test_every_ask_of_the_vocabulary_is_used_and_most_briefs_tell_apart() -> None:
    used = Counter(ask for prompt in BOTH for ask in prompt.asks)
    assert set(vocabulary()) <= set(used)
    easy = Counter(tuple(sorted(prompt.asks)) for prompt in BOTH if prompt.level == "easy")
    counter = tuple(sorted(("element:button", "state", "event:click")))
    assert easy[counter] <= 0.03 * easy.total()  # a bare counter must not satisfy the set


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("A  Counter,\nwith a BUTTON!", "counter button"),
        ("counter — button", "counter button"),
        ("Straße ÉTUDE snake_case", "strasse étude snake case"),
        ("the of and", ""),
    ],
)
def test_normalise(text: str, form: str) -> None:
    assert normalise(text) == form
    assert normalise(form) == form


def test_unknown_kind_and_split() -> None:
    with pytest.raises(InputError, match="Did you mean 'briefs'"):
        load_prompts("brief", "train")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="Did you mean 'held-out'"):
        load_prompts("briefs", "heldout")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"asks": ["stat"]}, r"prompt 'a-1': Ask 'stat' .* Did you mean 'state'"),
        ({"asks": []}, r"rows.jsonl:2: Key 'asks': expected a list of 1 to 5"),
        ({"asks": ["state"] * 6}, r"rows.jsonl:2: Key 'asks'"),
        ({"asks": "state"}, r"rows.jsonl:2: Key 'asks'"),
        ({"level": "eazy"}, r"rows.jsonl:2: Key 'level'.* Did you mean 'easy'"),
        ({"level": ["easy"]}, r"rows.jsonl:2: Key 'level'"),
        ({"split": "held-out"}, r"rows.jsonl:2: Key 'split': expected 'train'"),
        ({"brief": " "}, r"rows.jsonl:2: Key 'brief'"),
        ({"extra": 1}, r"rows.jsonl:2: Expected an object with exactly the keys"),
        ({"id": "a-0"}, r"id 'a-0' is used twice"),
    ],
)
def test_wrong_rows_are_named(tmp_path: Path, change: dict[str, object], message: str) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text("\n".join(json.dumps(row) for row in ({**ROW, "id": "a-0"}, ROW | change)), encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read_briefs(file, "train")


def test_broken_json_names_its_line(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps(ROW) + "\n{", encoding="utf-8")
    with pytest.raises(ValueError, match=r"rows.jsonl:2: "):
        read_briefs(file, "train")


def test_generated_asks_are_checked() -> None:
    with pytest.raises(ValueError, match="the generated train set, prompt 'g-1': Ask 'element:tabel'"):
        checked([Prompt("g-1", "a table", "easy", ("element:tabel",))], "the generated train set")


@pytest.mark.parametrize("split", ["train", "held-out"])
def test_generated_set_uses_the_same_vocabulary(split: str) -> None:
    prompts = load_prompts("generated", split)  # type: ignore[arg-type]
    assert prompts
    for prompt in prompts[:200]:
        check_asks(prompt.asks)
