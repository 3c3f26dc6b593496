"""How long grading one integer answer takes. Target: under 50 microseconds for a text of 4 kB.

    python benchmarks/aime_grade.py [--rounds 7]

The texts are solutions in LaTeX, 4 kB each; `worst` are texts of 100 kB that are made to be slow.
"""

from __future__ import annotations

import argparse
import statistics
import timeit

from botgrpo_cli.tasks.aime.answer import grade

GOLD = frozenset({42})
PROSE = (
    "Let $p_{n}$ be the number of ways, so $p_{n+1} = \\frac{3}{4} p_{n} + \\sqrt{2}$ when $n \\geq 2$. We sum over "
    "all $k < n$ and find\n\\[ \\sum_{k=1}^{n} \\binom{n}{k} = 2^{n} - 1. \\]\n\n"
)
SIZE, LONG = 4_000, 100_000
LEAST = 0.2  # seconds a round


def filled(size: int, tail: str) -> str:
    return (PROSE * (size // len(PROSE) + 1))[: size - len(tail)] + tail


TEXTS = {
    "box at the end": filled(SIZE, " So $m + n = \\boxed{042}$."),
    "decorated box": filled(SIZE, " \\boxed{\\text{(C) }m+n=1{,}042^\\circ}."),
    "reasoning before": "<think>" + filled(SIZE - 14, "</think>\\boxed{42}"),
    "ten boxes": filled(SIZE, " \\boxed{42}" * 10),
    "no box": filled(SIZE, " The answer is 42."),
    "box never closed": filled(SIZE, " \\boxed{42"),
    "unclosed at the start": "\\boxed{" + filled(SIZE - 7, "\\boxed{42}"),
    "worst: open braces": "\\boxed" + "{" * LONG,
    "worst: open boxes": "\\boxed{" * (LONG // 7),
    "worst: tags": "<think>" * (LONG // 7),
    "worst: backslashes": "\\" * LONG,
}


def microseconds(text: str, rounds: int) -> list[float]:
    """Of one call, in each round."""
    timer = timeit.Timer(lambda: grade(text, GOLD))
    once = max(timer.timeit(3) / 3, 1e-7)
    calls = max(1, int(LEAST / once))
    return [1e6 * seconds / calls for seconds in timer.repeat(rounds, calls)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    print(f"{'text':24}{'characters':>11}{'median µs':>11}{'lowest µs':>11}  status")
    for name, text in TEXTS.items():
        times = microseconds(text, options.rounds)
        found = grade(text, GOLD)
        print(f"{name:24}{len(text):11,}{statistics.median(times):11.1f}{min(times):11.1f}  {found.status}")


if __name__ == "__main__":
    main()
