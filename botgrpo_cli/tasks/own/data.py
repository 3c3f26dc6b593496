"""Where an own task's prompts come from, in two splits that share none: a file, a hub data set, a source's own rows."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from botgrpo_cli.errors import InputError, nearest
from botgrpo_cli.recipe.section import FilePath, Section, Share
from botgrpo_cli.tasks.base import SPLITS, Split
from botgrpo_cli.tasks.own.chat import Chat, complete, places, read_prompt, same_prompt
from botgrpo_cli.tasks.own.functions import Rows
from botgrpo_cli.tasks.tables import READERS, Row, Table, find_column, read_hub, read_table, table_of

PROMPT_COLUMNS = ("prompt", "question", "problem", "input", "instruction", "query", "messages")
DEFAULTS = {"split": "train", "held_out_split": "test"}  # where `datasets` reads
LISTED = 10  # rows that an error names


class DataSection(Section):
    """The keys of `task:` that say which prompts there are."""

    data: FilePath | None = None
    """Prompts: a jsonl, json, csv or parquet file, a folder that `datasets` reads, or a hub id; null takes the
    source's own."""
    prompt_column: str | None = None
    """Column of the prompts, which are texts or lists of chat messages; null takes the first of prompt, question,
    problem, input, instruction, query and messages."""
    split: str | None = None
    """Split to train on: of a hub data set, or rows of a file with this value in a column `split`. null takes train,
    and all rows of a file without such a split."""
    config: str | None = None
    """Config of a hub data set."""
    held_out: FilePath | None = None
    """Another file, folder or hub id whose prompts are held out; null takes them from `data`."""
    held_out_split: str | None = None
    """Split to hold out: of a hub data set, or rows with this value in a column `split`. null takes a share of `data`,
    or of `held_out` the split test (a hub data set) or all rows (a file)."""
    share: Share = 0.1
    """Share of the prompts held out where neither key above names any: by a hash of `seed` and the prompt, so that the
    others change nothing."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Seed of that hash."""
    system: str | None = None
    """System message put before every prompt."""
    instruction: str | None = None
    """Template around prompts that are texts: {prompt} and every {column} are places. Other braces stay, and so do
    those of a command, as in \\boxed{answer}."""


@dataclass(frozen=True)
class Item:
    """One prompt. `id` is stable across runs and unique over both splits."""

    id: str
    prompt: str | Chat  # complete: what the policy is given
    given: str | Chat  # as the data has it, without instruction and system message
    columns: dict[str, Any]  # the whole row


@dataclass(frozen=True)
class DataSet:
    """The prompts of both splits in the order of the data; `counts` and `versions` go into the manifest."""

    items: dict[Split, tuple[Item, ...]]
    counts: dict[str, Any]
    versions: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Draft:
    given: str | Chat
    prompt: str | Chat
    columns: dict[str, Any]
    key: str  # the same for prompts that must not be in both splits
    digest: str  # of the whole row


def load_data(section: DataSection) -> DataSet:
    """Reads, checks and splits the prompts that the keys name.

    Rows that are the same in every column count once. A prompt of an explicit held-out set leaves the training set.
    Prompt ids are those of a column `id` where they are unique over both splits, else a hash of the row. Raises
    InputError: something can't be read, rows can't be used, nothing is left for a split.
    """
    if section.data is None:
        raise InputError("task.data names no prompts; expected a jsonl, json, csv or parquet file, or a hub id.")
    file = _file(section.data, section.config)
    counts: dict[str, Any] = {"source": section.data}
    if section.held_out is None:
        if section.split is not None and section.split == section.held_out_split:
            raise InputError(f"task.split and task.held_out_split are both '{section.split}'; expected two splits.")
        train, others = _part(section, section.data, file, "split", but=section.held_out_split)
        held_out, other = None, file
        if section.held_out_split is not None:
            held_out, _ = _part(section, section.data, file, "held_out_split")
            others.pop(section.held_out_split, None)
    else:
        train, others = _part(section, section.data, file, "split")
        other = _file(section.held_out, None)
        held_out, _ = _part(section, section.held_out, other, "held_out_split")
        counts["held_out_source"] = section.held_out
    if others:
        counts["other_splits"] = others
    found = _assembled({"train": train, "held-out": held_out}, section, counts)
    return replace(found, versions={"datasets": version("datasets")}) if file is None or other is None else found


