"""The tables of a comparison: a row a pair of steps in winrate.csv, a line a pair of apps in pairs.jsonl."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from botgrpo_cli.errors import InputError
from botgrpo_cli.judges.base import OUTCOMES
from botgrpo_cli.judges.pairwise import PairJudge, WinRate
from botgrpo_cli.records.write import to_json, write_atomic
from botgrpo_cli.winrate.contest import Pair, state

if TYPE_CHECKING:
    from botgrpo_cli.winrate.sides import Side  # torch comes with it, which reading and drawing a table need not

TABLE, PAIRS = "winrate.csv", "pairs.jsonl"
LABELS = ("method", "base_model", "scale", "seed")
SHARES = ("win", "tie", "loss", "rate", "ci_low", "ci_high", "first_position_rate", "flip_rate")
COLUMNS = (
    "run_a",
    "run_b",
    "step_a",
    "step_b",
    *(f"{label}_{side}" for label in LABELS for side in "ab"),
    "judge",
    "shown",
    "prompts",
    "n",
    "invalid",
    "forfeits",
    *SHARES,
    *(f"rounds_{outcome}" for outcome in OUTCOMES),
)
Steps = tuple[int | None, int | None]


def row_of(a: Side, b: Side, steps: Steps, judge: PairJudge, prompts: int, found: WinRate) -> dict[str, Any]:
    """One row of winrate.csv; None where a value does not exist. Rates are shares of the valid pairs, of A over B."""
    rate = found.rate
    return {
        "run_a": a.name,
        "run_b": b.name,
        "step_a": steps[0],
        "step_b": steps[1],
        **{f"{label}_{letter}": side.labels[label] for label in LABELS for letter, side in (("a", a), ("b", b))},
        "judge": judge.label,
        "shown": judge.shown,
        "prompts": prompts,
        "n": found.n,
        "invalid": found.invalid,
        "forfeits": found.forfeits,
        "win": found.win,
        "tie": found.tie,
        "loss": found.loss,
        "rate": rate.mean if rate else None,
        "ci_low": rate.low if rate else None,
        "ci_high": rate.high if rate else None,
        "first_position_rate": found.first_position_rate,
        "flip_rate": found.flip_rate,
        **{f"rounds_{outcome}": found.outcomes[outcome] for outcome in OUTCOMES},
    }


def write_table(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """In one rename; empty cells where a value does not exist."""
    text = io.StringIO()
    table = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    write_atomic(path, text.getvalue().encode())


def read_table(path: Path) -> pd.DataFrame:
    """Texts as texts, numbers as numbers, NaN for an empty cell. Raises InputError for any other kind of file."""
    try:
        table = pd.read_csv(path, dtype=str, keep_default_na=False)
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read as a table of win rates: {error}.") from error
    if list(table.columns) != list(COLUMNS):
        missing = [name for name in COLUMNS if name not in table.columns]
        raise InputError(f"{path} is no table of win rates: the column '{(missing or list(COLUMNS))[0]}' is missing.")
    counts = ["step_a", "step_b", "prompts", "n", "invalid", "forfeits", *(f"rounds_{name}" for name in OUTCOMES)]
    for name in (*counts, *SHARES):
        table[name] = pd.to_numeric(table[name].replace("", None))
    return table


def write_pairs(path: Path, compared: Sequence[tuple[Steps, Sequence[Pair]]]) -> None:
    """What was judged and how, one JSON object a pair: sources, fates of both apps, each round's vote and words."""
    lines = []
    for steps, pairs in compared:
        for pair in pairs:
            lines.append(to_json(_line(steps, pair)))
    write_atomic(path, "".join(line + "\n" for line in lines).encode())


def _line(steps: Steps, pair: Pair) -> dict[str, Any]:
    apps = {
        letter: {"source": entry.source, "language": entry.language, "problem": state(entry, app), "step": step}
        for letter, entry, app, step in zip("ab", pair.entries, pair.apps, steps, strict=True)
    }
    result = pair.result
    return {
        "prompt": pair.prompt.id,
        "brief": pair.prompt.text,
        "a_share": result.a_share,
        "forfeit": result.forfeit,
        "rounds": [asdict(each) for each in result.rounds],
        **apps,
    }
