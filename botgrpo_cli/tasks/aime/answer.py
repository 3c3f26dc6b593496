r"""Grading of integer answers: what stands in the last closed box, compared with the gold integers.

Nothing is evaluated and no computer algebra is used. That is enough for answers from 0 to 999, takes microseconds,
runs in any thread, and can't be made slow by what a model writes. The rules are our choice; the paper says only that
the outcome is the answer's correctness.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import Literal

Mode = Literal["strict", "lenient"]
Status = Literal["ok", "no_box", "unclosed", "not_int", "multi"]

LENIENT_CHARACTERS = 200  # of the end of the text, where `lenient` looks for "answer is N"
LONG = 400  # characters from which a look at all braces at once pays
MOST_SKIPPED, MOST_NESTED = 8, 16  # bounds of that look, so that no text makes it slow
LONGEST = 100  # characters of a box after its last "=": far more than an integer with any decoration

# No repeated part of a pattern can match what follows it: linear time for any text.
_THINK = re.compile(r"<(/?)think(?:ing)?\s*>", re.IGNORECASE)
_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")
# Every alternative starts with a literal of its own, which makes the search three times as fast.
_BRACE = re.compile(r"\{|\}|\\[\\{}]|\\(?:boxed|fbox)\s*\{")
_ANSWER_IS = re.compile(r"\banswer\s+is\b[\s:]*", re.IGNORECASE)
_CANDIDATE_END = re.compile(r"[\n<]|\.\s")
_STYLES = (
    r"text(?:bf|rm|it|sf|tt|normal)?|math(?:bf|rm|it|sf|tt|normal)|[mhf]box|boxed|boldsymbol|bm|bf|rm|"
    r"displaystyle|textstyle"
)
_DROPPED = re.compile(rf"\\(?:{_STYLES})(?![A-Za-z])|\\[,!()\[\]]|\$")
_SPACE = re.compile(r"\\(?:q?quad(?![A-Za-z])|[;: ])|~")
_DEGREES = re.compile(r"\^?\s*\\(?:circ|degrees?)(?![A-Za-z])|°|degrees?\b")
_NO_BRACES = bytes(set(range(256)) - set(b"{}"))
_CHOICE = re.compile(r"\([A-E]\)\s*")
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(?:,\d{3})+")
_POINT_ZERO = re.compile(r"([+-]?\d+)\.0+")
_INTEGER = re.compile(r"[+-]?\d{1,18}")
# NFKC would turn 4² into 42; the ring above and the ordinal sign are written for degrees.
_BEFORE_NFKC = str.maketrans(dict.fromkeys("²³¹⁰ⁱ⁴⁵⁶⁷⁸⁹⁺⁻⁼₀₁₂₃₄₅₆₇₈₉₊₋₌", "^") | dict.fromkeys("º˚", "°"))
_MINUS = str.maketrans(dict.fromkeys("−‐‑‒–—", "-"))


@dataclass(frozen=True)
class Grade:
    """What came of an answer.

    `status` tells what was found of the box: `ok` one closed box with an integer; `multi` several boxes, closed or
    not, of which the last closed one holds an integer; `not_int` the last closed one holds something else; `unclosed`
    none was closed; `no_box` none was opened. `extracted` is the integer that was compared, None when there is none.
    """

    correct: bool
    extracted: int | None
    status: Status


def grade(text: str, gold: frozenset[int], *, mode: Mode = "strict") -> Grade:
    r"""Grade a completion (never the prompt) against the integers that are right.

    1. What stands before the last `</think>` is dropped; a `<think>` that is never closed leaves no answer.
    2. The last closed `\boxed{}` or `\fbox{}` counts, by brace matching.
    3. Of its content only what stands right of the last `=` counts, without styles (`\text`, `\mathbf`), spacing,
       `$`, degrees, a "(C)" prefix, a final dot, thousands commas, `.0`.
    4. The rest must be an integer of at most 18 digits. A unit makes it none.

    `strict` needs the box; `lenient` also takes "answer is N" within the last 200 characters when no box was opened,
    and leaves the status at `no_box`. Takes time linear in the text. ValueError for an unknown mode or an empty gold.

    >>> grade(r"So $m+n$ is $\boxed{m+n=042}$.", frozenset({42}))
    Grade(correct=True, extracted=42, status='ok')
    >>> grade(r"\boxed{41}, no: \boxed{42^\circ}", frozenset({42}))
    Grade(correct=True, extracted=42, status='multi')
    >>> grade(r"\boxed{42\%}", frozenset({42})).status, grade(r"\boxed{42", frozenset({42})).status
    ('not_int', 'unclosed')
    >>> grade("The answer is 0.", frozenset({0}))
    Grade(correct=False, extracted=None, status='no_box')
    >>> grade("The answer is 0.", frozenset({0}), mode="lenient")
    Grade(correct=True, extracted=0, status='no_box')
    """
    if mode not in ("strict", "lenient"):
        raise ValueError(f"mode is {mode!r}; expected 'strict' or 'lenient'.")
    if not gold:
        raise ValueError("gold is empty, so that no answer could be right; expected at least one integer.")
    answer = _after_reasoning(text)
    content, boxes = last_box(answer)
    if content is not None:
        value = integer(content)
        status: Status = "not_int" if value is None else "multi" if boxes > 1 else "ok"
    else:
        value = _answer_is(answer) if mode == "lenient" and not boxes else None
        status = "unclosed" if boxes else "no_box"
    return Grade(value is not None and value in gold, value, status)


def last_box(text: str) -> tuple[str | None, int]:
    r"""Content of the last closed box, None when none is closed, and the number of boxes, unclosed ones included.

    A box inside a closed one is part of its content. Escaped braces count for nothing.

    >>> last_box(r"\boxed{1} \fbox{\text{a}2}"), last_box(r"\boxed{1"), last_box(r"\boxed{\boxed{3}}")
    (('\\text{a}2', 2), (None, 1), ('\\boxed{3}', 1))
    """
    closed: list[tuple[int, int]] = []
    at = skipped = 0
    while start := _BOX.search(text, at):
        if skipped < MOST_SKIPPED and _never_closes(text, start.end()):
            skipped, at = skipped + 1, start.end()
            continue
        # Of each open brace: where a box's content starts (-1: no box), and how many boxes were closed before it.
        open_braces = [(start.end(), len(closed))]
        for brace in _BRACE.finditer(text, start.end()):
            kind = brace[0]
            if kind == "}":
                begin, before = open_braces.pop()
                if begin >= 0:
                    closed[before:] = [(begin, brace.start())]
                if not open_braces:
                    at = brace.end()
                    break
            elif kind == "{":
                open_braces.append((-1, 0))
            elif kind[-1] == "{" and len(kind) > 2:
                open_braces.append((brace.end(), len(closed)))
        else:  # the text ended first
            unclosed = sum(begin >= 0 for begin, _ in open_braces)
            break
    else:
        unclosed = 0
    content = text[slice(*closed[-1])] if closed else None
    return content, len(closed) + unclosed + skipped


def _never_closes(text: str, begin: int) -> bool:
    """True when the brace that was opened before `begin` is certainly never closed; False when it is, or for text that
    is short or nested too deeply to be worth it. Matching a long text brace by brace takes many times as long."""
    if len(text) - begin < LONG:
        return False
    rest = text[begin:].replace("\\\\", " ").replace("\\{", " ").replace("\\}", " ").encode("utf-8", "surrogatepass")
    braces = rest.translate(None, _NO_BRACES)
    for _ in range(MOST_NESTED):
        braces, before = braces.replace(b"{}", b""), len(braces)
        if len(braces) == before:
            return b"}" not in braces
    return False


def integer(content: str) -> int | None:
    r"""The integer that a box holds, or None.

    >>> [integer(text) for text in (r"\text{(C) } 42", "４２", "1,024", "42.0", "−42", "m+n=42", "42, 43", "4²", "4 2")]
    [42, 42, 1024, 42, -42, 42, None, None, None]
    """
    equals = max(content.rfind("="), content.rfind("＝"))
    if equals > 0 and content[equals - 1] in "<>!":
        return None
    text = content[equals + 1 :].strip()
    if len(text) > LONGEST:
        return None
    if not (text.isascii() and text.isdigit()):
        text = _bare(text)
    return int(text) if _INTEGER.fullmatch(text) else None


def _bare(text: str) -> str:
    """`text` without its decoration: step 3 of `grade`."""
    text = unicodedata.normalize("NFKC", text.translate(_BEFORE_NFKC)).translate(_MINUS)
    text = _SPACE.sub(" ", _DROPPED.sub("", text)).replace("{,}", ",")
    text = _DEGREES.sub("", text.replace("{", "").replace("}", "")).strip()  # of a set's \{ the backslash stays
    choice = _CHOICE.match(text)
    text = text[choice.end() if choice else 0 :].removesuffix(".").rstrip()
    if _THOUSANDS.fullmatch(text):
        return text.replace(",", "")
    point_zero = _POINT_ZERO.fullmatch(text)
    return point_zero[1] if point_zero else text


def _after_reasoning(text: str) -> str:
    """What stands after the last `</think>`; nothing when the reasoning never ends."""
    end, thinking = 0, False
    for tag in _THINK.finditer(text):
        thinking = not tag[1]
        end = end if thinking else tag.end()
    return "" if thinking else text[end:]


def _answer_is(text: str) -> int | None:
    """N of the last "answer is N" near the end; the rest of its sentence must hold nothing else."""
    tail = text[-LENIENT_CHARACTERS:]
    ends = [match.end() for match in _ANSWER_IS.finditer(tail)]
    if not ends:
        return None
    sentence = _CANDIDATE_END.split(tail[ends[-1] :], maxsplit=1)[0]
    return integer(sentence.strip(" \t\r*_`"))
