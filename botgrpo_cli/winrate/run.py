"""A whole comparison: sample both sides, draw, judge, and keep what is finished after each pair of steps."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import botgrpo_cli
from botgrpo_cli.errors import InputError
from botgrpo_cli.judges.pairwise import PairJudge, PairResult, WinRate, summarise
from botgrpo_cli.records.manifest import git_state, hardware, software, write_manifest
from botgrpo_cli.records.write import make_folder, write_atomic
from botgrpo_cli.tasks.base import Prompt
from botgrpo_cli.winrate.contender import Renderer
from botgrpo_cli.winrate.contest import Pair, compare
from botgrpo_cli.winrate.gallery import gallery
from botgrpo_cli.winrate.sides import Side
from botgrpo_cli.winrate.tables import PAIRS, TABLE, Steps, row_of, write_pairs, write_table

GALLERY = "gallery.html"


class Watcher(Protocol):
    """What a person sees of it."""

    def sampling(self, side: Side, step: int | None, total: int) -> Callable[[], None]:
        """Called before a side's apps are sampled; what it returns is called for each app."""
        ...

    def judging(self, steps: Steps, total: int) -> Callable[[PairResult], None]: ...

    def judged(self, steps: Steps, found: WinRate) -> None: ...


@dataclass
class Outcome:
    rows: list[dict[str, Any]]  # of winrate.csv
    rates: list[WinRate]


def win_rates(
    a: Side,
    b: Side,
    steps: Sequence[Steps],
    prompts: Sequence[Prompt],
    judge: PairJudge,
    renderer: Renderer | None,
    out: Path,
    watch: Watcher,
) -> Outcome:
    """Compares at each pair of steps and writes winrate.csv, pairs.jsonl, gallery.html and manifest.json into `out`.

    All of them are whole after every pair of steps, so that what is interrupted keeps what it has. Completions of a
    step without a change (a model, a folder) are made once.
    """
    started = time.time()
    # Asked once: none of it changes while apps are compared.
    made_with = {
        "toolchain": renderer.versions() if renderer else {},
        "software": software(),
        "hardware": hardware(),
        "git": git_state(Path(botgrpo_cli.__file__).parent),
    }
    written: dict[tuple[int, int | None], Any] = {}

    def entries(number: int, side: Side, step: int | None) -> Any:
        if (number, step) not in written:
            for other in [key for key in written if key[0] == number]:
                del written[other]  # one set of apps a side is kept
            written[number, step] = side.entries(prompts, step, watch.sampling(side, step, len(prompts)))
        return written[number, step]

    compared: list[tuple[Steps, list[Pair]]] = []
    outcome = Outcome([], [])
    for pair_of_steps in steps:
        mine, other = (entries(number, side, pair_of_steps[number]) for number, side in enumerate((a, b)))
        pairs = compare(prompts, mine, other, judge, renderer, done=watch.judging(pair_of_steps, len(prompts)))
        found = summarise([pair.result for pair in pairs])
        compared.append((pair_of_steps, pairs))
        outcome.rates.append(found)
        outcome.rows.append(row_of(a, b, pair_of_steps, judge, len(prompts), found))
        _write(out, a, b, judge, prompts, outcome, compared, made_with | {"seconds": round(time.time() - started, 1)})
        watch.judged(pair_of_steps, found)
    return outcome


def _write(
    out: Path,
    a: Side,
    b: Side,
    judge: PairJudge,
    prompts: Sequence[Prompt],
    outcome: Outcome,
    compared: Sequence[tuple[Steps, list[Pair]]],
    made_with: dict[str, Any],
) -> None:
    write_table(out / TABLE, outcome.rows)
    write_pairs(out / PAIRS, compared)
    names = tuple(distinct_names(a, b))
    page = gallery(f"{names[0]} against {names[1]}", names, facts(judge, outcome), compared)
    write_atomic(out / GALLERY, page.encode())
    label = judge.label
    manifest = {
        "kind": "winrate",
        "sides": [{"name": side.name, "run": side.run, **side.labels, "trained_with": side.judge} for side in (a, b)],
        "steps": [list(steps) for steps, _ in compared],
        "prompts": [prompt.id for prompt in prompts],
        "judge": judge.describe(),
        "shown": judge.shown,
        "heuristic": ["pairwise judge"] if label in ("heuristic", "simulated") else [],
        "simulated": judge.describe().get("errors", []),
        **made_with,
    }
    write_manifest(out, manifest)


def distinct_names(a: Side, b: Side) -> list[str]:
    """The names of both, told apart where they are the same (two folders called `run`)."""
    return [a.name, b.name] if a.name != b.name else [f"{a.name} (A)", f"{b.name} (B)"]


def facts(judge: PairJudge, outcome: Outcome) -> list[tuple[str, str]]:
    """What the gallery says above the pairs."""
    rows = [("judge", judge.label), ("compared", judge.shown)]
    for row, rate in zip(outcome.rows, outcome.rates, strict=True):
        at = "" if row["step_a"] is None and row["step_b"] is None else f" at step {_step(row)}"
        rows.append((f"win rate{at}", describe(rate)))
    return rows


def describe(found: WinRate) -> str:
    if found.rate is None:
        return f"none: all {found.invalid} pairs are invalid"
    interval = f" ({found.rate.low:.1%} – {found.rate.high:.1%})" if found.rate.low is not None else ""
    return (
        f"{found.rate.mean:.1%}{interval}: {found.win:.0%} won, {found.tie:.0%} tied, {found.loss:.0%} lost "
        f"of {found.n} valid pairs, {found.invalid} invalid, {found.forfeits} decided without the judge"
    )


def _step(row: dict[str, Any]) -> str:
    first, second = row["step_a"], row["step_b"]
    return f"{first}" if first == second else f"{'–' if first is None else first} / {'–' if second is None else second}"


def make_room(out: Path) -> None:
    """Raises InputError when `out` holds something that is no earlier comparison."""
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is a file. Name a folder with --out.")
    if out.is_dir() and any(out.iterdir()) and not (out / TABLE).is_file():
        raise InputError(f"{out} holds something else than a comparison (no {TABLE}). Name another with --out.")
    make_folder(out)
