"""How an element's own attributes make it look: literal styles and the class names of Tailwind that hide."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_STYLE = re.compile(r"\bstyle\s*=\s*\{\{([^{}]{0,2000})\}\}")
_CLASS = re.compile(r"""\bclassName\s*=\s*(?:"([^"]*)"|'([^']*)'|\{\s*["'`]([^"'`]*)["'`]\s*\})""")
_PAIR = re.compile(r"""(\w+)\s*:\s*(?:'([^']*)'|"([^"]*)"|`([^`]*)`|(-?[\d.]+)(?=\s*(?:,|\Z)))""")
_HEX = re.compile(r"#([0-9a-f]{3}|[0-9a-f]{6})\Z")
_RGB = re.compile(r"rgba?\(\s*(\d{1,3})\D+(\d{1,3})\D+(\d{1,3})(?:\D+([\d.]+))?\s*\)\Z")
_NAMES = {"white": (255, 255, 255), "black": (0, 0, 0), "snow": (255, 250, 250), "ivory": (255, 255, 240)}
_HIDING_CLASSES = {
    "hidden",
    "invisible",
    "opacity-0",
    "text-transparent",
    "sr-only",
    "scale-0",
    "text-[0px]",
    "collapse",
}
WHITE = (255, 255, 255)
INVISIBLE, FAINT = 1.35, 3.0  # contrast ratios below which text can't be seen, or hardly

FAR = 2000  # pixels; a viewport is smaller

Colour = tuple[int, int, int]


@dataclass(frozen=True)
class Look:
    """What an opening tag says of its element; `background` None is one that can't be told."""

    style: dict[str, str] = field(default_factory=dict)  # literal entries, lower case
    classes: tuple[str, ...] = ()
    hidden: bool = False  # the attribute
    colour: Colour | None = None  # of the text, when the tag itself says so
    background: Colour | None = WHITE

    @property
    def styled(self) -> bool:
        return bool(self.style or self.classes)

    @property
    def contrast(self) -> float | None:
        """WCAG contrast ratio of its text, None when it can't be told."""
        return None if self.colour is None or self.background is None else ratio(self.colour, self.background)


def look_of(tag: str, parent: Look) -> Look:
    """The look of an opening tag inside `parent`."""
    found = _STYLE.search(tag)
    style = {}
    if found:
        for match in _PAIR.finditer(found[1]):
            style[match[1]] = next(value for value in match.groups()[1:] if value is not None).strip().lower()
    names = _CLASS.search(tag)
    classes = tuple((names[1] or names[2] or names[3] or "").split()) if names else ()
    background = parent.background
    if any(re.search(r"\bbackground", part) for part in (found[1] if found else "",)) or "backgroundImage" in style:
        background = colour_of(style.get("backgroundColor", style.get("background", "")))
    if any(name.startswith("bg-") for name in classes):
        background = WHITE if "bg-white" in classes else None
    colour = colour_of(style.get("color", "")) or (WHITE if "text-white" in classes else None)
    hidden = re.search(r"\shidden(?:\s|/|>|=\{\s*true\s*\})", tag) is not None
    return Look(style, classes, hidden, colour, background)


def unseen(look: Look) -> str | None:
    """Why nobody can see the element, or None."""
    style = look.style
    if look.hidden or style.get("display") == "none" or style.get("visibility") in ("hidden", "collapse"):
        return "it is hidden"
    if _number(style.get("opacity")) < 0.05:
        return "its opacity is 0"
    if _number(style.get("fontSize")) < 2:
        return "its font has no size"
    if style.get("color") == "transparent" or style.get("color", "").endswith((", 0)", ",0)")):
        return "its text is transparent"
    placed = not {"absolute", "fixed", "relative"}.isdisjoint((style.get("position"), *look.classes))
    if placed and any(abs(_number(style.get(side), 0.0)) > FAR for side in ("left", "top", "right", "bottom")):
        return "it is off the screen"
    if re.search(r"scale\(0\)|translate\w*\(\s*-?\d{4,}", style.get("transform", "")):
        return "it is moved or scaled away"
    if any(abs(_number(style.get(side), 0.0)) > FAR for side in ("textIndent", "marginLeft", "marginTop")):
        return "it is off the screen"
    if "overflow" in style and min(_number(style.get("height")), _number(style.get("width"))) < 2:
        return "it has no size"
    if hiding := _HIDING_CLASSES.intersection(look.classes):
        return f"the class {min(hiding)} hides it"
    if look.contrast is not None and look.contrast < INVISIBLE:
        return "its text has the colour of the background"
    return None


def colour_of(value: str) -> Colour | None:
    """Of a literal colour; None for one that can't be told."""
    value = value.strip().lower()
    if value in _NAMES:
        return _NAMES[value]
    if match := _HEX.match(value):
        digits = match[1] if len(match[1]) == 6 else "".join(c * 2 for c in match[1])
        return tuple(int(digits[i : i + 2], 16) for i in (0, 2, 4))
    if (match := _RGB.match(value)) and float(match[4] or 1) > 0.5:
        return tuple(min(255, int(match[i])) for i in (1, 2, 3))
    return None


def ratio(one: Colour, other: Colour) -> float:
    """WCAG contrast ratio of two colours, from 1 to 21.

    >>> ratio((0, 0, 0), (255, 255, 255))
    21.0
    """
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return round((light + 0.05) / (dark + 0.05), 4)


def _luminance(colour: Colour) -> float:
    linear = [c / 255 / 12.92 if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in colour]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _number(value: str | None, missing: float = float("inf")) -> float:
    """The number that a length or share begins with."""
    match = re.match(r"-?\d*\.?\d+", value or "")
    return float(match[0]) if match else missing
