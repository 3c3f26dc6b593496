"""What the offline judges make of a source: its component, what it shows, its controls, and the faults of its lines.

Everything is read from one scan of the text (`tasks.react.jsx`); nothing is run. It is a heuristic: a fault that hides
behind a variable is not seen, and code that only looks like one of the tricks is blamed with them.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from botgrpo_cli.tasks.react.jsx import Element, Source, scan
from botgrpo_cli.tasks.react.judges.heuristic_style import Look, look_of, unseen

CONTROLS = frozenset({"button", "input", "select", "textarea", "a"})
LONGEST_TAG = 1500  # characters
MAX_FORMS = 50
HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})


@dataclass(frozen=True)
class Fault:
    """Something wrong with one line. `impact` is a whole number from 1 to 10, as a model would give."""

    line: int  # 0-based
    impact: int
    kind: str
    why: str


class Reading:
    """One source, read once. Offsets are those of `code`."""

    def __init__(self, code: str) -> None:
        self.code = code
        self.source: Source = scan(code)
        self._breaks = [match.end() for match in re.finditer("\n", code)]

    def line(self, offset: int) -> int:
        return bisect_right(self._breaks, offset)

    def tag(self, element: Element) -> str:
        """The opening tag as it was written, cut to a length that bounds the work."""
        return self.code[element.start : min(element.opened, element.start + LONGEST_TAG)]

    def bare_tag(self, element: Element) -> str:
        """The same without what strings say."""
        return self.masked[element.start : min(element.opened, element.start + LONGEST_TAG)]

    @cached_property
    def masked(self) -> str:
        """The code alone: comments, strings and JSX text are spaces, every other character stays where it is."""
        return blank(self.code, ((text.start, text.end) for text in self.source.texts))

    @cached_property
    def component(self) -> Component | None:
        return find_component(self.masked)

    @cached_property
    def looks(self) -> list[tuple[Element, Look]]:
        """Every named element with how it looks, in order; what is inside an element inherits its background."""
        found: list[tuple[Element, Look]] = []
        parents: list[tuple[Element, Look]] = []
        for element in self.source.elements:
            while parents and parents[-1][0].end <= element.start:
                parents.pop()
            inherited = parents[-1][1] if parents else Look()
            look = look_of(self.tag(element), inherited)
            parents.append((element, look))
            if element.name:
                found.append((element, look))
        return found

    @cached_property
    def hidden(self) -> list[tuple[Element, str]]:
        """The outermost elements that nobody can see, with the reason."""
        found: list[tuple[Element, str]] = []
        for element, look in self.looks:
            why = unseen(look)
            if why and not (found and element.start < found[-1][0].end):
                found.append((element, why))
        return found

    @cached_property
    def shown(self) -> list[Element]:
        """Named elements of the component that are not hidden."""
        starts = [element.start for element, _ in self.hidden]  # of spans that don't overlap
        ends = [element.end for element, _ in self.hidden]

        def seen(element: Element) -> bool:
            before = bisect_right(starts, element.start) - 1
            return before < 0 or element.start >= ends[before]

        return [element for element, _ in self.looks if seen(element) and self._used(element)]

    @cached_property
    def _owners(self) -> tuple[list[int], list[bool]]:
        """Where each top-level definition starts, and whether the body of the component names it."""
        assert self.component is not None
        body = set(re.findall(r"\w+", self.masked[self.component.start : self.component.end]))
        found = list(_TOP_LEVEL.finditer(self.masked))
        return [match.start() for match in found], [match[1] in body for match in found]

    def _used(self, element: Element) -> bool:
        """Whether the component can show it: it stands in its body, or in something that the body names."""
        if self.component is None or self.component.start <= element.start < self.component.end:
            return True
        starts, named = self._owners
        before = bisect_right(starts, element.start) - 1
        return before < 0 or named[before]

    @cached_property
    def controls(self) -> list[tuple[Element, bool]]:
        """Shown controls, each with whether using it does something."""
        forms = [e for e in self.shown if e.name == "form" and _HANDLER.search(self.bare_tag(e))][:MAX_FORMS]
        return [(e, self._live(e, forms)) for e in self.shown if e.name in CONTROLS]

    def _live(self, element: Element, forms: Sequence[Element]) -> bool:
        tag, raw = self.bare_tag(element), self.tag(element)
        if "{..." in tag.replace(" ", ""):
            return True
        handlers = list(_HANDLER.finditer(tag))
        if handlers:
            return any(not self._idle(tag[match.end() :]) for match in handlers)
        in_form = any(form.start < element.start < form.end for form in forms)
        if element.name == "button":
            return in_form and not re.search(r"type\s*=\s*[\"']button", raw)
        if element.name == "a":
            return re.search(r"href\s*=\s*(?:\{|[\"'](?!#?[\"']))", raw) is not None
        # A native field works by itself; one whose value is tied to a state that nothing sets is stuck.
        return not re.search(r"\b(?:value|checked)\s*=\s*\{", tag) or "readOnly" in tag or in_form

    def _idle(self, handler: str) -> bool:
        """Whether the text behind `onClick={` is a function that does nothing a user could see."""
        if _IDLE.match(handler):
            return True
        named = re.match(r"\s*(\w+)\s*\}", handler)
        if named is None:
            return False
        name = re.escape(named[1])
        empty = rf"\bfunction\s+{name}\s*\([^)]*\)\s*\{{\s*\}}|\b{name}\s*=\s*\([^)]*\)\s*=>\s*\{{\s*\}}"
        return re.search(empty, self.masked) is not None


@dataclass(frozen=True)
class Component:
    """The component that would be mounted: its definition's offsets and how it takes its properties."""

    start: int
    end: int
    parameters: str
    literal: bool = False  # a number, text, object or element is exported, which is no component


