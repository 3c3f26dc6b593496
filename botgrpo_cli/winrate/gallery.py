"""The pairs side by side on one HTML page that needs nothing else: no script, no network, pictures inside.

What policies and judges wrote is only ever escaped text, and the page forbids scripts to itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from botgrpo_cli.report.html import folded, page, picture
from botgrpo_cli.winrate.contest import Pair, state
from botgrpo_cli.winrate.tables import Steps

LARGEST_SOURCE = 20_000  # characters of a source, and of a judge's words
PARTS = (
    (1.0, "{a} wins"),
    (0.0, "{b} wins"),
    (0.5, "Draws"),
    (None, "Invalid pairs"),
)
STYLE = """
article { border-top: 1px solid var(--line); padding: 1rem 0; }
article > p { margin: 0 0 .5rem; }
.pair { display: grid; grid-template-columns: 1fr 1fr; gap: 1rem; }
.pair > div { min-width: 0; }
@media (max-width: 640px) { .pair { grid-template-columns: 1fr; } }
figure { margin: 0; } figcaption { font-weight: 600; }
.won figcaption::after { content: " \\2014 better"; color: #1a7f37; }
.pair img { width: 100%; border: 1px solid var(--line); background: #fff; }
.none { border: 1px dashed var(--line); padding: 2rem 1rem; overflow-wrap: anywhere; background: var(--soft); }
"""


def gallery(
    title: str, names: tuple[str, str], facts: Sequence[tuple[str, str]], compared: Sequence[tuple[Steps, list[Pair]]]
) -> str:
    """The page: facts, then for each pair of steps the pairs by result. `facts` are (name, value) in plain text."""
    rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in facts)
    sections, links = [], []
    for steps, pairs in compared:
        at = _at(steps)
        for share, heading in PARTS:
            chosen = [pair for pair in pairs if pair.result.a_share == share]
            if not chosen:
                continue
            words = heading.format(a=names[0], b=names[1]) + at
            anchor = f"part-{len(sections)}"
            links.append(f'<a href="#{anchor}">{escape(words)} ({len(chosen)})</a>')
            articles = "".join(_article(pair, names) for pair in chosen)
            sections.append(f'<section id="{anchor}"><h2>{escape(words)} ({len(chosen)})</h2>{articles}</section>')
    body = f"<h1>{escape(title)}</h1><table>{rows}</table><nav>{' '.join(links)}</nav>{''.join(sections)}"
    return page(title, body, STYLE)


def _at(steps: Steps) -> str:
    first, second = ("as it is" if step is None else f"step {step}" for step in steps)
    if steps == (None, None):
        return ""
    return f", {first}" if first == second else f", {first} against {second}"


def _article(pair: Pair, names: tuple[str, str]) -> str:
    result = pair.result
    sides = "".join(
        _side(name, entry, app, won=result.a_share == won)
        for name, entry, app, won in zip(names, pair.entries, pair.apps, (1.0, 0.0), strict=True)
    )
    return (
        f'<article><p><span class="small">{escape(pair.prompt.id)}</span><br>{escape(pair.prompt.text)}</p>'
        f'<div class="pair">{sides}</div>{_votes(pair)}</article>'
    )


def _side(name: str, entry: Any, app: Any, *, won: bool) -> str:
    problem = state(entry, app)
    if app.picture is not None:
        shown = picture(app.picture, "image/png", f"Screenshot of the app of {name}")
    else:
        shown = f'<div class="none">{escape(problem or "No screenshot was taken.")}</div>'
    source = (entry.source or "")[:LARGEST_SOURCE]
    code = folded("source", source) if source else ""
    kind = ' class="won"' if won else ""
    return f"<div{kind}><figure><figcaption>{escape(name)}</figcaption>{shown}</figure>{code}</div>"


def _votes(pair: Pair) -> str:
    if pair.result.forfeit:
        return '<p class="small">Not judged: at least one of them has nothing to show.</p>'
    votes = ", ".join(f"{each.order} {each.vote or each.outcome}" for each in pair.result.rounds)
    words = "\n\n".join(
        f"{each.order}: {each.text}" for each in pair.result.rounds if each.text and each.text != "heuristic"
    )
    details = folded("the judge's words", words[:LARGEST_SOURCE]) if words else ""
    return f'<p class="small">Rounds: {escape(votes)}</p>{details}'
