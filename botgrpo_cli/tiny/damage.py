"""Line damage: the errors of weak models, put into clean sources at random and independently of context.

Every non-blank line is damaged with the same probability, whatever the lines around it, so that nothing but
the damaged line itself is to blame and reinforcement learning can unlearn it. The mix of kinds is our choice.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random

Damage = Callable[[Random, str], str | None]  # the damaged text (may hold a line break), None where it has no place
WORD = re.compile(r"[A-Za-z]{4,}")
BRACKET = re.compile(r"[(){}\[\]]")
QUOTE = re.compile(r"[\"']")
TAG_CLOSE = re.compile(r"</(\w+)>")
IMPORTS = ('import fs from "fs";', 'import axios from "axios";', 'import _ from "lodash";', 'import "./style";')
WRONG_TAGS = ("div", "span", "p", "li", "button")


def _replace(rng: Random, pattern: re.Pattern[str], line: str, new: Callable[[re.Match[str]], str]) -> str | None:
    """`line` with one random match replaced."""
    matches = list(pattern.finditer(line))
    if not matches:
        return None
    match = rng.choice(matches)
    return line[: match.start()] + new(match) + line[match.end() :]


def drop_bracket(rng: Random, line: str) -> str | None:
    return _replace(rng, BRACKET, line, lambda match: "")


def extra_bracket(rng: Random, line: str) -> str | None:
    return _replace(rng, BRACKET, line, lambda match: match[0] * 2)


def wrong_bracket(rng: Random, line: str) -> str | None:
    return _replace(rng, BRACKET, line, lambda match: rng.choice("(){}[]".replace(match[0], "")))


def drop_quote(rng: Random, line: str) -> str | None:
    return _replace(rng, QUOTE, line, lambda match: "")


def drop_comma(rng: Random, line: str) -> str | None:
    return _replace(rng, re.compile(","), line, lambda match: "")


def misspell(rng: Random, line: str) -> str | None:
    """Two letters swapped, one dropped or one doubled inside a word: a keyword, a name, a tag or a text."""

    def change(match: re.Match[str]) -> str:
        word = match[0]
        at = rng.randrange(1, len(word) - 1)
        swapped = word[:at] + word[at + 1] + word[at] + word[at + 2 :]
        return rng.choice((swapped, word[:at] + word[at + 1 :], word[: at + 1] + word[at:]))

    return _replace(rng, WORD, line, change)


def wrong_tag(rng: Random, line: str) -> str | None:
    def change(match: re.Match[str]) -> str:
        return f"</{rng.choice([tag for tag in WRONG_TAGS if tag != match[1]])}>"

    return _replace(rng, TAG_CLOSE, line, change)


def drop_tag(rng: Random, line: str) -> str | None:
    return _replace(rng, TAG_CLOSE, line, lambda match: "")


def drop_slash(rng: Random, line: str) -> str | None:
    return _replace(rng, re.compile(r"</| />"), line, lambda match: match[0].replace("/", ""))


def drop_angle(rng: Random, line: str) -> str | None:
    return _replace(rng, re.compile(r"(?<![ =])>|<(?=[a-z/])"), line, lambda match: "")


def break_arrow(rng: Random, line: str) -> str | None:
    return _replace(rng, re.compile("=>"), line, lambda match: rng.choice(("->", "=", ">", "")))


def break_attribute(rng: Random, line: str) -> str | None:
    """`onClick={...}` without its opening brace, `name"text"` without its equals sign."""
    return _replace(rng, re.compile(r"(?<=\w)=[{\"]"), line, lambda match: match[0][rng.randrange(2)])


def empty_handler(rng: Random, line: str) -> str | None:
    return _replace(rng, re.compile(r"(onClick|onChange)=\{.*?\}(?=[ >])"), line, lambda match: f"{match[1]}={{}}")


def drop_key(rng: Random, line: str) -> str | None:
    return _replace(rng, re.compile(r" key=\{[\w.]+\}"), line, lambda match: "")


def html_attribute(rng: Random, line: str) -> str | None:
    return _replace(rng, re.compile("className"), line, lambda match: "class")


def bogus_import(rng: Random, line: str) -> str | None:
    return f"{line}\n{rng.choice(IMPORTS)}" if line.startswith("import") else None


def cut_short(rng: Random, line: str) -> str | None:
    """The line breaks off in its second half."""
    bare = line.rstrip()
    start = len(bare) - len(bare.lstrip())
    return bare[: rng.randrange((start + len(bare)) // 2, len(bare) - 1)] if len(bare) - start > 6 else None


def duplicate_line(rng: Random, line: str) -> str | None:
    return f"{line}\n{line}"


def drop_line(rng: Random, line: str) -> str | None:
    return ""


KINDS: dict[Damage, float] = {
    drop_bracket: 4,
    extra_bracket: 3,
    wrong_bracket: 2,
    drop_quote: 3,
    drop_comma: 4,
    misspell: 4,
    wrong_tag: 3,
    drop_tag: 2,
    drop_slash: 2,
    drop_angle: 2,
    break_arrow: 4,
    break_attribute: 4,
    empty_handler: 5,
    drop_key: 8,
    html_attribute: 4,
    bogus_import: 6,
    cut_short: 1.5,
    duplicate_line: 0.75,
    drop_line: 0.75,
}


def damage_line(rng: Random, line: str) -> tuple[str, str]:
    """One line with one error in it, and the name of the error; the kinds that fit the line are weighted."""
    kinds = list(KINDS)
    while True:
        kind = rng.choices(kinds, [KINDS[k] for k in kinds])[0]
        damaged = kind(rng, line)
        if damaged is not None and damaged != line:
            return damaged, kind.__name__


def damage(rng: Random, source: str, probability: float) -> tuple[str, int]:
    """`source` with each non-blank line damaged with `probability`, and the number of damaged lines."""
    lines, count = [], 0
    for line in source.splitlines():
        if line.strip() and rng.random() < probability:
            line, _ = damage_line(rng, line)
            count += 1
            if not line.strip():
                continue
        lines.append(line)
    return "\n".join(lines) + "\n", count