_TOP_LEVEL = re.compile(r"^(?:export\s+(?:default\s+)?)?(?:function|const|let|var|class)\s+(\w+)", re.MULTILINE)
_HANDLER = re.compile(r"\bon[A-Z]\w*\s*=\s*\{")
_NOTHING = r"(?:console\.\w+\([^(){}]*\)|alert\([^(){}]*\)|null|undefined|void 0|\w+\.preventDefault\(\))"
_IDLE = re.compile(
    rf"\s*(?:\(\s*\w*\s*\)|\w+)\s*=>\s*(?:\{{\s*(?:{_NOTHING}\s*;?\s*){{0,4}}\}}|{_NOTHING})\s*\}}|\s*undefined\s*\}}|\s*null\s*\}}"
)
_LITERAL = r"(?:[-\d\"'`\[{<]|new\b|(?:null|undefined|true|false)\b)"
_DEFAULT = re.compile(r"\bexport\s+default\s+|\bas\s+default\b")


def find_component(masked: str) -> Component | None:
    """The default export, else `App`; None when there is neither."""
    match = _DEFAULT.search(masked)
    if match is None:
        return _definition(masked, "App")
    if match[0].startswith("as"):
        named = re.search(r"(\w+)\s+\Z", masked[max(0, match.start() - 80) : match.start()])
        return _definition(masked, named[1]) if named else None
    rest = masked[match.end() :]
    if re.match(_LITERAL, rest):
        return Component(match.end(), len(masked), "", literal=True)
    if function := re.match(r"(?:async\s+)?function\b\s*\w*\s*", rest):
        return _function(masked, match.end() + function.end())
    if re.match(r"class\b|\(|\w+\s*=>|async\b", rest):
        return Component(match.end(), len(masked), "")
    named = re.match(r"(?:(?:\w+\.)?\w+\(\s*)?(\w+)", rest)
    found = _definition(masked, named[1]) if named else None
    return found or Component(0, len(masked), "")


def _definition(masked: str, name: str) -> Component | None:
    name = re.escape(name)
    if function := re.search(rf"\bfunction\s+{name}\s*", masked):
        return _function(masked, function.end())
    if re.search(rf"\bclass\s+{name}\b", masked):
        return Component(0, len(masked), "")
    value = re.search(rf"\b(?:const|let|var)\s+{name}\b[^=\n]{{0,80}}=\s*", masked)
    if value is None:
        return None
    rest = masked[value.end() :]
    after = next((m.start() for m in _TOP_LEVEL.finditer(rest)), len(rest))
    parameters = re.match(r"\s*\(([^)]{0,300})\)", rest)
    literal = re.match(_LITERAL, rest) is not None
    return Component(value.start(), value.end() + after, parameters[1] if parameters else "", literal)


def _function(masked: str, opening: int) -> Component:
    """From the bracket of its parameters to the end of its body."""
    inside = closing(masked, opening)
    body = masked.find("{", inside)
    end = closing(masked, body) if body >= 0 else len(masked)
    return Component(opening, end, masked[opening + 1 : max(opening + 1, inside - 1)])


def closing(masked: str, opening: int) -> int:
    """The offset behind the bracket that closes the one at `opening`; the end of the text when none does."""
    depth = 0
    for match in re.compile(r"[()\[\]{}]").finditer(masked, max(0, opening)):
        depth += 1 if match[0] in "([{" else -1
        if depth <= 0:
            return match.end()
    return len(masked)


def blank(code: str, spans: Iterable[tuple[int, int]]) -> str:
    """`code` with spaces in place of the characters of `spans`, line breaks kept."""
    pieces, at = [], 0
    for start, end in sorted(spans):
        if end <= at:
            continue
        start = max(start, at)
        pieces += [code[at:start], re.sub(r"[^\n]", " ", code[start:end])]
        at = end
    return "".join([*pieces, code[at:]])
