"""Problems with integer answers: read, checked row by row, freed of duplicates, split by a hash of their text."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from botgrpo_cli.errors import InputError, nearest
from botgrpo_cli.tasks.aime.gold import parse_gold
from botgrpo_cli.tasks.aime.hub import PRESETS, load_hub
from botgrpo_cli.tasks.base import Prompt
from botgrpo_cli.tasks.tables import READERS, Row, Table, read_table

PROBLEM_COLUMNS = ("problem", "question", "prompt", "problem_text", "input")
ANSWER_COLUMNS = ("answer", "final_answer", "expected_answer", "gold", "ground_truth", "target", "solution")
ID_COLUMNS = ("id", "problem_id", "uid")
NUMBER_COLUMNS = ("problem number", "problem_number", "problem_idx", "number")
LISTED = 10  # odd rows that an error names

_IMAGE = re.compile(r"\.(?:png|jpe?g|gif|svg)\b", re.IGNORECASE)
_ASY_BLOCK = re.compile(r"\[asy\].*?\[/asy\]", re.DOTALL)
_ID_NUMBER = re.compile(r"-(\d{1,2})$")
_LAYOUT = re.compile(r"\\(?:left|right|displaystyle)(?![A-Za-z])|\\[,!;: ()\[\]]|[\s${}~]+")


@dataclass(frozen=True)
class Problem:
    """`row` is the row's own id, for people; `key` is a hash of the text, the same whatever the source."""

    key: str
    row: str
    text: str
    golds: frozenset[int]
    level: str  # easy | medium | hard: problems 1-5, 6-10, 11-15 of a contest; medium where the number is unknown

    @property
    def id(self) -> str:
        """Stable across runs and sources, unique within one load."""
        return f"aime-{self.key[:12]}"

    @property
    def prompt(self) -> Prompt:
        """The task item, without instruction; `asks` are the golds."""
        return Prompt(self.id, self.text, self.level, tuple(str(gold) for gold in sorted(self.golds)))


@dataclass(frozen=True)
class OddRow:
    """A row that can't be used, and why."""

    row: str
    reason: str


@dataclass(frozen=True)
class Loaded:
    """Problems in the order of their source; `counts` goes into the manifest."""

    source: str
    problem_column: str
    answer_column: str
    problems: tuple[Problem, ...]
    odd: tuple[OddRow, ...]
    figures: tuple[str, ...]  # rows dropped because their figure is only the name of an image
    duplicates: tuple[str, ...]
    counts: dict[str, int]


def load_problems(
    source: str | Path,
    *,
    problem_column: str | None = None,
    answer_column: str | None = None,
    split: str | None = None,
    config: str | None = None,
    skip_odd: bool = False,
) -> Loaded:
    """Problems of a file (csv, json, jsonl, parquet), a folder that `datasets` reads, or a hub data set.

    A row whose figure is only the name of an image is dropped, since the problem can't be solved from its text; a
    figure written in `[asy]` stays. A row with the text of an earlier one is dropped. A row without a text or with an
    answer that is no set of integers from 0 to 999 is odd, and so is one that gives an earlier text another answer:
    odd rows are refused with their ids, or with `skip_odd` left out and counted. `split` and `config` are for hub data
    sets. Columns that aren't named are guessed.

    Raises InputError that names the source, the row and the column.
    """
    table, (wanted_problem, wanted_answer) = _open(source, split, config)
    problem = _column(table, problem_column or wanted_problem, PROBLEM_COLUMNS, "problem")
    answer = _column(table, answer_column or wanted_answer, ANSWER_COLUMNS, "answer")
    if problem == answer:
        raise InputError(f"{table.name}: the column '{problem}' was named for both the problem and the answer.")
    loaded = collect(table, problem, answer)
    if loaded.odd and not skip_odd:
        raise InputError(_refusal(loaded))
    if not loaded.problems:
        raise InputError(f"{table.name}: none of its {len(table.rows)} rows holds a problem that can be used.")
    return loaded


