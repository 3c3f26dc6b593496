"""Does the source contain what the brief asked for? A cheap, static, offline heuristic (our choice).

A policy that is paid for compiling code alone soon answers every brief with the simplest component. Each
brief therefore carries one to five `asks`, words of the small vocabulary below, and `content_share` says
which share of them stands in the code. Nothing is run and nothing is rendered: code that never shows the
table it defines still counts. A judge or a browser can tell, this cannot.

Vocabulary of an ask:

- `element:NAME`, a JSX element; the names are the keys of `ELEMENTS`, for example `element:table`
- the keys of `CONTROLS`: `form`, `select`, `checkbox`, `radio`, `slider`, `password`, `date-input`, `color-input`,
  `progress` (a bar: the element, the role, or a `width` in a style)
- `event:NAME`, a handler; the names are the keys of `EVENTS`, for example `event:click`
- `text:WORD`, a visible word, lower case, letters and digits only: in JSX text, a string or a template, but not
  in `className`, `id`, `key`, `type`, `name`, `href`, `src` and the like
- the keys of `FEATURES`: `state`, `effect`, `context`, `map`, `filter`, `sort`, `conditional`, `timer`, `random`,
  `date`, `storage`, `style`, `props`
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache

from botgrpo_cli.errors import nearest
from botgrpo_cli.tasks.react.jsx import Source, scan

ELEMENTS: dict[str, frozenset[str]] = {
    "button": frozenset({"button"}),
    "input": frozenset({"input"}),
    "textarea": frozenset({"textarea"}),
    "table": frozenset({"table"}),
    "list": frozenset({"ul", "ol", "menu"}),
    "img": frozenset({"img"}),
    "heading": frozenset({"h1", "h2", "h3", "h4", "h5", "h6"}),
    "link": frozenset({"a"}),
    "label": frozenset({"label"}),
    "nav": frozenset({"nav"}),
    "header": frozenset({"header"}),
    "footer": frozenset({"footer"}),
    "svg": frozenset({"svg"}),
}
"""Name in an ask to the tags that satisfy it."""

CONTROLS: dict[str, tuple[frozenset[str], frozenset[str]]] = {
    "form": (frozenset({"form"}), frozenset()),
    "select": (frozenset({"select"}), frozenset({"listbox", "combobox"})),
    "checkbox": (frozenset(), frozenset({"checkbox", "switch"})),
    "radio": (frozenset(), frozenset({"radio"})),
    "slider": (frozenset(), frozenset({"range", "slider"})),
    "password": (frozenset(), frozenset({"password"})),
    "date-input": (frozenset(), frozenset({"date", "datetime-local"})),
    "color-input": (frozenset(), frozenset({"color"})),
    "progress": (frozenset({"progress", "meter"}), frozenset({"progressbar", "meter"})),
}
"""Word to (tags, values of `type` or `role`); one of either is enough."""

EVENTS: dict[str, str] = {
    "click": "Click|MouseDown|PointerDown",
    "double-click": "DoubleClick",
    "change": "Change|Input",
    "submit": "Submit",
    "key": "KeyDown|KeyUp|KeyPress",
    "hover": "MouseEnter|MouseOver|MouseMove|PointerEnter|PointerOver|PointerMove",
    "drag": "Drag|DragStart|DragEnd|DragOver|DragEnter|Drop",
}
"""Name in an ask to the React handlers, without `on`."""

FEATURES: dict[str, str] = {
    "state": r"\buse(?:State|Reducer)\s*[(<]|\bsetState\s*\(",
    "effect": r"\buse(?:Layout)?Effect\s*\(|\bcomponentDidMount\b",
    "context": r"\bcreateContext\s*[(<]",
    "map": r"\.(?:map|flatMap)\s*\(|\bArray\.from\s*\(",
    "filter": r"\.filter\s*\(",
    "sort": r"\.(?:sort|toSorted)\s*\(",
    "conditional": r"&&|(?<!\?)\?(?![.?:,)])|\bif\s*\(",
    "timer": r"\bset(?:Interval|Timeout)\s*\(|\brequestAnimationFrame\s*\(",
    "random": r"\bMath\.random\b|\bgetRandomValues\b",
    "date": r"\bnew\s+Date\b|\bDate\.now\b|\bIntl\.DateTimeFormat\b",
    "storage": r"\b(?:local|session)Storage\b",
    "style": r"\b(?:style|className|fill)\s*=",
    "props": r"\bfunction\s+[A-Z]\w{0,60}\s*\(\s*(?:props\b|\{\s*\w)|\bthis\.props\b"
    r"|\b[A-Z]\w{0,60}\s*(?::[^=\n]{0,80})?=\s*(?:[\w.]{1,40}\(\s*){0,3}(?:props\b|\(\s*(?:props\b|\{\s*\w))",
    "progress": r"\bwidth\s*:",
}
"""Word to the pattern that must match in the code outside comments, strings and JSX text. Bounded repeats keep a
search linear."""


@lru_cache(maxsize=4096)
def _check(ask: str) -> Callable[[Source], bool]:
    """The test that belongs to one ask. Raises ValueError for a word outside the vocabulary."""
    kind, _, name = ask.partition(":")
    if kind == "element" and name in ELEMENTS:
        tags = ELEMENTS[name]
        return lambda source: not tags.isdisjoint(source.tags)
    if kind == "event" and name in EVENTS:
        handler = re.compile(rf"\bon(?:{EVENTS[name]})\b" + _listener(name))
        return lambda source: handler.search(source.code) is not None
    if kind == "text" and name.isalnum() and name == name.casefold():
        return lambda source: name in source.words
    if ask in CONTROLS or ask in FEATURES:
        return _control_or_feature(ask)
    raise ValueError(
        f"Ask '{ask}' is outside the content vocabulary.{nearest(ask, vocabulary())} Valid are "
        f"{', '.join(vocabulary())} and text:WORD with WORD in lower case, letters and digits only."
    )


def _control_or_feature(ask: str) -> Callable[[Source], bool]:
    tags, types = CONTROLS.get(ask, (frozenset(), frozenset()))
    feature = re.compile(FEATURES[ask]) if ask in FEATURES else None

    def check(source: Source) -> bool:
        if not (tags.isdisjoint(source.tags) and types.isdisjoint(source.types)):
            return True
        return feature is not None and feature.search(source.code) is not None

    return check


def _listener(name: str) -> str:
    """Keys are often caught on the window, where no JSX handler exists."""
    return r"|\baddEventListener\s*\(" if name == "key" else ""


def vocabulary() -> list[str]:
    """Every valid ask but the open class `text:WORD`.

    >>> len(vocabulary()) == len(set(vocabulary()))
    True
    """
    return [
        *(f"element:{name}" for name in ELEMENTS),
        *(f"event:{name}" for name in EVENTS),
        *dict.fromkeys([*CONTROLS, *FEATURES]),
    ]


def check_asks(asks: Iterable[str]) -> None:
    """Raises ValueError, with the nearest valid word, for the first ask outside the vocabulary."""
    for ask in asks:
        _check(ask)


def content_share(code: str, asks: tuple[str, ...]) -> float:
    """Share of `asks` that stand in `code`, in [0, 1]; 1.0 when nothing is asked.

    `code` is meant to be source that compiled, yet any string is accepted: it is scanned once, in linear time,
    and never makes this raise. Raises ValueError for an ask outside the vocabulary, whatever the code.

    >>> content_share("export default () => <button>Reset</button>", ("element:button", "text:reset"))
    1.0
    >>> content_share("// a <table> here\\nexport default () => <p>{/* reset */}</p>", ("element:table", "text:reset"))
    0.0
    """
    checks = [_check(ask) for ask in asks]
    if not checks:
        return 1.0
    source = scan(code)
    return sum(check(source) for check in checks) / len(checks)
