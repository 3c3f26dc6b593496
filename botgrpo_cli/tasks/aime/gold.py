r"""Gold answers as data sets write them, read into sets of integers from 0 to 999."""

from __future__ import annotations

import re

from botgrpo_cli.tasks.aime.answer import integer, last_box

HIGHEST = 999
LONGEST = 80  # characters of a cell without a box: longer ones are prose, whose last number may be anything
_ACCEPTED = re.compile(r"\([^()]*\baccept[^()]*\)")
_OR = re.compile(r"\s+or\s+", re.IGNORECASE)


def parse_gold(text: str) -> frozenset[int]:
    r"""The integers of a gold cell: one, or several joined by "or" when several were accepted.

    A cell with a closed `\boxed{}`, such as a whole solution, stands for the content of the last one. A note in
    parentheses that says what was accepted is dropped. Each integer may be decorated as in an answer
    (`tasks.aime.answer.grade`). 0 is a gold answer like any other.

    ValueError, as a sentence without a file or row, for everything else.

    >>> sorted(parse_gold("080 or 081 (both were accepted)")), parse_gold(r"336^\circ"), parse_gold("000")
    ([80, 81], frozenset({336}), frozenset({0}))
    >>> parse_gold("1024")
    Traceback (most recent call last):
    ValueError: The answer '1024' is not an integer from 0 to 999.
    """
    content, _ = last_box(text)
    cell = text if content is None else content
    if not cell.strip():
        raise ValueError("The answer is empty.")
    cell = cell.strip()
    golds = {integer(part) for part in _OR.split(_ACCEPTED.sub("", cell).strip())} if len(cell) <= LONGEST else {None}
    if not all(gold is not None and 0 <= gold <= HIGHEST for gold in golds):
        shown = " ".join(cell[:LONGEST].split()) + "…" * (len(cell) > LONGEST)
        raise ValueError(f"The answer '{shown}' is not an integer from 0 to {HIGHEST}.")
    return frozenset(gold for gold in golds if gold is not None)