def _refusal(loaded: Loaded) -> str:
    """The sentences that refuse a source because of its odd rows."""
    count = len(loaded.odd)
    listed = "\n".join(f"  {odd.row}: {odd.reason}" for odd in loaded.odd[:LISTED])
    more = f"\n  and {count - LISTED} more" if count > LISTED else ""
    return (
        f"{loaded.source}: {count} row{'s' * (count > 1)} can't be used (problem from column "
        f"'{loaded.problem_column}', answer from '{loaded.answer_column}'). Correct the data, or have such rows "
        f"skipped and counted (skip_odd).\n{listed}{more}"
    )


def split_problems(
    problems: Iterable[Problem], *, seed: int, share: float
) -> tuple[tuple[Problem, ...], tuple[Problem, ...]]:
    """(train, held-out): a problem is held out when the hash of seed and text falls into the lowest `share`.

    Where a problem goes depends on nothing else: not on its row, nor on the other problems. ValueError unless
    0 <= share <= 1.
    """
    if not 0.0 <= share <= 1.0:
        raise ValueError(f"share is {share}; expected a number from 0 to 1.")
    parts: tuple[list[Problem], list[Problem]] = ([], [])
    for problem in problems:
        digest = hashlib.sha256(f"{seed}:{problem.key}".encode()).digest()
        parts[int.from_bytes(digest[:8]) < share * 2**64].append(problem)
    return tuple(parts[0]), tuple(parts[1])


def without(problems: Sequence[Problem], others: Iterable[Problem]) -> tuple[Problem, ...]:
    """`problems` without those that are also among `others`, for a held-out set from a source of its own."""
    keys = {problem.key for problem in others}
    return tuple(problem for problem in problems if problem.key not in keys)


def text_key(text: str) -> str:
    r"""Hash of a problem's text without its layout: white space, `$`, braces, spacing commands, case and figures.

    >>> text_key("Find $x$ , if\n$x = \\dfrac{1}{2}$ .") == text_key("find \\(x\\), if $x=\\frac 12$.")
    True
    >>> text_key("Find $m+n$.") == text_key("Find $m-n$.")
    False
    """
    plain = (
        unicodedata.normalize("NFKC", _ASY_BLOCK.sub("", text))
        .replace("\\dfrac", "\\frac")
        .replace("\\tfrac", "\\frac")
    )
    return hashlib.sha256(_LAYOUT.sub("", plain).casefold().encode("utf-8", "surrogatepass")).hexdigest()


def figure(text: str) -> str | None:
    """How a problem holds its figure: "asy" as code, "image" only as the name of an image file, None without one.

    >>> figure("[asy] draw(A--B); [/asy]"), figure("Find x. AIME 1990 Problem 1.png"), figure("Find x.")
    ('asy', 'image', None)
    """
    if "[asy]" in text:
        return "asy"
    return "image" if _IMAGE.search(text) else None


def _open(source: str | Path, split: str | None, config: str | None) -> tuple[Table, tuple[str | None, str | None]]:
    """The table, and the columns that a preset names."""
    path, name = Path(source), str(source)
    if _is_data_set(name, path):
        table, preset = load_hub(name, split=split, config=config)
        return table, (preset.problem, preset.answer) if preset else (None, None)
    if split or config:
        raise InputError(f"{name} is a file; a split or a config can only be chosen in a data set of the hub.")
    return read_table(path), (None, None)


def _is_data_set(name: str, path: Path) -> bool:
    if name in PRESETS or path.is_dir():
        return True
    like_hub = re.fullmatch(r"[\w.-]+/[\w.-]+", name) is not None and path.suffix.lower() not in READERS
    return like_hub and not path.exists()


