"""From completion text to the checked code: which block, which line, and no text that breaks it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from botgrpo_cli.tasks.react.extract import MAX_CODE_BYTES, MAX_DEPTH, extract

APP = "export default function App() {\n  return <p>hi</p>;\n}"


def test_one_closed_block_and_its_line():
    found = extract(f"Sure:\n\n```jsx\n{APP}\n```\nDone.")
    assert (found.code, found.language, found.first_line) == (APP, "jsx", 3)
    assert (found.closed, found.blocks, found.format) == (True, 1, 1.0)


def test_no_fence_is_no_code():
    found = extract(APP)
    assert found.code is None
    assert found.format == 0.0


def test_unclosed_last_block_is_used_but_flagged():
    found = extract(f"```jsx\n{APP}")
    assert (found.code, found.closed, found.format) == (APP, False, 0.0)


def test_a_second_block_of_any_language_halves_the_format():
    found = extract(f"```css\np {{}}\n```\n```jsx\n{APP}\n```")
    assert (found.code, found.blocks, found.format) == (APP, 2, 0.5)


@pytest.mark.parametrize("language", ["css", "json", "bash", "html", "python"])
def test_other_languages_are_never_the_component(language):
    assert extract(f"```{language}\n{APP}\n```").code is None


@pytest.mark.parametrize("info", ["", "jsx", "TSX", "js", "javascript", "ts", "typescript", "react", "jsx App.jsx"])
def test_code_languages(info):
    assert extract(f"```{info}\n{APP}\n```").code == APP


def test_best_block_wins_over_a_later_helper():
    helper = "export const twice = (n) => 2 * n;"
    found = extract(f"```jsx\n{APP}\n```\nand\n```js\n{helper}\n```")
    assert (found.code, found.first_line) == (APP, 1)


def test_the_last_of_equal_blocks_wins():
    better = APP.replace("hi", "better")
    assert extract(f"```jsx\n{APP}\n```\n```jsx\n{better}\n```").code == better


def test_an_empty_block_is_no_code():
    found = extract("```jsx\n\n   \n```")
    assert (found.code, found.format) == (None, 0.0)


@pytest.mark.parametrize(
    ("opening", "inside", "closing"),
    [("~~~jsx", "```", "~~~"), ("````jsx", "```", "`````"), ("```jsx", "``` jsx", "```"), ("```jsx", "~~~", "``` ")],
)
def test_only_a_matching_fence_closes(opening, inside, closing):
    found = extract(f"{opening}\nconst a = <p/>;\n{inside}\n{closing}\ntail")
    assert found.code == f"const a = <p/>;\n{inside}"
    assert found.closed


def test_thinking_is_dropped_and_lines_still_count():
    text = f"<think>\n```jsx\nexport default 1\n```\n</think>\n```jsx\n{APP}\n```"
    found = extract(text)
    assert (found.code, found.blocks) == (APP, 1)
    assert text.split("\n")[found.first_line] == APP.split("\n")[0]


def test_unclosed_thinking_leaves_no_code():
    assert extract(f"<think>\n```jsx\n{APP}\n```").code is None


def test_other_line_breaks_become_spaces_and_lines_stay():
    found = extract("```jsx\r\nconst a = 1;\r\nconst b = `x\u2028y\u2029z`;\r\n```\r\n")
    assert found.code == "const a = 1; \nconst b = `x y z`; "
    assert found.closed


def test_long_code_is_refused_with_its_line():
    line = "const x = 1;\n"
    found = extract("```jsx\n" + line * (MAX_CODE_BYTES // len(line) + 2) + "```")
    assert found.refusal is not None
    assert found.refusal.line == MAX_CODE_BYTES // len(line)


def test_code_of_the_largest_size_is_not_refused():
    assert extract("```jsx\n" + "é" * (MAX_CODE_BYTES // 2) + "\n```").refusal is None
    assert extract("```jsx\n" + "é" * (MAX_CODE_BYTES // 2 + 1) + "\n```").refusal is not None


def test_deep_brackets_are_refused_with_their_line():
    assert extract("```jsx\n" + "(" * MAX_DEPTH + "\n```").refusal is None
    assert extract("```jsx\n\n" + "[{(" * MAX_DEPTH + "\n```").refusal.line == 1
    assert extract("```jsx\n" + "()" * 10_000 + "\n```").refusal is None


@pytest.mark.parametrize(
    "text",
    [
        "`" * 1_000_000,
        "```jsx\n" + "(" * 1_000_000,
        "```\n" * 250_000,
        "```jsx\n" + "<a" * 500_000,
        "```jsx\nexport" + " \n" * 500_000,
        "```jsx\n" + "</think>" * 120_000,
        "export " * 140_000,
        " " * 1_000_000 + "```",
    ],
    ids=lambda text: repr(text[:14]),
)
def test_a_megabyte_of_anything_is_read(text):
    found = extract(text)
    assert found.format < 1.0


@given(st.text(st.sampled_from("`~\n\r jsx<>/()a\u2028\0\ud800é") | st.characters(), max_size=200))
def test_any_text_gives_code_that_stands_on_its_lines(text):
    found = extract(text)
    if found.code is None:
        return
    lines = text.split("\n")
    for number, line in enumerate(found.code.split("\n")):
        assert len(line) == len(lines[found.first_line + number])
    assert not set(found.code) & set("\r\u2028\u2029")
    assert found.first_line + found.code.count("\n") <= text.count("\n")
