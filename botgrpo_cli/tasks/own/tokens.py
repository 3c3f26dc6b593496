r"""From what a signal gave to one number a token. Pure functions; everything here is our choice.

A signal speaks of characters, lines, steps or tokens; training knows tokens, whose bytes are the truth. Where several
parts meet in one token, the value of largest magnitude counts, of two equal ones the first, and never their sum: a
function that finds the same mistake twice has not found two.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Literal

from botgrpo_cli.rewards.spans import line_of_token
from botgrpo_cli.rewards.spread import spread
from botgrpo_cli.tasks.own.functions import Span, Unit

Parts = list[Span] | list[float] | None  # an Answer of a signal that is no Failure


def on_tokens(
    answer: Parts, unit: Unit, pieces: Sequence[bytes], steps_of_token: Sequence[int] | None = None
) -> list[float]:
    r"""The value of each token, 0.0 where the signal says nothing.

    Characters are those of the text that the function saw, `b"".join(pieces).decode("utf-8", "replace")`; a token
    takes the values of all characters that it holds a byte of. A token belongs to one line (`line_of_token`) and to
    one step (`steps_of_token`, -1: none). A special token, `b""`, always gets 0.0, and so does everything when the
    answer is None.

    Shapes: pieces [T], steps_of_token [T], result [T]. Raises ValueError when there isn't one number each of what they
    are for, for a span that reaches beyond the completion, and for steps without `steps_of_token`.

    >>> on_tokens([(1, 2, -1.0), (0, 3, 0.5)], "characters", [b"a\xc3", b"\xa9", b"b", b""])
    [-1.0, -1.0, 0.5, 0.0]
    >>> on_tokens([0.0, -0.5], "lines", [b"a", b"\n", b"b", b""])
    [0.0, 0.0, -0.5, 0.0]
    >>> on_tokens([(1, 2, 0.25)], "steps", [b"a", b"b", b""], [0, 1, -1])
    [0.0, 0.25, 0.0]
    >>> on_tokens([(0, 2, 1.0)], "tokens", [b"a", b"", b"b"])
    [1.0, 0.0, 0.0]
    """
    if answer is None:
        return [0.0] * len(pieces)
    if unit == "characters":
        return _characters_on_tokens(answer, pieces)
    if unit == "tokens":
        values = on_units(answer, len(pieces))
        return [value if piece else 0.0 for value, piece in zip(values, pieces, strict=True)]
    if unit == "lines":
        owner = line_of_token(pieces)  # [T]
        count = sum(piece.count(b"\n") for piece in pieces) + 1
    elif steps_of_token is None:
        raise ValueError("a signal on steps needs the step of each token")
    else:
        owner = [step if piece else -1 for step, piece in zip(steps_of_token, pieces, strict=True)]
        count = max(max(owner, default=-1) + 1, _reach(answer))  # the last step may have no token
    values = on_units(answer, count)
    return [0.0 if part < 0 else values[part] for part in owner]


def on_units(answer: Parts, count: int) -> list[float]:
    """The value of each line, step or token: spans spread out, numbers as they are. Shape: result [count].

    Raises ValueError when there are numbers, but not `count` of them, and for a span that reaches beyond.

    >>> on_units([(0, 2, 0.5), (1, 3, -0.75)], 4)
    [0.5, -0.75, -0.75, 0.0]
    >>> on_units([0.5, 0.0], 2), on_units([], 2), on_units(None, 1)
    ([0.5, 0.0], [0.0, 0.0], [0.0])
    """
    if answer and not isinstance(answer[0], tuple):
        if len(answer) != count:
            raise ValueError(f"{len(answer)} numbers for {count} parts")
        return [float(value) for value in answer]
    values = [0.0] * count
    for start, end, value in answer or []:
        if not 0 <= start <= end <= count:
            raise ValueError(f"the span from {start} to {end} reaches beyond {count} parts")
        for part in range(start, end):
            values[part] = _larger(values[part], value)
    return values


def softened(values: Sequence[float], kind: Literal["exponential", "linear", "none"], half_life: float) -> list[float]:
    """Values of lines spread over their neighbours as penalties are (`rewards.spread`), praise and blame apart.

    Where both reach a line the larger counts, and equal ones cancel. Magnitudes above 1 spread like those below.

    Shapes: values [L], result [L].

    >>> softened([0, -1.0, 0, 0, 0.75], "exponential", 1)
    [-0.5, -1.0, -0.5, 0.375, 0.75]
    >>> softened([0, 2.0, 0, -2.0], "linear", 1)
    [1.0, 2.0, 0.0, -2.0]
    """
    scale = max([1.0, *map(abs, values)])  # `spread` takes penalties up to 1
    praise = spread([max(value, 0.0) / scale for value in values], kind=kind, half_life=half_life)
    blame = spread([max(-value, 0.0) / scale for value in values], kind=kind, half_life=half_life)
    return [
        scale * up if up > down else -scale * down if down > up else 0.0 for up, down in zip(praise, blame, strict=True)
    ]


def character_starts(data: bytes) -> list[int]:
    r"""Where each character of `data.decode("utf-8", "replace")` starts, in bytes, and where the last one ends.

    Bytes that are no UTF-8 become one U+FFFD for each stretch that could have begun a character, one to three bytes.

    Shape: result [characters + 1].

    >>> character_starts("aé🙂".encode()), character_starts(b"\xf0\x9f\x98a\xff\xe2\x82")
    ([0, 1, 3, 7], [0, 3, 4, 5, 7])
    """
    if data.isascii():
        return list(range(len(data) + 1))
    starts, position = [0], 0
    for character in data.decode("utf-8", "replace"):
        position += _width(data, position) if character == "\ufffd" else _utf8_width(character)
        starts.append(position)
    return starts


def _width(data: bytes, position: int) -> int:
    """Bytes that became the U+FFFD at this position, which may be one that was really written."""
    try:
        data[position : position + 4].decode("utf-8")  # no character is longer, and no stretch that began one
    except UnicodeDecodeError as problem:
        if problem.start == 0:
            return problem.end
    return 3


def _utf8_width(character: str) -> int:
    code = ord(character)
    return 1 if code < 0x80 else 2 if code < 0x800 else 3 if code < 0x10000 else 4


def _characters_on_tokens(spans: Sequence[Span], pieces: Sequence[bytes]) -> list[float]:
    starts = character_starts(b"".join(pieces))  # [characters + 1]
    ends = list(accumulate(map(len, pieces)))  # [T], of each token in bytes
    begins = [0, *ends[:-1]]  # [T]
    values = [0.0] * len(pieces)
    for start, end, value in spans:
        if not 0 <= start <= end < len(starts):
            raise ValueError(f"the span from {start} to {end} reaches beyond {len(starts) - 1} characters")
        first_byte, last_byte = starts[start], starts[end]
        if first_byte == last_byte:
            continue
        for token in range(bisect_right(ends, first_byte), bisect_left(begins, last_byte)):
            if pieces[token]:
                values[token] = _larger(values[token], value)
    return values


def _reach(answer: Sequence[Span] | Sequence[float]) -> int:
    """How many parts an answer is about, at least."""
    spans = [part for part in answer if isinstance(part, tuple)]
    return max((end for _, end, _ in spans), default=0 if spans else len(answer))


def _larger(one: float, other: float) -> float:
    return other if abs(other) > abs(one) else one
