"""Steps, medians and the table of `vs_trl.py`."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any

from rich.console import Console
from rich.table import Table

from botgrpo_cli.records.manifest import hardware


@dataclass(frozen=True)
class Step:
    """One measured step; `parts` are seconds and add up to `seconds`."""

    tokens: int  # completion tokens, end tokens included
    seconds: float
    parts: dict[str, float]

    @property
    def speed(self) -> float:
        return self.tokens / self.seconds


def median_step(steps: list[Step]) -> dict[str, Any]:
    """Medians over the rounds; `speed` in completion tokens per second, all other times in seconds a step."""
    return {
        "speed": statistics.median(s.speed for s in steps),
        "tokens": statistics.median(s.tokens for s in steps),
        "seconds": statistics.median(s.seconds for s in steps),
        "parts": {name: statistics.median(s.parts[name] for s in steps) for name in steps[0].parts},
    }


def summary(done: dict[str, list[Step]]) -> dict[str, Any]:
    """Medians of both sides and `ratio`, ours over TRL's, of tokens per second."""
    pairs = [a.speed / b.speed for a, b in zip(done["botgrpo"], done["trl"], strict=True)]
    ours, theirs = median_step(done["botgrpo"]), median_step(done["trl"])
    return {
        "botgrpo": ours,
        "trl": theirs,
        "ratio": ours["speed"] / theirs["speed"],
        "ratio_of_rounds": [min(pairs), statistics.median(pairs), max(pairs)],
        "steps": {side: [asdict(step) for step in steps] for side, steps in done.items()},
    }


def machine(threads: int, packages: Sequence[str]) -> dict[str, Any]:
    """What the figures depend on: the processor, its threads in use, versions of packages."""
    here = hardware()
    return {
        "cpu": here["cpu"],
        "cores": here["cores"],
        "threads": threads,
        **{name: version(name) for name in packages},
    }


def show(console: Console, title: str, result: dict[str, Any]) -> None:
    """The table of one setting, from `summary`."""
    table = Table(title=title, title_justify="left")
    for heading in ("", "tokens/s", "tokens a step", "seconds a step", "of which"):
        table.add_column(heading, justify="left" if heading in ("", "of which") else "right")
    for side in ("trl", "botgrpo"):
        row = result[side]
        parts = ", ".join(f"{name} {seconds:.3f}" for name, seconds in row["parts"].items())
        table.add_row(side, f"{row['speed']:,.0f}", f"{row['tokens']:,.0f}", f"{row['seconds']:.3f}", parts)
    console.print(table)
    low, middle, high = result["ratio_of_rounds"]
    console.print(f"ratio of the medians {result['ratio']:.2f}")
    console.print(f"ratios of single rounds: median {middle:.2f}, range {low:.2f}-{high:.2f}")
    for name, share in result["limits"]["share_of_limit"].items():
        rate = result["limits"]["gflops"][name]
        console.print(f"{name}: {share:.0%} of the speed of matmuls alone, at {rate:,.0f} GFLOP/s for such shapes here")
    console.print()