def _column(table: Table, wanted: str | None, usual: Sequence[str], role: str) -> str:
    """The column of `role` as it is spelt in the table."""
    found = ", ".join(table.columns)
    spelt: dict[str, list[str]] = {}
    for column in table.columns:
        spelt.setdefault(column.strip().lower(), []).append(column)
    if wanted is None:
        name = next((name for name in usual if name in spelt), None)
        if name is None:
            raise InputError(
                f"{table.name}: no column looks like the {role}; expected one of {', '.join(usual)}. Columns found: "
                f"{found}. Name the one to take ({role}_column)."
            )
    elif wanted in table.columns:
        return _once(table, wanted, role)
    else:
        name = wanted.strip().lower()
        if name not in spelt:
            close = nearest(wanted, table.columns)
            raise InputError(f"{table.name} has no column '{wanted}' for the {role}. Columns found: {found}.{close}")
    if len(spelt[name]) > 1:
        raise InputError(f"{table.name}: several columns are called {', '.join(spelt[name])}; name one for the {role}.")
    return spelt[name][0]


def _once(table: Table, column: str, role: str) -> str:
    if table.columns.count(column) > 1:
        raise InputError(f"{table.name}: the column '{column}', taken for the {role}, is there more than once.")
    return column


def collect(table: Table, problem_column: str, answer_column: str) -> Loaded:
    """The problems of a table, every row sorted into those that can be used and those that can't."""
    found: dict[str, Problem] = {}
    odd: list[OddRow] = []
    figures: list[str] = []
    duplicates: list[str] = []
    names = {column.strip().lower(): column for column in reversed(table.columns)}
    for row in table.rows:
        label = _label(row, names)
        text = row.cells.get(problem_column, "").strip()
        fault = row.fault or (None if text else f"Column '{problem_column}': the problem is empty.")
        if fault:
            odd.append(OddRow(label, fault))
            continue
        if figure(text) == "image":
            figures.append(label)
            continue
        try:
            golds = parse_gold(row.cells.get(answer_column, ""))
        except ValueError as error:
            odd.append(OddRow(label, f"Column '{answer_column}': {error}"))
            continue
        problem = Problem(text_key(text), label, text, golds, _level(row, names))
        earlier = found.setdefault(problem.key, problem)
        if earlier.golds != golds:
            odd.append(
                OddRow(label, f"Column '{answer_column}': {earlier.row} has the same problem and another answer.")
            )
        elif earlier is not problem:
            duplicates.append(label)
    problems = tuple(found.values())
    counts = {
        "rows": len(table.rows),
        "odd": len(odd),
        "figures_dropped": len(figures),
        "duplicates": len(duplicates),
        "problems": len(problems),
        "several_golds": sum(len(problem.golds) > 1 for problem in problems),
        "zeros": sum(0 in problem.golds for problem in problems),
        "figures_kept": sum(figure(problem.text) == "asy" for problem in problems),
    }
    return Loaded(
        table.name, problem_column, answer_column, problems, tuple(odd), tuple(figures), tuple(duplicates), counts
    )


def _label(row: Row, names: dict[str, str]) -> str:
    column = next((names[name] for name in ID_COLUMNS if name in names), None)
    own = row.cells.get(column, "").strip() if column else ""
    return f"row {row.number} ({own})" if own else f"row {row.number}"


def _level(row: Row, names: dict[str, str]) -> str:
    """By the number within the contest, 1 to 15; 16 to 30 are the second contest of a year in one list."""
    column = next((names[name] for name in NUMBER_COLUMNS if name in names), None)
    number = row.cells.get(column, "").strip() if column else ""
    if not number:
        own = _ID_NUMBER.search(next((row.cells.get(names[name], "") for name in ID_COLUMNS if name in names), ""))
        number = own[1] if own else ""
    if not re.fullmatch(r"0*(?:[1-9]|[12]\d|30)", number):
        return "medium"
    return ("easy", "medium", "hard")[(int(number) - 1) % 15 // 5]
