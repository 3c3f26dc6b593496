"""Prompt files and what is put into them: the request, the answer between delimiters, numbered source, pictures."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from botgrpo_cli.judges.base import Image

_TITLE = re.compile(r"<!-- ([a-z-]+/\d+) -->\n")
_PLACE = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class Template:
    """One prompt file."""

    name: str  # with its version, as in "code/1": part of the key of the cache
    system: str
    user: str

    def parts(self, **values: str | Image) -> tuple[str | Image, ...]:
        """The user message with each `{place}` filled in one pass: a value that holds "{code}" stays as it is.

        Raises KeyError for a place without a value, ValueError for a value without a place.
        """
        pieces: list[str | Image] = []
        unused = set(values)
        for number, piece in enumerate(_PLACE.split(self.user)):
            value = values[piece] if number % 2 else piece
            unused.discard(piece if number % 2 else "")
            if isinstance(value, str) and pieces and isinstance(pieces[-1], str):
                pieces[-1] += value
            elif value != "":
                pieces.append(value)
        if unused:
            raise ValueError(f"prompt {self.name} has no place for {', '.join(sorted(unused))}")
        return tuple(pieces)


@cache
def template(name: str) -> Template:
    """The prompt file `prompts/NAME.md`: a title with name and version, then `## System` and `## User`."""
    text = (files(__package__) / "prompts" / f"{name}.md").read_text(encoding="utf-8")
    title = _TITLE.match(text)
    _, system, user = re.split(r"^## (?:System|User)\n", text, flags=re.MULTILINE)
    if title is None or title[1].partition("/")[0] != name:
        raise ValueError(f"prompts/{name}.md does not begin with <!-- {name}/VERSION -->")
    return Template(title[1], system.strip(), user.strip())


def fenced(text: str, kind: str) -> str:
    """`text` between delimiters that it cannot close itself.

    The nonce is a hash of the text and not a random number, for a message must be the same at every call or the cache
    would never answer. It protects as well: to write its own delimiter, a text would have to hold its own hash.

    >>> print(fenced("const a = 1;", "SOURCE"))
    <<<SOURCE f83cfa997e47
    const a = 1;
    SOURCE f83cfa997e47>>>
    """
    clean = text.encode("utf-8", "replace").decode()
    nonce = hashlib.sha256(f"botgrpo delimiter\0{kind}\0{clean}".encode()).hexdigest()[:12]
    return f"<<<{kind} {nonce}\n{clean}\n{kind} {nonce}>>>"


def numbered(code: str) -> str:
    r"""`code` with 1-based line numbers. Lines end at "\n" alone, as everywhere in scoring.

    >>> print(numbered("a\n  b"))
    1| a
    2|   b
    """
    lines = code.split("\n")
    width = len(str(len(lines)))
    return "\n".join(f"{number:>{width}}| {line}" for number, line in enumerate(lines, start=1))
