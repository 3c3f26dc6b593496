"""A file of completions, whoever wrote them, scored as the task scores a rollout."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from botgrpo_cli.errors import InputError, nearest
from botgrpo_cli.tasks.base import Completion, Prompt, Scored, Task
from botgrpo_cli.tasks.tables import READERS, Row, Table, read_table
from botgrpo_cli.training.estimates import Answer

TEXT_COLUMNS = ("text", "completion", "response", "output", "generation")
ID_COLUMNS = ("prompt_id", "problem_id", "id", "uid")
PROMPT_COLUMNS = ("problem", "question", "prompt", "input")
TOKEN_COLUMNS = ("tokens", "length", "completion_tokens")
FINISHED_COLUMNS = ("finished", "finish_reason")
LISTED = 5  # rows that an error names

_PIECE = re.compile(rb"\S+\s*|\s+")  # words with the white space after them, so that no piece is in two steps
_NO, _YES = ("false", "0", "no", "length", "max_tokens"), ("true", "1", "yes", "stop", "eos", "end_turn")


@dataclass(frozen=True)
class Given:
    """One completion of a file. `tokens` and `finished` are None where the file does not say."""

    prompt: Prompt
    text: str
    tokens: int | None
    finished: bool | None


def is_completions(name: str) -> bool:
    """Whether `name` is a file that `read_completions` reads."""
    path = Path(name)
    return path.suffix.lower() in READERS and path.is_file()


def read_completions(path: Path, task: Task) -> list[Given]:
    """The completions of a csv, json, jsonl or parquet file, each with its problem.

    With columns for the text of a problem and for its answer (for a task that takes such), a row has its own problem
    and the task's are not loaded. Else it names one of the task's by its id (`prompt_id`, `problem_id`, `id`) or by its
    prompt. Of a file with a `split` column, such as a run's samples.jsonl, only held-out rows count, if there are any.
    Raises InputError: a column is missing, a row can't be read, names no problem, or has an answer that is none.
    """
    table = read_table(path)
    columns = {name.strip().lower(): name for name in reversed(table.columns)}
    text = _first(columns, TEXT_COLUMNS)
    if text is None:
        raise InputError(
            f"{path}: no column holds completions; expected one of {', '.join(TEXT_COLUMNS)}. Columns found: "
            f"{', '.join(table.columns)}."
        )
    find = _finder(table, columns, task)
    given, lost = [], []
    for row in _held_out(table, columns):
        if row.fault:
            lost.append(f"row {row.number}: {row.fault}")
            continue
        try:
            prompt = find(row)
        except ValueError as problem:
            lost.append(f"row {row.number}: {problem}")
            continue
        given.append(Given(prompt, row.cells.get(columns[text], ""), _tokens(row, columns), _finished(row, columns)))
    if lost:
        more = f"\n  and {len(lost) - LISTED} more" if len(lost) > LISTED else ""
        raise InputError(
            f"{path}: {len(lost)} of {len(table.rows)} rows can't be used.\n  " + "\n  ".join(lost[:LISTED]) + more
        )
    return given


def score_completions(given: Sequence[Given], task: Task) -> list[Answer]:
    """Each completion as the task scores it. One that the file doesn't call truncated counts as finished; a metric of
    what is not known (`truncated`; `length`, in tokens) is left out."""
    futures = [task.submit(completion_of(each)) for each in given]
    task.gathered()
    answers = []
    for each, future in zip(given, futures, strict=True):
        scored = future.result()
        metrics = _known(scored, each)
        answers.append(
            Answer(each.prompt, replace(scored, metrics=metrics), each.tokens, each.finished is not False, each.text)
        )
    return answers


def completion_of(given: Given) -> Completion:
    r"""As a policy would have left it, a word a piece.

    >>> completion_of(Given(Prompt("p", "", "easy"), "So\n\n 4 \n", None, None)).pieces
    (b'So\n\n ', b'4 \n', b'')
    """
    pieces = _PIECE.findall(given.text.encode("utf-8", "replace"))
    finished = given.finished is not False
    return Completion(given.prompt, (*pieces, b"") if finished else tuple(pieces), finished)


def _known(scored: Scored, given: Given) -> dict[str, float]:
    unknown = {"length"} if given.tokens is None else set()
    unknown |= {"truncated"} if given.finished is None else set()
    metrics = {name: value for name, value in scored.metrics.items() if name not in unknown}
    return metrics | ({"length": float(given.tokens)} if given.tokens is not None and "length" in metrics else {})


def _finder(table: Table, columns: Mapping[str, str], task: Task) -> Callable[[Row], Prompt]:
    """From a row to its prompt; ValueError with a sentence when there is none."""
    number, text = _first(columns, ID_COLUMNS), _first(columns, PROMPT_COLUMNS)
    answer = _first(columns, task.answer_columns)
    if text and answer:
        return lambda row: _own(task, row, columns[text], columns[answer])
    if text is None and number is None:
        raise InputError(
            f"{table.name}: no column names the problem of a completion; expected an id ({', '.join(ID_COLUMNS)}) or "
            f"the text of a problem ({', '.join(PROMPT_COLUMNS)}). Columns found: {', '.join(table.columns)}."
        )
    known = {prompt.id: prompt for split in ("train", "held-out") for prompt in task.prompts(split)}
    keys = {task.same_text(prompt.text): prompt for prompt in known.values()} if text else {}

    def find(row: Row) -> Prompt:
        name = row.cells.get(columns[number], "").strip() if number else ""
        if name in known:
            return known[name]
        words = row.cells.get(columns[text], "").strip() if text else ""
        if words and task.same_text(words) in keys:
            return keys[task.same_text(words)]
        what = f"'{name}'" if name else f"the problem '{words[:40]}…'" if words else "no problem"
        raise ValueError(f"{what} is none of the {len(known)} of the recipe's task.{nearest(name, known)}")

    return find


def _own(task: Task, row: Row, text: str, answer: str) -> Prompt:
    """A prompt from the row itself."""
    words = row.cells.get(text, "").strip()
    if not words:
        raise ValueError(f"column '{text}': the problem is empty.")
    return task.own_prompt(words, row.cells.get(answer, ""))


def _held_out(table: Table, columns: Mapping[str, str]) -> Sequence[Row]:
    if "split" not in columns:
        return table.rows
    held_out = [row for row in table.rows if row.cells.get(columns["split"], "") == "held-out"]
    return held_out or table.rows


def _tokens(row: Row, columns: Mapping[str, str]) -> int | None:
    name = _first(columns, TOKEN_COLUMNS)
    cell = row.cells.get(columns[name], "").strip() if name else ""
    return int(cell) if re.fullmatch(r"\d{1,9}", cell) else None


def _finished(row: Row, columns: Mapping[str, str]) -> bool | None:
    name = _first(columns, FINISHED_COLUMNS)
    cell = row.cells.get(columns[name], "").strip().lower() if name else ""
    return False if cell in _NO else True if cell in _YES else None


def _first(columns: Mapping[str, str], usual: Sequence[str]) -> str | None:
    return next((name for name in usual if name in columns), None)