def load_rows(rows: Rows, section: DataSection, name: str) -> DataSet:
    """As `load_data`, for the rows that the source `name` brings: of both splits, or of "train", of which a share is
    then held out. Prompts are in the column `prompt`. Raises InputError, also when the keys name other prompts."""
    keys = ("data", "prompt_column", "split", "config", "held_out", "held_out_split")
    named = [f"task.{key}" for key in keys if getattr(section, key) is not None]
    if named:
        raise InputError(f"{name} brings its own prompts, so {' and '.join(named)} must be null.")
    for split in rows:
        if split not in SPLITS:
            raise InputError(
                f"{name} has rows of a split '{split}'; expected {' or '.join(SPLITS)}.{nearest(split, SPLITS)}"
            )
    tables = {split: table_of(name, rows[split], typed=True) if rows.get(split) else None for split in SPLITS}
    if tables["train"] is None:
        raise InputError(f"{name} has no rows to train on.")
    return _assembled(tables, section.model_copy(update={"prompt_column": "prompt"}), {"source": name})


def say_counts(data: DataSet) -> str:
    """How many prompts there are, and what was left out, in sentences."""
    counts = data.counts
    said = [f"{counts['source']}: {counts['train']} prompts to train on, {counts['held-out']} held out."]
    if counts["duplicates"]:
        said.append(f"Rows that repeat another one and were dropped: {counts['duplicates']}.")
    if counts.get("in_both"):
        said.append(f"Prompts that are held out too and left the training set: {counts['in_both']}.")
    if "other_splits" in counts:
        others = ", ".join(f"{split} ({count})" for split, count in counts["other_splits"].items())
        said.append(f"Rows of other splits, which are not used: {others}.")
    return " ".join(said)


def is_held_out(key: str, *, seed: int, share: float) -> bool:
    """Whether the hash of seed and key falls into the lowest `share`: for about that share of all keys.

    >>> is_held_out("a prompt", seed=0, share=0.0), is_held_out("a prompt", seed=0, share=1.0)
    (False, True)
    """
    digest = hashlib.sha256(f"{seed}:{key}".encode()).digest()
    return int.from_bytes(digest[:8]) < share * 2**64


def _file(name: str, config: str | None) -> Table | None:
    """The whole file; None for what `datasets` reads: a folder, or what can only be a hub id."""
    path = Path(name)
    like_hub = re.fullmatch(r"[\w.-]+/[\w.-]+", name) is not None and path.suffix.lower() not in READERS
    if path.is_dir() or (like_hub and not path.exists()):
        return None
    if config is not None:
        raise InputError(f"{name} is a file; task.config chooses in a data set of the hub.")
    return read_table(path, typed=True)


def _part(
    section: DataSection, name: str, file: Table | None, key: str, *, but: str | None = None
) -> tuple[Table, dict[str, int]]:
    """The rows of the split that `key` names, all but those of `but` where none is named, and how many rows of a file
    have another split."""
    split = getattr(section, key)
    if file is None:
        config = section.config if name == section.data else None
        return read_hub(name, split=split or DEFAULTS[key], config=config), {}
    if "split" not in file.columns:
        if split is not None:
            found = ", ".join(file.columns)
            raise InputError(f"{file.name} has no column 'split' (task.{key}: {split}). Columns found: {found}.")
        return file, {}
    sizes = Counter(str(row.cells["split"]) for row in file.rows if not row.fault)
    if split is None and key == "split" and DEFAULTS[key] in sizes:
        split = DEFAULTS[key]
    if split is not None and split not in sizes:
        raise InputError(
            f"{file.name}: no row has '{split}' in its column 'split' (task.{key}). Found: {', '.join(sizes)}."
            f"{nearest(split, sizes)}"
        )
    kept = {split} if split is not None else {*sizes} - {but}
    rows = tuple(row for row in file.rows if row.fault or str(row.cells["split"]) in kept)
    return replace(file, rows=rows), {other: size for other, size in sizes.items() if other not in kept}


