from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from botgrpo_cli.tasks.react.content import check_asks, content_share
from botgrpo_cli.tasks.react.extract import extract
from botgrpo_cli.tasks.react.workers import ReactChecker
from botgrpo_cli.tiny import react
from botgrpo_cli.tiny.families import FAMILIES

SPLITS = ("train", "held-out")


@pytest.mark.parametrize(("split", "count"), [("train", 2048), ("held-out", 256)])
def test_prompts_are_many_distinct_and_graded(split: react.Split, count: int) -> None:
    prompts = react.prompts(split)
    assert len(prompts) == count
    assert len({react.normalised(prompt.text) for prompt in prompts}) == count
    levels = Counter(prompt.level for prompt in prompts)
    assert set(levels) == {"easy", "medium", "hard"}
    assert min(levels.values()) > count / 10


def test_splits_share_no_brief_and_no_id() -> None:
    train, held_out = (react.prompts(split) for split in SPLITS)
    assert not {react.normalised(p.text) for p in train} & {react.normalised(p.text) for p in held_out}
    ids = [p.id for p in [*train, *held_out]]
    assert len(set(ids)) == len(ids)


def test_no_fresh_training_task_is_held_out() -> None:
    held_out = {react.normalised(prompt.text) for prompt in react.prompts("held-out")}
    fresh = react.draw_many("train", seed=123)
    assert not held_out & {react.normalised(next(fresh).prompt.text) for _ in range(2000)}


def test_normalising_ignores_case_and_punctuation() -> None:
    assert react.normalised("Tabs, titled: Attic.") == react.normalised("tabs titled attic")
    assert react.normalised("start at 3") != react.normalised("start at 4")


def test_every_family_is_in_both_splits() -> None:
    for split in SPLITS:
        families = Counter(task.family for task in react.tasks(split))
        assert set(families) == set(FAMILIES)
        assert len(families) >= 10


def test_prompts_are_always_the_same() -> None:
    first = react.prompts("train")
    react.tasks.cache_clear()
    assert react.prompts("train") == first


def test_sources_hold_what_is_asked_and_keep_their_size() -> None:
    for number, task in enumerate([*react.tasks("train"), *react.tasks("held-out")]):
        check_asks(task.prompt.asks)
        source = react.write(task, Random(number))
        assert content_share(source, task.prompt.asks) == 1.0, (task.prompt, source)
        assert 10 <= source.count("\n") <= 30, source


def test_asked_words_stand_in_the_brief() -> None:
    for prompt in react.prompts("train"):
        words = [ask.removeprefix("text:") for ask in prompt.asks if ask.startswith("text:")]
        assert words
        assert all(word in prompt.text.lower() for word in words), prompt


def test_a_brief_has_many_sources() -> None:
    for task in react.tasks("held-out")[:40]:
        sources = {react.write(task, Random(seed)) for seed in range(20)}
        assert len(sources) > 10


def test_the_answer_is_one_closed_block_with_the_source_in_it() -> None:
    source = react.write(react.tasks("train")[0], Random(0))
    block = extract(react.answer(source))
    assert block.format == 1.0
    assert block.language == "jsx"
    assert block.code is not None
    assert block.code.rstrip() == source.rstrip()


def test_sources_compile_without_a_lint_finding(checker: ReactChecker) -> None:
    by_family: Counter[str] = Counter()
    for number, task in enumerate(react.tasks("held-out")):
        if by_family[task.family] < 4:
            by_family[task.family] += 1
            source = react.write(task, Random(f"compile-{number}"))
            result = checker.submit(source).result()
            assert result.compiled, (source, result)
            assert result.findings == (), (source, result)
    assert sum(by_family.values()) >= 60
