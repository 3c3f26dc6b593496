"""Pages that need nothing else: no script, no network, pictures inside. Everything that was written is escaped text."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from html import escape

# The page forbids scripts, and everything from outside, to itself.
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8882; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 1200px; padding: 1rem; }
h1 { font-size: 1.5rem; margin: .5rem 0; } h2 { font-size: 1.2rem; margin: 2.2rem 0 .5rem; }
h3 { font-size: 1rem; margin: 1.2rem 0 .3rem; }
a { color: #2b6cb0; } @media (prefers-color-scheme: dark) { a { color: #8ab8e6; } }
nav a { margin-right: 1rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; }
td, th { padding: .15rem .9rem .15rem 0; text-align: left; vertical-align: top; }
tbody td:first-child { white-space: nowrap; }
thead th { border-bottom: 1px solid var(--line); }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
pre { overflow-x: auto; background: var(--soft); padding: .6rem; font-size: .8rem; white-space: pre-wrap; }
details { margin: .4rem 0; } summary { cursor: pointer; }
img { max-width: 100%; }
.small { opacity: .8; font-size: .85rem; }
.tag { border: 1px solid var(--line); border-radius: .6rem; padding: 0 .5rem; font-size: .8rem; margin-right: .4rem; }
"""


def page(title: str, body: str, style: str = "") -> str:
    """A whole document; `body` and `style` are markup."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        f"<title>{escape(title)}</title><style>{STYLE}{style}</style></head><body>{body}</body></html>\n"
    )


def picture(data: bytes, kind: str, alt: str) -> str:
    """`kind` is a media type, as image/png."""
    return f'<img loading="lazy" alt="{escape(alt)}" src="data:{kind};base64,{base64.b64encode(data).decode()}">'


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Plain text cells; the first column is words, the others are numbers."""
    kinds = [""] + [' class="n"'] * (len(head) - 1)
    top = "".join(f"<th{kind}>{escape(cell)}</th>" for kind, cell in zip(kinds, head, strict=True))
    body = "".join(
        "<tr>" + "".join(f"<td{kind}>{escape(cell)}</td>" for kind, cell in zip(kinds, row, strict=True)) + "</tr>"
        for row in rows
    )
    return f'<div class="scroll"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def folded(summary: str, text: str) -> str:
    """`text` behind a line that opens it."""
    return f"<details><summary>{escape(summary)}</summary><pre>{escape(text)}</pre></details>"