def _assembled(tables: Mapping[Split, Table | None], section: DataSection, counts: dict[str, Any]) -> DataSet:
    found = {split: _drafts(table, section) if table else [] for split, table in tables.items()}
    unique = {split: list({draft.digest: draft for draft in part}.values()) for split, part in found.items()}
    rows = sum(map(len, found.values()))
    counts |= {"rows": rows, "duplicates": rows - sum(map(len, unique.values()))}
    train, held_out = unique["train"], unique["held-out"]
    if tables["held-out"] is None:
        parts: tuple[list[_Draft], list[_Draft]] = ([], [])
        for draft in unique["train"]:
            parts[is_held_out(draft.key, seed=section.seed, share=section.share)].append(draft)
        train, held_out = parts
    else:
        keys = {draft.key for draft in held_out}
        train = [draft for draft in train if draft.key not in keys]
        counts["in_both"] = len(unique["train"]) - len(train)
    for split, part in zip(SPLITS, (train, held_out), strict=True):
        if not part:
            raise InputError(_nothing_left(split, len(unique["train"]), section, counts))
    ids, counts["ids"] = _ids([*train, *held_out])
    items = [
        Item(number, draft.prompt, draft.given, draft.columns)
        for number, draft in zip(ids, [*train, *held_out], strict=True)
    ]
    counts |= {"train": len(train), "held-out": len(held_out)}
    return DataSet({"train": tuple(items[: len(train)]), "held-out": tuple(items[len(train) :])}, counts)


def _drafts(table: Table, section: DataSection) -> list[_Draft]:
    column = find_column(table, section.prompt_column, PROMPT_COLUMNS, "task.prompt_column")
    named = places(section.instruction, table.columns, table.name) if section.instruction is not None else ()
    # Such columns belong to the prompt; the wording of the instruction doesn't, so that another one splits alike.
    also = [name for name in named if name not in ("prompt", column)]
    drafts, odd = [], []
    for row in table.rows:
        try:
            drafts.append(_draft(row, column, also, section))
        except ValueError as problem:
            odd.append(f"  row {row.number}: {problem}")
    if odd:
        more = f"\n  and {len(odd) - LISTED} more" if len(odd) > LISTED else ""
        raise InputError(
            f"{table.name}: {len(odd)} of {len(table.rows)} rows can't be used.\n" + "\n".join(odd[:LISTED]) + more
        )
    return drafts


def _draft(row: Row, column: str, also: Sequence[str], section: DataSection) -> _Draft:
    if row.fault:
        raise ValueError(row.fault)
    columns = dict(row.cells)
    try:
        given = read_prompt(columns[column])
        prompt = complete(given, columns, section.instruction, section.system)
    except ValueError as problem:
        raise ValueError(f"Column '{column}': {problem}") from None
    digest = hashlib.sha256(json.dumps(columns, sort_keys=True).encode()).hexdigest()
    return _Draft(given, prompt, columns, same_prompt(given, [columns[name] for name in also]), digest)


def _ids(drafts: Sequence[_Draft]) -> tuple[list[str], str]:
    """A unique id for each, and where they are from."""
    columns = {name: None for draft in drafts for name in draft.columns if name.strip().lower() == "id"}
    for column in columns:
        cells = [draft.columns.get(column) for draft in drafts]
        own = [str(cell) for cell in cells if isinstance(cell, str | int) and str(cell).strip()]
        if len({*own}) == len(drafts):
            return own, f"column '{column}'"
    return [draft.digest[:16] for draft in drafts], "hash of the row"


def _nothing_left(split: Split, count: int, section: DataSection, counts: Mapping[str, Any]) -> str:
    if "in_both" in counts:
        return f"All {count} prompts of {counts['source']} are held out too, so none is left to train on."
    which = "train on" if split == "train" else "hold out"
    return (
        f"None of the {count} prompts of {counts['source']} is left to {which} with task.share {section.share:g} and "
        f"task.seed {section.seed}; change one of the two."
    )
