"""How every figure looks, and how it is saved: without a display, the same bytes each time.

Colours are those of Okabe and Ito (2008), which people with any common colour blindness can tell apart; yellow is
left out because it does not show on white. Dashes and markers differ too, so that a figure reads in grey.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import matplotlib.style
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from botgrpo_cli.errors import InputError, nearest
from botgrpo_cli.records.write import write_atomic

FORMATS = ("png", "svg", "pdf")
WIDTH = 8.2  # inches; shown 820 px wide in a README, one inch is 100 px and 10 pt text is 14 px high
GREY = "#6b6b6b"
INK = "#262626"

_PNG_DPI = 200
_NO_DATES = {  # saved files hold no date and no version, so that the same table gives the same bytes
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
_RC: dict[str, Any] = {
    "font.family": "DejaVu Sans",  # comes with matplotlib
    "font.size": 10.5,
    "axes.titlesize": 13,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 12,
    "axes.labelsize": 11,
    "axes.labelcolor": INK,
    "axes.edgecolor": "#8c8c8c",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "text.color": INK,
    "text.parse_math": False,  # a "$" in a name is a "$"
    "xtick.color": "#8c8c8c",
    "ytick.color": "#8c8c8c",
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "svg.hashsalt": "botgrpo",  # ids inside the file are random without it
    "svg.fonttype": "path",  # looks the same wherever it is shown
}


@dataclass(frozen=True)
class Look:
    """Colour, dash pattern and marker of one curve."""

    colour: str
    dash: Any
    marker: str

    @property
    def text_colour(self) -> tuple[float, ...]:
        """The colour, darkened: light ones are fine as lines and too faint as letters."""
        return tuple(0.72 * part for part in to_rgb(self.colour))


_METHODS = {  # a method looks the same in every figure
    "bot-grpo": Look("#0072B2", "-", "o"),
    "grpo": Look("#D55E00", "--", "s"),
    "gspo": Look("#009E73", "-.", "^"),
    "dapo": Look("#CC79A7", ":", "D"),
    "pure": Look("#E69F00", (0, (5, 1, 1, 1, 1, 1)), "v"),
}
_OTHERS = {"black": Look("#000000", (0, (3, 1)), "X"), "sky": Look("#56B4E9", (0, (8, 2)), "P")}
_SPARE = (_OTHERS["black"], _METHODS["pure"], _METHODS["dapo"], _METHODS["gspo"], _METHODS["grpo"], _OTHERS["sky"])


def choose_looks(keys: Sequence[tuple[str, str]]) -> list[Look]:
    """A look for each curve, given its `(name, method)`: one colour a name, no dash and marker twice.

    The first name of a known method takes that method's look; others take what is free.

    >>> [look.colour for look in choose_looks([("grpo", "grpo"), ("w 0.1", "bot-grpo"), ("w 0.5", "bot-grpo")])]
    ['#D55E00', '#0072B2', '#000000']
    """
    every = (*_METHODS.values(), *_OTHERS.values())
    by_name: dict[str, Look] = {}
    for name, method in keys:  # known methods first, so that a spare look never takes their place
        if name not in by_name and method in _METHODS and _METHODS[method] not in by_name.values():
            by_name[name] = _METHODS[method]
    for name, _ in keys:
        if name not in by_name:
            free = [look for look in (*_SPARE, _METHODS["bot-grpo"]) if look not in by_name.values()]
            by_name[name] = free[0] if free else every[len(by_name) % len(every)]
    strokes = [(look.dash, look.marker) for look in every]
    strokes += [(a.dash, b.marker) for a, b in product(every, every) if a is not b]
    looks: list[Look] = []
    for name, _ in keys:
        own = by_name[name]
        used = {(look.dash, look.marker) for look in looks}
        reserved = {(look.dash, look.marker) for other, look in by_name.items() if other != name}
        choices = [(own.dash, own.marker), *(stroke for stroke in strokes if stroke not in reserved)]
        dash, marker = next((stroke for stroke in choices if stroke not in used), choices[0])
        looks.append(Look(own.colour, dash, marker))
    return looks


@contextmanager
def house_style() -> Iterator[None]:
    """Draw and save with our settings, whatever a matplotlibrc of this user or folder says."""
    with matplotlib.style.context(["default", _RC]):
        yield


def new_figure(height: float) -> Figure:
    """An empty figure `WIDTH` by `height` inches on a canvas that needs no display."""
    figure = Figure(figsize=(WIDTH, height))
    FigureCanvasAgg(figure)
    return figure


def check_formats(formats: Iterable[str]) -> list[str]:
    """The formats without repeats. Raises InputError for an unknown one, or for none."""
    chosen = list(dict.fromkeys(formats))
    for name in chosen:
        if name not in FORMATS:
            raise InputError(
                f"'{name}' is not a figure format; expected one or more of {', '.join(FORMATS)}."
                f"{nearest(name, FORMATS)}"
            )
    if not chosen:
        raise InputError(f"No figure format was named; expected one or more of {', '.join(FORMATS)}.")
    return chosen


def read_formats(text: str) -> list[str]:
    """As `check_formats`, of a list with commas between: "png, svg"."""
    return check_formats(name.strip().lower() for name in text.split(",") if name.strip())


def save_figure(figure: Figure, stem: Path, formats: Iterable[str] = ("png", "svg")) -> list[Path]:
    """Write `stem`.png and so on, each in one rename, and return their paths.

    Raises InputError for an unknown format and RunError when a file cannot be written.
    """
    chosen = check_formats(formats)
    stem = Path(stem)
    written = []
    with house_style():
        for name in chosen:
            content = io.BytesIO()
            figure.savefig(content, format=name, dpi=_PNG_DPI, metadata=_NO_DATES[name])
            path = stem.with_name(f"{stem.name}.{name}")
            write_atomic(path, content.getvalue())
            written.append(path)
    return written
