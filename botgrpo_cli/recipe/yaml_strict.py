"""YAML without its surprises: every scalar stays the text that was written, the schema gives it a type.

PyYAML's events are used, not its resolver, so YAML 1.1 never turns `no` into false, `1:30` into 90 or `017` into 15.
Refused, each with its line: duplicate keys, tags, anchors, aliases, merge keys, keys that are no plain words, and a
second document. The strictness is our choice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from botgrpo_cli.recipe.errors import Mark, Problem

MAX_DEPTH = 20  # a recipe needs four levels; a bound keeps '['*10000 from exhausting the stack


@dataclass(frozen=True)
class Scalar:
    """A value as it was written. `plain` means without quotes and not a block."""

    text: str
    plain: bool
    mark: Mark

    @property
    def is_null(self) -> bool:
        return self.plain and self.text in ("", "~", "null")


@dataclass(frozen=True)
class Items:
    """A list."""

    items: list[Node]
    mark: Mark


@dataclass(frozen=True)
class Mapping:
    """A mapping. The values carry the marks of their keys: that is the line a person looks for."""

    items: dict[str, Node]
    mark: Mark
    key_marks: dict[str, Mark] = field(default_factory=dict)


Node = Scalar | Items | Mapping


class _Unusable(Exception):
    """The file can't be read any further; the problem has been noted."""


def read_yaml(path: Path, shown: str, problems: list[Problem]) -> Mapping | None:
    """The mapping in the file at `path`, called `shown` in messages; None when it can't be used at all.

    Everything that is wrong is appended to `problems`.
    """
    mark = Mark(shown)
    try:
        data = path.read_bytes()
    except IsADirectoryError:
        problems.append(Problem(mark, "", "This is a directory; expected a YAML file."))
        return None
    except OSError as error:
        problems.append(Problem(mark, "", f"The file can't be read: {error.strerror or error}."))
        return None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        found = f"byte 0x{data[error.start]:02x}"
        problems.append(Problem(Mark(shown, line), "", f"Found {found}, which is not UTF-8; save the file as UTF-8."))
        return None
    node = parse_yaml(text, shown, problems)
    if isinstance(node, Mapping) or node is None:
        return node
    if isinstance(node, Scalar) and node.is_null:
        problems.append(Problem(mark, "", "The file is empty; expected `key: value` lines."))
    else:
        found = "a list" if isinstance(node, Items) else f"the text {quote(node.text)}"
        problems.append(Problem(node.mark, "", f"Found {found} at the top; expected `key: value` lines."))
    return None


def parse_yaml(text: str, shown: str, problems: list[Problem], *, option_key: str | None = None) -> Node | None:
    """The tree of one YAML document; None when its syntax is wrong.

    With `option_key` the text is what a command-line option gives that dotted key: its marks have no lines.

    >>> found = []
    >>> parse_yaml("a: no", "x.yaml", found).items["a"].text, found
    ('no', [])
    """
    build = _Builder(shown, problems, option_key)
    try:
        return build.document(iter(yaml.parse(text, Loader=yaml.SafeLoader)))
    except _Unusable:
        return None
    except yaml.MarkedYAMLError as error:
        place = error.problem_mark or error.context_mark
        mark = build.mark(place) if place is not None else Mark(shown)
        what = ", ".join(part for part in (error.context, error.problem) if part)
        hint = " Indent with spaces." if "'\\t'" in what else ""
        problems.append(Problem(mark, option_key or "", f"This is not valid YAML: {what}.{hint}"))
    except yaml.reader.ReaderError as error:
        line = None if option_key is not None else text[: error.position].count("\n") + 1
        found = f"the control character U+{error.character:04X}"
        problems.append(Problem(Mark(shown, line), "", f"Found {found}; expected printable text."))
    return None


def quote(text: str, limit: int = 60) -> str:
    """`text` in quotes on one line, shortened when it is long."""
    return repr(text if len(text) <= limit else text[: limit - 1] + "…")


class _Builder:
    """Builds the tree from PyYAML's events."""

    def __init__(self, shown: str, problems: list[Problem], option_key: str | None) -> None:
        self.shown = shown
        self.problems = problems
        self.option_key = option_key

    def mark(self, place: yaml.Mark) -> Mark:
        return Mark(self.shown, None if self.option_key is not None else place.line + 1)

    def problem(self, mark: Mark, key: str, text: str) -> None:
        self.problems.append(Problem(mark, key, text))

    def document(self, events: Iterator[yaml.Event]) -> Node:
        node: Node = Scalar("", True, Mark(self.shown))
        documents = 0
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    self.problem(self.mark(event.start_mark), "", "A second document starts here; expected one a file.")
                    raise _Unusable
                node = self.node(next(events), events, self.option_key or "", 0)
        return node

    def node(self, event: yaml.Event, events: Iterator[yaml.Event], key: str, depth: int) -> Node:
        mark = self.mark(event.start_mark)
        if depth > MAX_DEPTH:
            self.problem(mark, key, f"Nested more than {MAX_DEPTH} levels deep; a recipe needs four.")
            raise _Unusable
        if isinstance(event, yaml.AliasEvent):
            self.problem(mark, key, f"Found the alias *{event.anchor}; recipes have no aliases, write the value out.")
            return Scalar("", True, mark)
        self._refuse_extras(event, mark, key)
        if isinstance(event, yaml.ScalarEvent):
            return Scalar(event.value, event.style is None, mark)
        if isinstance(event, yaml.SequenceStartEvent):
            items = []
            while not isinstance(event := next(events), yaml.SequenceEndEvent):
                items.append(self.node(event, events, f"{key}[{len(items)}]", depth + 1))
            return Items(items, mark)
        return self._mapping(events, mark, key, depth)

    def _refuse_extras(self, event: yaml.Event, mark: Mark, key: str) -> None:
        if event.anchor is not None:
            self.problem(mark, key, f"Found the anchor &{event.anchor}; recipes have no anchors, write values out.")
        if event.tag is not None:
            tag = event.tag.replace("tag:yaml.org,2002:", "!!")
            self.problem(mark, key, f"Found the tag {tag}; recipes have no tags, each key has its type already.")

    def _mapping(self, events: Iterator[yaml.Event], mark: Mark, prefix: str, depth: int) -> Mapping:
        mapping = Mapping({}, mark)
        while not isinstance(event := next(events), yaml.MappingEndEvent):
            key_mark = self.mark(event.start_mark)
            name = self._key(event, events, prefix, depth)
            dotted = f"{prefix}.{name}" if prefix else name
            value = _at(self.node(next(events), events, dotted, depth + 1), key_mark)
            first = mapping.key_marks.get(name)
            if name == "<<":
                self.problem(key_mark, dotted, "Found a merge key; use `extends:` or write the keys out.")
            elif first is not None:
                lines = "" if first.line is None else f": first on line {first.line}, again on line {key_mark.line}"
                self.problem(key_mark, dotted, f"This key is there twice{lines}; remove one of them.")
            else:
                mapping.items[name] = value
                mapping.key_marks[name] = key_mark
        return mapping

    def _key(self, event: yaml.Event, events: Iterator[yaml.Event], prefix: str, depth: int) -> str:
        node = self.node(event, events, prefix, depth + 1)
        if isinstance(node, Scalar):
            return node.text
        self.problem(node.mark, prefix, "Found a list or a mapping as a key; expected a word.")
        return "?"


def _at(node: Node, mark: Mark) -> Node:
    if isinstance(node, Scalar):
        return Scalar(node.text, node.plain, mark)
    if isinstance(node, Items):
        return Items(node.items, mark)
    return Mapping(node.items, mark, node.key_marks)
