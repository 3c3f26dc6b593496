"""One pass over JSX that tells code, comments, strings and visible text apart (our choice, a heuristic).

A parser would refuse what this must survive, and patterns over raw source would count words in comments and
take an apostrophe in JSX text for a string. The scan keeps a stack of contexts, moves forward only, and never
recurses, so that it is linear and takes any string.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

HIDDEN = frozenset({"className", "class", "id", "key", "type", "role", "name", "htmlFor", "href", "src", "srcSet"}) | {
    *("rel", "target", "style", "method", "action", "autoComplete", "inputMode", "pattern"),
    *("d", "viewBox", "xmlns", "fill", "stroke", "points", "transform"),
}
"""Attributes whose strings nobody reads on the page."""


@dataclass(frozen=True)
class Text:
    """Characters of the source that are no code. `start` and `end` are offsets, quotes left out."""

    start: int
    end: int
    kind: Literal["comment", "string", "kids"]  # kids: between the tags of an element
    visible: bool  # may stand on the page


@dataclass
class Element:
    """One element of the source, by offsets: `<` is at `start`, its opening tag ends before `opened`, all of it before
    `end`. One that is never closed ends with the text."""

    name: str  # "" for a fragment
    start: int
    opened: int
    end: int
    closed: bool = False


@dataclass(frozen=True)
class Source:
    """What one scan found."""

    code: str  # without comments; strings are "" and JSX text is gone, tags and attribute names stay
    tags: frozenset[str]  # names of opened elements, also those of createElement("name")
    types: frozenset[str]  # strings that stand as `type` or `role`
    words: frozenset[str]  # visible words, case-folded, runs of letters and digits
    elements: tuple[Element, ...] = ()  # in order of their start
    texts: tuple[Text, ...] = ()  # in order


_PLAIN = re.compile(r"[^\"'`/<{}]++")
_COMMENT = re.compile(r"//[^\n]*+|/\*(?:[^*]|\*(?!/))*+(?:\*/)?+")
_STRING = {q: re.compile(rf"{q}((?:[^{q}\\\n]|\\[\s\S])*+){q}?+") for q in "\"'"}
_REGEX = re.compile(r"/(?:[^/\\\[\n]|\\.|\[(?:[^\]\\\n]|\\.){0,80}+\]){1,400}+/[a-z]*+")
_OPEN = re.compile(r"<([A-Za-z_$][\w.$:-]*+)?")
_CLOSE = re.compile(r"</[^>]*+>?")
_TAG_PART = re.compile(r"[^\"'{}/>]++")
_KIDS = re.compile(r"[^<{]++")
_TEMPLATE = re.compile(r"(?:[^`\\$]|\\[\s\S]|\$(?!\{))++")
_ATTRIBUTE = re.compile(r"([\w$-]{1,60})\s*=\s*\Z")
_TYPE_KEY = re.compile(r"\b(?:type|role)\s*:\s*\Z")
_CREATE = re.compile(r"\bcreateElement\s*\(\s*\Z")
_IMPORT = re.compile(r"\b(?:from|import)\s*\(?\s*\Z")
_WORD = re.compile(r"[^\W_]+")
_BEFORE_VALUE = re.compile(
    r"(?:[(\[{},;:=!&|?+\-*%~^<>]|\b(?:return|default|case|typeof|of|in|yield|await))\s*\Z|\A\s*\Z"
)
"""What stands before an expression: there `<` opens an element and `/` a regular expression."""

_TAIL = 80  # characters of emitted code that the look-behind patterns see; bounds their cost


class _Scanner:
    """State of one scan. A context is (kind, attribute): js, template, tag or kids."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.stack: list[tuple[str, str]] = [("js", "")]
        self.code: list[str] = []
        self.tail = ""
        self.visible: list[str] = []
        self.tags: set[str] = set()
        self.types: set[str] = set()
        self.elements: list[Element] = []
        self.open_elements: list[Element] = []
        self.texts: list[Text] = []

    def run(self) -> Source:
        step = {"js": self.js, "template": self.template, "tag": self.tag, "kids": self.kids}
        while self.at < len(self.text):
            kind, attribute = self.stack[-1]
            step[kind](attribute)
        words = _WORD.findall(" ".join(self.visible).casefold())
        code, elements, texts = "".join(self.code), tuple(self.elements), tuple(self.texts)
        return Source(code, frozenset(self.tags), frozenset(self.types), frozenset(words), elements, texts)

    def emit(self, code: str) -> None:
        self.code.append(code)
        self.tail = (self.tail + code[-_TAIL:])[-_TAIL:]

    def take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Moves past a match that begins here. No pattern used with it matches nothing."""
        match = pattern.match(self.text, self.at)
        if match:
            self.at = match.end()
        return match

    def pop(self) -> None:
        if len(self.stack) > 1:
            self.stack.pop()

    def one(self) -> None:
        """Takes one character as code."""
        self.emit(self.text[self.at])
        self.at += 1

    def string(self, value: str, start: int, attribute: str) -> None:
        """Files a string under what its surroundings make of it, and leaves an empty one in the code."""
        visible = False
        if attribute in ("type", "role") or _TYPE_KEY.search(self.tail):
            self.types.add(value)
        elif _CREATE.search(self.tail):
            self.tags.add(value)
        elif attribute not in HIDDEN and not _IMPORT.search(self.tail):
            self.visible.append(value)
            visible = True
        self.texts.append(Text(start, start + len(value), "string", visible))
        self.emit('""')

    def comment(self) -> bool:
        """Takes a comment if one begins here, and leaves a space in the code."""
        if match := self.take(_COMMENT):
            self.texts.append(Text(match.start(), match.end(), "comment", False))
            self.emit(" ")
        return match is not None

    def js(self, attribute: str) -> None:
        if match := self.take(_PLAIN):
            self.emit(match[0])
            return
        char = self.text[self.at]
        if char in "\"'":
            match = self.take(_STRING[char])
            self.string(match[1], match.start(1), attribute)
        elif char == "`":
            self.at += 1
            self.stack.append(("template", attribute))
        elif char == "{":
            self.stack.append(("js", attribute))
            self.one()
        elif char == "}":
            self.pop()
            self.one()
        elif char == "/":
            if self.comment():
                pass
            elif _BEFORE_VALUE.search(self.tail) and self.take(_REGEX):
                self.emit("/ /")
            else:
                self.one()
        else:
            self.open_or_less()

    def open_or_less(self) -> None:
        """At `<` in code: an element where an expression may begin, else an operator or a type argument."""
        match = _OPEN.match(self.text, self.at)
        following = self.text[match.end() : match.end() + 1]
        if (match[1] or following == ">") and _BEFORE_VALUE.search(self.tail):
            self.open(match)
        else:
            self.one()

    def open(self, match: re.Match[str]) -> None:
        self.at = match.end()
        if match[1]:
            self.tags.add(match[1])
        element = Element(match[1] or "", match.start(), len(self.text), len(self.text))
        self.elements.append(element)
        self.open_elements.append(element)
        self.emit(match[0])
        self.stack.append(("tag", ""))

    def template(self, attribute: str) -> None:
        if match := self.take(_TEMPLATE):
            self.string(match[0], match.start(), attribute)
        elif self.text[self.at] == "`":
            self.at += 1
            self.pop()
            self.emit('""')
        else:  # "${"; a backslash as the last character of all lands here too and ends the scan
            self.at += 2
            self.stack.append(("js", attribute))
            self.emit("{")

    def tag(self, _: str) -> None:
        """Between `<name` and its `>`."""
        if match := self.take(_TAG_PART):
            self.emit(match[0])
            return
        char = self.text[self.at]
        if char in "\"'":
            end = self.text.find(char, self.at + 1)
            end = len(self.text) if end < 0 else end
            start, self.at = self.at + 1, end + 1
            self.string(self.text[start:end], start, self.attribute())
        elif char == "{":
            self.stack.append(("js", self.attribute()))
            self.one()
        elif self.text.startswith("/>", self.at):
            self.close("/>")
        elif char == ">":
            self.emit(">")
            self.at += 1
            self.stack[-1] = ("kids", "")
            self.open_elements[-1].opened = self.at
        elif not (char == "/" and self.comment()):
            self.one()

    def attribute(self) -> str:
        match = _ATTRIBUTE.search(self.tail)
        return match[1] if match else ""

    def kids(self, _: str) -> None:
        """Between an element's tags: text, until an element or a brace."""
        if match := self.take(_KIDS):
            self.visible.append(match[0])
            self.texts.append(Text(match.start(), match.end(), "kids", True))
        elif self.text[self.at] == "{":
            self.stack.append(("js", ""))
            self.one()
        elif self.text.startswith("</", self.at):
            self.close(self.take(_CLOSE)[0])
        else:
            self.open(_OPEN.match(self.text, self.at))

    def close(self, code: str) -> None:
        """Ends an element. The code after it is a value's end, so `)` stands there for the look-behind."""
        element = self.open_elements.pop()
        if code == "/>":
            self.at += 2
            element.opened = self.at
        element.end, element.closed = self.at, True
        self.pop()
        self.emit(code)
        self.tail = ")"


def scan(text: str) -> Source:
    """Scans any string, in linear time; never raises.

    >>> source = scan("const A = () => <p title='x'>Don't // stop {n /* gone */}</p>")
    >>> sorted(source.words), sorted(source.tags)
    (['don', 'stop', 't', 'x'], ['p'])
    >>> source.code
    'const A = () => <p title="">{n  }</p>'
    """
    return _Scanner(text).run()
