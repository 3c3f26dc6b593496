"""What the component families share: the spec behind a brief, the surface style of a source, and its frame."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random


@dataclass(frozen=True)
class Spec:
    """One brief and everything that the source needs to fulfil it."""

    brief: str
    asks: tuple[str, ...]  # vocabulary of botgrpo_cli.tasks.react.content
    title: str
    words: tuple[str, ...] = ()
    numbers: tuple[int, ...] = ()
    features: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Family:
    """`draw` makes a spec at random; `write` turns a spec and a style into one source file."""

    draw: Callable[[Random], Spec]
    write: Callable[[Spec, Style], str]


class Style:
    """Everything about a source that the brief leaves open; one style gives one source."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self.quote = rng.choice('""\'')
        self.wrapper = rng.choice(("div", "section", "main"))
        self.heading = rng.choice(("h1", "h2"))
        self.css = rng.choice(("card", "panel", "box"))
        self.export_last = rng.random() < 0.25
        self.airy = rng.random() < 0.5
        self.event = rng.choice(("e", "event"))

    def pick(self, *options: str) -> str:
        return self._rng.choice(options)

    def order(self, *parts: list[str]) -> list[str]:
        """The lines of `parts`, the parts in random order."""
        shuffled = list(parts)
        self._rng.shuffle(shuffled)
        return [line for part in shuffled for line in part]

    def text(self, value: str) -> str:
        return f"{self.quote}{value}{self.quote}"

    def array(self, words: tuple[str, ...]) -> str:
        return "[" + ", ".join(self.text(word) for word in words) + "]"

    def state(self, name: str, initial: str) -> str:
        return f"const [{name}, {setter(name)}] = useState({initial});"

    def updated(self, name: str, operation: str) -> str:
        """A call that sets state `name` to `name operation`, direct or through an updater function."""
        short = name[0]
        return self.pick(
            f"{setter(name)}({name} {operation})",
            f"{setter(name)}(({short}) => {short} {operation})",
        )

    def typed(self, name: str) -> str:
        """The attributes of an input that is bound to state `name`."""
        return f"value={{{name}}} onChange={{({self.event}) => {setter(name)}({self.event}.target.value)}}"


def setter(name: str) -> str:
    return f"set{name[0].upper()}{name[1:]}"


def mapped(style: Style, source: str, name: str, element: str, attributes: str, content: str) -> list[str]:
    """A list rendered with `map`, in one of two layouts."""
    opening = f"<{element} key={{{name}}}{attributes}>"
    if style.pick("parentheses", "bare") == "bare":
        return [f"{{{source}.map(({name}) => <{element} key={{{name}}}{attributes}>{content}</{element}>)}}"]
    if len(opening) + len(content) < 40:
        return [f"{{{source}.map(({name}) => (", f"  {opening}{content}</{element}>", "))}"]
    return [f"{{{source}.map(({name}) => (", f"  {opening}", f"    {content}", f"  </{element}>", "))}"]


def component(style: Style, name: str, title: str, hooks: list[str], body: list[str], data: list[str] = ()) -> str:
    """The whole file: import (if there are hooks), data above the component, hooks and handlers, element tree."""
    gap = [""] if style.airy else []
    lines = [f"import {{ useState }} from {style.text('react')};", *gap] if hooks else []
    if data:
        lines += [*data, *gap]
    lines.append(f"function {name}() {{" if style.export_last else f"export default function {name}() {{")
    lines += [f"  {line}" for line in hooks]
    lines += ["  return (", f'    <{style.wrapper} className="{style.css}">']
    lines += [f"      {line}" for line in [f"<{style.heading}>{title}</{style.heading}>", *body]]
    lines += [f"    </{style.wrapper}>", "  );", "}"]
    if style.export_last:
        lines += [*gap, f"export default {name};"]
    return "\n".join(lines) + "\n"


def texts(*words: str) -> tuple[str, ...]:
    """Asks for visible words."""
    return tuple(dict.fromkeys(f"text:{word.lower()}" for word in words))


def some(rng: Random, *features: str) -> frozenset[str]:
    """At most two of `features`: none, one or two, with probabilities 0.4, 0.4 and 0.2."""
    count = rng.choices((0, 1, 2), (4, 4, 2))[0]
    return frozenset(rng.sample(features, min(count, len(features))))


def called(rng: Random, kind: str, title: str) -> str:
    return f"{kind} {rng.choice(('titled', 'called'))} {title}"
