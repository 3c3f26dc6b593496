"""One kept rollout as HTML: each token on the colour of its advantage, remarks of tools under their lines."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from botgrpo_cli.errors import InputError
from botgrpo_cli.records.read import read_samples
from botgrpo_cli.report.html import picture
from botgrpo_cli.report.tokens import lines_of, remarks_of, scale_of, terms_of, tint

STYLE = """
.rollout { border-top: 1px solid var(--line); padding: .6rem 0; }
.tokens { overflow-x: auto; font: .8rem/1.55 ui-monospace, monospace; background: #fff; color: #000; padding: .5rem; }
.line { white-space: pre; } .line b { color: #777; font-weight: 400; display: inline-block; width: 6.5em; }
.remark { color: #8a3b00; padding-left: 6.5em; white-space: pre-wrap; }
.both { display: grid; grid-template-columns: minmax(0, 2fr) minmax(0, 1fr); gap: 1rem; }
@media (max-width: 700px) { .both { grid-template-columns: minmax(0, 1fr); } }
.both img { border: 1px solid var(--line); background: #fff; }
.key span { padding: 0 .5rem; color: #000; }
"""


def first_and_last(folder: Path) -> list[dict[str, Any]]:
    """The kept training rollouts with tokens of a run's first and last step; empty where none were kept."""
    try:
        rows = [row for row in read_samples(folder) if row.get("split") == "train" and "pieces" in row]
    except InputError:
        return []
    steps = sorted({row["step"] for row in rows})
    chosen = steps[:1] + steps[1:][-1:]
    return [row for step in chosen for row in rows if row["step"] == step]


def rollout(row: Mapping[str, Any], folder: Path) -> str:
    """A training row of samples.jsonl in the run's `folder`, with its screenshot where there is one."""
    scale, remarks = scale_of(row), remarks_of(row)
    lines = []
    for line in lines_of(row):
        mean = "" if line.mean is None else f"{line.mean:+.2f}"
        tokens = "".join(_token(token.text, token.value, scale) for token in line.tokens)
        lines.append(f'<div class="line"><b>{mean:>6} {line.number + 1:>3}</b>{tokens}</div>')
        lines += [
            f'<div class="remark">{escape(remark)}</div>' for remark in dict.fromkeys(remarks.get(line.number, ()))
        ]
    shown = f'<div class="tokens">{"".join(lines)}</div>'
    if screen := _screenshot(row, folder):
        shown = f'<div class="both">{shown}<div>{screen}</div></div>'
    end = "" if row.get("finished") else ", cut off"
    head = f"step {row['step']}, rollout {row.get('rollout')}, {row.get('tokens')} tokens{end}; {terms_of(row)}"
    return (
        f'<div class="rollout"><p class="small">{escape(head)}<br>{escape(str(row.get("prompt", "")).strip())}</p>'
        f"{shown}</div>"
    )


def key() -> str:
    """What the colours mean."""
    parts = []
    for value, words in ((-1.0, "below the bag: less likely"), (0.0, "0"), (1.0, "above: more likely")):
        parts.append(f'<span style="background:rgb{tint(value, 1.0)}">{escape(words)}</span>')
    return (
        f'<p class="small key">Advantage of each token {"".join(parts)} The number before a line is the mean of its '
        "tokens; the scale of each rollout ends at its 95 % quantile.</p>"
    )


def _token(text: str, value: float, scale: float) -> str:
    return f'<span style="background:rgb{tint(value, scale)}" title="{value:+.3f}">{escape(text)}</span>'


def _screenshot(row: Mapping[str, Any], folder: Path) -> str:
    name = row.get("screenshot")
    if not isinstance(name, str):
        return ""
    file = (folder / name).resolve()
    if not file.is_relative_to(folder.resolve()) or not file.is_file():
        return ""
    return picture(file.read_bytes(), "image/png", "Screenshot of the page that this code draws")
