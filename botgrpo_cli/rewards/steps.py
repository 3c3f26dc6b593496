r"""Steps of a solution, and the tokens that wrote them. Counted in bytes, as lines are in `rewards.spans`.

Everything here is our choice; the paper says only that steps are judged.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

Boundary = Literal["blank-lines", "markers"]

MOST_STEPS = 64

# No repeated part of a pattern can match what follows it: linear time.
_TEXT = re.compile(rb"\S")
_BLANK_LINES = re.compile(rb"\n(?:[ \t\r\f\v]*\n)+")
_LINE_END = re.compile(rb"\n")
_MARKER = re.compile(rb"^[ \t#*_>-]*step[ \t]*\d{1,3}[ \t*_]*(?:[:.)-]|\r?$)", re.IGNORECASE | re.MULTILINE)
_DELIMITER = re.compile(
    rb"\\[\\$]|\$\$|\\\[|\\\]|\\(begin|end)[ \t]*\{([^{}\n]{1,40})\}|^ {0,3}(`{3,}|~{3,})([^\n]*)", re.MULTILINE
)


class Span(NamedTuple):
    """Bytes `start` up to `end`, `end` not included."""

    start: int
    end: int


@dataclass(frozen=True)
class Steps:
    """`spans` [S] cover the completion without a gap; `of_token` [T] is the step of each token, -1 for none."""

    spans: list[Span]
    of_token: list[int]


def split_steps(data: bytes, *, at: Boundary = "blank-lines", most: int = MOST_STEPS) -> list[Span]:
    r"""Cut a completion into steps, in order and without a gap.

    A step starts at the first line with text after a blank line; in a text without blank lines between text, at every
    line with text. `markers` cuts only in front of lines that start with "Step 1:" and the like (bold, headings and
    any case included), where there are any. Code fences, `$$`, `\[ \]` and `\begin{} \end{}` are never cut; an
    unclosed fence reaches to the end of the text, other unclosed delimiters count for nothing. There are at most
    `most` steps; the rest joins the last one. A text without anything but white space is one step, no bytes are none.

    >>> text = b"Step 1: a\n\nb\n\n\\[\nx\n\n\\]\n\nStep 2: c\n"
    >>> [text[start:end] for start, end in split_steps(text)]
    [b'Step 1: a\n\n', b'b\n\n', b'\\[\nx\n\n\\]\n\n', b'Step 2: c\n']
    >>> [text[start:end] for start, end in split_steps(text, at="markers")]
    [b'Step 1: a\n\nb\n\n\\[\nx\n\n\\]\n\n', b'Step 2: c\n']
    >>> split_steps(b"one\ntwo\n")
    [Span(start=0, end=4), Span(start=4, end=8)]

    ValueError for an unknown `at`, or `most` below 1.
    """
    if at not in ("blank-lines", "markers") or most < 1:
        raise ValueError(f"at is {at!r} and most {most}; expected 'blank-lines' or 'markers', and at least 1 step.")
    if not data:
        return []
    whole = _protected(data)
    marks = _outside([match.start() for match in _MARKER.finditer(data)], whole) if at == "markers" else []
    if marks:
        cuts = _between_text(data, marks)
    else:
        cuts = _between_text(data, _outside([match.end() for match in _BLANK_LINES.finditer(data)], whole))
        cuts = cuts or _between_text(data, _outside([match.end() for match in _LINE_END.finditer(data)], whole))
    bounds = [0, *cuts[: most - 1], len(data)]
    return [Span(start, end) for start, end in pairwise(bounds)]


def steps_and_tokens(pieces: Sequence[bytes], *, at: Boundary = "blank-lines", most: int = MOST_STEPS) -> Steps:
    r"""Steps of a completion given as the bytes of its tokens, and the step of each token.

    A token belongs to the step of its first byte that is not ASCII white space; a token of white space alone stays
    with the step before it. A special token, `b""`, is in no step: -1, as in `Scored.steps`. A step to which no token
    belongs merges into the next one, the last one into the one before, so that every step that is judged reaches
    some token. Apart from -1, steps never decrease and none is missing.

    Shapes: pieces [T], `spans` [S], `of_token` [T].

    >>> found = steps_and_tokens([b"a", b".\n\nb", b"\n\n", b"c", b"\n", b""])
    >>> found.of_token, found.spans
    ([0, 0, 0, 1, 1, -1], [Span(start=0, end=4), Span(start=4, end=9)])
    """
    data = b"".join(pieces)
    spans = split_steps(data, at=at, most=most)
    starts = [span.start for span in spans]
    owner: list[int] = []  # [T], in the numbers of `spans`
    before = position = 0
    for piece in pieces:
        rest = piece.lstrip()
        if rest:
            before = bisect_right(starts, position + len(piece) - len(rest)) - 1
        owner.append(before if piece else -1)
        position += len(piece)
    kept = sorted({step for step in owner if step >= 0})
    number = {step: n for n, step in enumerate(kept)}
    bounds = [0, *(spans[step].end for step in kept[:-1]), len(data)]
    merged = [Span(start, end) for start, end in pairwise(bounds)] if kept else []
    return Steps(merged, [number.get(step, -1) for step in owner])


def steps_of_tokens(pieces: Sequence[bytes], *, at: Boundary = "blank-lines", most: int = MOST_STEPS) -> list[int]:
    r"""The step of each token: `steps_and_tokens` without the spans. Shapes: pieces [T], result [T].

    >>> steps_of_tokens([b" x", b"\n\n", b"  ", b"y", b"\n\nz", b""])
    [0, 0, 0, 1, 2, -1]
    """
    return steps_and_tokens(pieces, at=at, most=most).of_token


def step_texts(pieces: Sequence[bytes], spans: Sequence[Span]) -> list[str]:
    """The text of each step, for a judge to read: decoded, without white space around it."""
    data = b"".join(pieces)
    return [data[start:end].strip().decode("utf-8", errors="replace") for start, end in spans]


def _outside(cuts: list[int], whole: list[Span]) -> list[int]:
    """The cuts that fall into none of the parts that stay whole. Both lists are in order."""
    kept: list[int] = []
    at = 0
    for cut in cuts:
        while at < len(whole) and whole[at].end <= cut:
            at += 1
        if at == len(whole) or cut <= whole[at].start:
            kept.append(cut)
    return kept


def _between_text(data: bytes, cuts: list[int]) -> list[int]:
    """The cuts with text between each other, before the first and after the last."""
    kept: list[int] = []
    text = _TEXT.search(data)  # the first text after the last cut that was kept
    for cut in cuts:
        if text is None:
            break
        if text.start() < cut:
            kept.append(cut)
            text = _TEXT.search(data, cut)
    return kept[:-1] if kept and text is None else kept


def _protected(data: bytes) -> list[Span]:
    """The parts that are never cut, in order, none inside another."""
    found = list(_DELIMITER.finditer(data))
    closer = _closers(found)
    spans: list[Span] = []
    until = 0
    for n, match in enumerate(found):
        if match.start() < until or n not in closer:
            continue
        last = closer[n]
        until = len(data) if last is None else found[last].end()
        spans.append(Span(match.start(), until))
    return spans


def _closers(found: list[re.Match[bytes]]) -> dict[int, int | None]:
    """For each delimiter that opens something: the index of the one that closes it, None for the end of the text."""
    closer: dict[int, int | None] = {}
    environments: dict[bytes, list[int]] = {}
    display = dollars = None  # the index of the next one to the right
    fences: list[int] = []
    for n, match in enumerate(found):
        kind, name, fence, _ = match.groups()
        if fence:
            fences.append(n)
        elif kind == b"begin":
            environments.setdefault(name, []).append(n)
        elif kind == b"end" and environments.get(name):
            closer[environments[name].pop()] = n
    for n in range(len(found) - 1, -1, -1):
        mark = found[n][0]
        if mark == b"\\]":
            display = n
        elif mark == b"\\[" and display is not None:
            closer[n] = display
        elif mark == b"$$":
            if dollars is not None:
                closer[n] = dollars
            dollars = n
    closer.update(_fence_closers(found, fences))
    return closer


def _fence_closers(found: list[re.Match[bytes]], fences: list[int]) -> dict[int, int | None]:
    """CommonMark: closed by at least as many of the same character with nothing after them.

    Only the fence that is open matters; a line of backticks inside a fence of tildes is text.
    """
    closer: dict[int, int | None] = {}
    opening: int | None = None
    for n in fences:
        fence, rest = found[n][3], found[n][4]
        if opening is None:
            if not (fence[:1] == b"`" and b"`" in rest):
                opening = n
                closer[n] = None
        elif fence.startswith(found[opening][3]) and not rest.strip():
            closer[opening] = n
            opening = None
    return closer
