"""Write words that begin with a letter: each wrong word is blamed where it stands.

The reward of a list is the share of its words that are right, and whether there are as many as were asked for. The
signal names the characters of each word that begins with another letter or stands there twice, so that the bag of
tokens can tell the words of one list apart.
"""

from __future__ import annotations

import re

from botgrpo_cli import metric, signal

WORD = re.compile(r"[A-Za-z][A-Za-z'-]*")


def _words(text: str) -> list[re.Match[str]]:
    """The words of the list; what stands before a colon is talk."""
    return list(WORD.finditer(text, text.find(":") + 1))


def right(text: str, letter: str) -> float:
    """Share of the words that begin with the letter, each counted once."""
    found = [word[0].lower() for word in _words(text)]
    return len({word for word in found if word.startswith(letter)}) / max(1, len(found))


def enough(text: str, count: int) -> float:
    """1 for as many words as were asked for, less for each one missing or too many."""
    return max(0.0, 1.0 - abs(len(_words(text)) - count) / count)


def perfect(text: str, letter: str, count: int) -> float:
    """Whether the list is what was asked for."""
    return float(right(text, letter) == enough(text, count) == 1.0)


@signal("characters")
def wrong_words(text: str, letter: str, count: int) -> list[tuple[int, int, float]]:
    """Blames each word with another first letter, each repeated one, and those after the last that was asked for."""
    spans, seen = [], set()
    for number, word in enumerate(_words(text)):
        name = word[0].lower()
        if not name.startswith(letter) or name in seen or number >= count:
            spans.append((word.start(), word.end(), -1.0))
        seen.add(name)
    return spans


@metric
def words(text: str) -> int:
    """How many words there are."""
    return len(_words(text))
