"""The React task end to end: completions in, scores out, with the real tools behind it."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest

from botgrpo_cli.errors import RunError
from botgrpo_cli.recipe.schema import Recipe
from botgrpo_cli.rewards.spans import line_of_token
from botgrpo_cli.tasks.base import Completion, Prompt, Scored
from botgrpo_cli.tasks.react.task import ReactTask
from tests.real.react_code import ENDLESS, GOOD, completion, distinct
from tests.recipes import ReactRecipe

FENCED = f"```jsx\n{GOOD}```"


def recipe(**task: object) -> Recipe:
    reward = {"content": {"weight": 0.5}}
    return ReactRecipe.model_validate({"task": {"timeout": 60, **task}, "reward": reward})


@pytest.fixture(scope="module")
def task() -> Iterator[ReactTask]:
    with ReactTask(recipe()) as made:
        yield made


def check_bounds(scored: Scored, done: Completion) -> None:
    assert math.isfinite(scored.reward)
    assert all(0.0 <= term <= 1.0 for term in scored.terms.values())
    assert len(scored.local) == len(done.pieces)
    assert all(-1.0 <= value <= 0.0 for value in scored.local)


def test_the_order_of_good_and_bad_answers(task):
    answers = [
        FENCED,
        FENCED.replace("{count}<", "{missing}<"),
        FENCED.replace("</button>", "</div>"),
        "I would write a component, but not today.",
    ]
    rewards = [future.result().reward for future in [task.submit(completion(answer)) for answer in answers]]
    assert rewards == sorted(rewards, reverse=True)
    assert len(set(rewards)) == len(rewards)
    assert rewards[-1] == 0.0


def test_the_bad_line_is_the_one_that_is_penalised(task):
    done = completion("Here it is.\n\n" + FENCED.replace("{count}<", "{missing}<"))
    scored = task.submit(done).result()
    lines = line_of_token(done.pieces)
    worst = {line for line, value in zip(lines, scored.local, strict=True) if value == min(scored.local)}
    assert [done.text.split("\n")[line].strip()[:7] for line in worst] == ["return "]
    assert min(scored.local) == -0.6
    assert any(d["rule"] == "no-undef" and d["line"] in worst for d in scored.detail["diagnostics"])


def test_content_counts_for_code_that_compiles(task):
    prompt = Prompt("p", "A counter", "easy", asks=("element:button", "element:table"))

    def content(text: str) -> float:
        return task.submit(Completion(prompt, completion(text).pieces, True)).result().terms["content"]

    assert content(FENCED) == 0.5
    assert content(FENCED.replace("</button>", "</div>")) == 0.0


def test_equal_code_in_different_completions_is_scored_for_each(task):
    first, second = completion(FENCED), completion("Of course!\n" + FENCED, finished=False)
    scores = [future.result() for future in [task.submit(first), task.submit(second)]]
    assert [len(scored.local) for scored in scores] == [len(first.pieces), len(second.pieces)]
    assert [scored.metrics["truncated"] for scored in scores] == [0.0, 1.0]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\0",
        "```",
        "```jsx",
        "```jsx\n```",
        "```jsx\n" + "(" * 10_000 + "\n```",
        "```jsx\n" + "x" * 1_000_000,
        "x" * 1_000_000,
        "```jsx\n" + "<p>" * 20_000 + "\n```",
        f"```jsx\n\0\ud800{GOOD}\n```",
        f"```jsx\n/* eslint-disable */\n{GOOD}```",
        f"```jsx\nimport fs from 'fs';\nimport http from 'http';\n{GOOD}```",
        "```jsx\r\n" + GOOD.replace("\n", "\r\n") + "```",
        "```jsx\n// nothing but a comment\n```",
    ],
    ids=lambda text: ascii(text[:20]),
)
def test_any_completion_is_scored_within_bounds(task, text):
    done = completion(text)
    scored = task.submit(done).result()
    check_bounds(scored, done)
    assert scored.metrics["worker_failed"] == 0.0


def test_bytes_that_are_no_text_are_scored(task):
    done = Completion(Prompt("p", "b", "easy"), (b"```jsx\n", b"\xff\xfe", GOOD.encode(), b"\xf0\x9f"), False)
    check_bounds(task.submit(done).result(), done)


def test_a_sample_that_hangs_scores_nothing_and_the_others_are_scored():
    with ReactTask(recipe(workers=2, timeout=6)) as task:
        answers = [f"```jsx\n{distinct(n)}```" for n in range(6)]
        answers.insert(3, f"```jsx\n{ENDLESS}\n```")
        scores = [future.result() for future in [task.submit(completion(answer)) for answer in answers]]
    assert [scored.metrics["worker_failed"] for scored in scores] == [0.0] * 3 + [1.0] + [0.0] * 3
    assert scores[3].reward == 0.0
    assert set(scores[3].local) == {0.0}
    assert all(scored.terms["compile"] == 1.0 for scored in scores[:3] + scores[4:])


def test_closing_ends_the_samples_that_wait():
    task = ReactTask(recipe(workers=1))
    waiting = [task.submit(completion(f"```jsx\n{distinct(n)}```")) for n in range(40)]
    task.close()
    for future in waiting[20:]:
        with pytest.raises(RunError, match="closed"):
            future.result()


@pytest.mark.parametrize("split", ["train", "held-out"])
def test_prompts_stand_inside_the_instruction(split):
    with ReactTask(recipe(instruction="Use {braces} freely. {brief}")) as task:
        prompts = task.prompts(split)
    assert len({prompt.id for prompt in prompts}) == len(prompts) >= 100
    assert all(prompt.text.startswith("Use {braces} freely. ") and "{brief}" not in prompt.text for prompt in prompts)


def test_versions_name_every_tool(task):
    versions = task.versions()
    assert {"node", "esbuild", "eslint", "typescript", "react"} <= set(versions)
    assert all(version[0].isdigit() for version in versions.values())
