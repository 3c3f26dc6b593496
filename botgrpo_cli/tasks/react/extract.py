"""From a completion's text to the one code block that is checked, with line numbers that lead back.

Lines are counted by "\\n" alone, everywhere: the compiler and the linter would also break lines at "\\r", U+2028 and
U+2029, so the code that goes to them has a space in their place.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

MAX_CODE_BYTES = 64_000
MAX_DEPTH = 200  # nested brackets; good components reach about 6

_CODE_LANGUAGES = frozenset({"", "jsx", "tsx", "js", "javascript", "ts", "typescript", "react"})
# Every alternative starts with a literal and no repeated part can match what follows it: linear time.
_OPENING = re.compile(r" {0,3}(`{3,}|~{3,})(.*)", re.DOTALL)
_DEFAULT_EXPORT = re.compile(r"\bexport[ \t\n]+default\b|\bas[ \t\n]+default\b")
_APP = re.compile(r"\b(?:function|const|let|var|class)[ \t\n]+App\b")
_JSX = re.compile(r"<(?:>|[A-Za-z][\w.]*[\s/>])")
_OTHER_BREAKS = str.maketrans({"\r": " ", "\u2028": " ", "\u2029": " "})


@dataclass(frozen=True)
class Refusal:
    """Code that is not even shown to the compiler; `line` is 0-based in the code."""

    line: int
    message: str


@dataclass(frozen=True)
class Extracted:
    """The chosen block of a completion. Without one, `code` is None and `first_line` is -1."""

    code: str | None
    language: str  # the fence's first word in lower case, "" when it has none
    first_line: int  # 0-based line of the completion that the code's first line is
    closed: bool
    blocks: int  # fenced blocks of any language
    refusal: Refusal | None = None

    @property
    def format(self) -> float:
        """1 for exactly one block, closed; 0.5 for a closed block that is not alone; 0 for an unclosed one or none."""
        if self.code is None or not self.closed:
            return 0.0
        return 1.0 if self.blocks == 1 else 0.5


@dataclass(frozen=True)
class _Block:
    language: str
    first_line: int
    lines: list[str]
    closed: bool

    @property
    def code(self) -> str:
        return "\n".join(self.lines)

    @property
    def score(self) -> int:
        """How much it looks like a component; -1 when it can't be one."""
        if self.language not in _CODE_LANGUAGES or not any(line.strip() for line in self.lines):
            return -1
        code = self.code
        return 4 * bool(_DEFAULT_EXPORT.search(code)) + 2 * bool(_APP.search(code)) + bool(_JSX.search(code))


def extract(text: str) -> Extracted:
    """The code block of a completion, by these rules (our choice):

    What stands before the last `</think>` is dropped; a `<think>` that is never closed leaves no code. Fences follow
    CommonMark: three or more backticks or tildes, closed by at least as many of the same and nothing else on the
    line. Blocks in jsx, tsx, js, ts, react or no language are candidates; a default export counts 4, an `App` 2, JSX
    1; the best wins, the last among equals. A block left open at the end of the text is used but flagged.

    Takes time linear in the text. Any text is accepted, lone surrogates and NUL included.

    >>> found = extract("Here:\\n```jsx\\nexport default () => <p />;\\n```\\n")
    >>> found.code, found.first_line, found.closed, found.format
    ('export default () => <p />;', 2, True, 1.0)
    """
    blocks = _fenced_blocks(text)
    best = max(reversed(blocks), key=lambda block: block.score, default=None)  # max keeps the first: the last block
    if best is None or best.score < 0:
        return Extracted(None, "", -1, False, len(blocks))
    code = best.code.translate(_OTHER_BREAKS)
    return Extracted(code, best.language, best.first_line, best.closed, len(blocks), _refusal(code))


def _fenced_blocks(text: str) -> list[_Block]:
    head, _, answer = text.rpartition("</think>")
    skipped = head.count("\n")
    blocks: list[_Block] = []
    fence, language, start, lines = "", "", 0, []
    for number, line in enumerate(answer.split("\n"), start=skipped):
        if fence:
            if _closes(line, fence):
                blocks.append(_Block(language, start, lines, True))
                fence = ""
            else:
                lines.append(line)
            continue
        if "<think>" in line:
            break
        opening = _OPENING.match(line)
        if opening and not (opening[1][0] == "`" and "`" in opening[2]):
            words = opening[2].split(maxsplit=1)
            fence, start, lines = opening[1], number + 1, []
            language = words[0].lower() if words else ""
    if fence:
        blocks.append(_Block(language, start, lines, False))
    return blocks


def _closes(line: str, fence: str) -> bool:
    rest = line.strip()
    return len(rest) >= len(fence) and not rest.strip(fence[0]) and len(line) - len(line.lstrip(" ")) <= 3


def _refusal(code: str) -> Refusal | None:
    """Code that is too long, or nested so deeply that only an attack on the tools' stacks explains it."""
    if len(code) > MAX_CODE_BYTES or len(code.encode("utf-8", "surrogatepass")) > MAX_CODE_BYTES:
        kept = code.encode("utf-8", "surrogatepass")[:MAX_CODE_BYTES]
        return Refusal(kept.count(b"\n"), f"The code is longer than {MAX_CODE_BYTES} bytes")
    depth = line = 0
    for character in code:
        if character in "([{":
            depth += 1
            if depth > MAX_DEPTH:
                return Refusal(line, f"Brackets are nested deeper than {MAX_DEPTH}")
        elif character in ")]}":
            depth = max(0, depth - 1)
        elif character == "\n":
            line += 1
    return None
