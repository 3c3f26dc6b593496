"""The report: every study with its figure, what the paper says beside what was measured, tables, recipes, rollouts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from pathlib import Path

import pandas as pd

from botgrpo_cli.metrics import is_share
from botgrpo_cli.report import rollouts
from botgrpo_cli.report.html import folded, page, picture, table
from botgrpo_cli.studies.found import StudyFolder
from botgrpo_cli.studies.tables import arm_names
from botgrpo_cli.training.run import RECIPE_FILE

STYLE = (
    """
.says { display: grid; grid-template-columns: 1fr 1fr; gap: 1.5rem; }
@media (max-width: 700px) { .says { grid-template-columns: minmax(0, 1fr); gap: 0; } }
figure { margin: .5rem 0; background: #fff; } figure img { width: 100%; max-width: 900px; }
"""
    + rollouts.STYLE
)
MOST_ROLLOUTS = 4  # a study


def report(studies: Sequence[StudyFolder], title: str = "botgrpo: studies") -> str:
    """The whole page."""
    named = [(escape(study.key), escape(f"{_figure(study)} {study.known_as}")) for study in studies]
    links = " ".join(f'<a href="#{key}">{name}</a>' for key, name in named)
    body = "".join(_study(study) for study in studies)
    return page(title, f"<h1>{escape(title)}</h1><nav>{links}</nav>{body}", STYLE)


def _study(study: StudyFolder) -> str:
    about = study.about
    found = study.picture()
    title = str(about.get("title", study.name))
    drawn = f"<figure>{picture(*found, f'Figure: {title}')}</figure>" if found else "<p>No figure was drawn yet.</p>"
    note = f'<p class="small">{escape(str(about["note"]))}</p>' if about.get("note") else ""
    paper = str(about.get("paper") or "Nothing: this study is ours.")
    missing = about.get("missing") or []
    unfinished = f"<p>Not finished: {escape(', '.join(map(str, missing)))}.</p>" if missing else ""
    return (
        f'<section id="{escape(study.key)}"><h2>{escape(title)}</h2><p>{_tags(study)}</p>{unfinished}{drawn}'
        f'<div class="says"><div><h3>The paper reports</h3><p>{escape(paper)}</p></div>'
        f"<div><h3>Measured here</h3>{_measured(study)}</div></div>{note}"
        f"<h3>All metrics</h3>{_table(study)}{_rollouts(study)}{_sources(study)}</section>"
    )


def _figure(study: StudyFolder) -> str:
    figure = str(study.about.get("figure", ""))
    return f"{figure}." if figure.isdecimal() else "" if figure == "ours" else figure


def _tags(study: StudyFolder) -> str:
    about = study.about
    figure = str(about.get("figure", ""))
    words = [
        "ours, not in the paper" if figure == "ours" else f"figure {figure} of the paper",
        f"scale {about.get('scale')}",
    ]
    seeds = sorted({seed for _, seed in _arms_and_seeds(study)})
    words.append(f"seeds {', '.join(map(str, seeds))}" if len(seeds) != 1 else f"one seed ({seeds[0]})")
    words += [f"heuristic: {', '.join(about['heuristic'])}"] if about.get("heuristic") else []
    words += [f"simulated: {', '.join(about['simulated'])}"] if about.get("simulated") else []
    tags = "".join(f'<span class="tag">{escape(word)}</span>' for word in words)
    return f"{tags}<br><code>{escape(str(about.get('command', '')))}</code>"


def _arms_and_seeds(study: StudyFolder) -> list[tuple[str, int]]:
    return [(str(run.get("arm")), int(run.get("seed", 0))) for run in study.about.get("runs", [])]


def _measured(study: StudyFolder) -> str:
    """The headline at the end, arm by arm, against the baseline where there is one."""
    headline = str((study.about.get("metrics") or [""])[0])
    rows = study.summary[study.summary["metric"] == headline]
    if rows.empty:
        return "<p>Nothing yet.</p>"
    named = zip(arm_names(rows), rows.iterrows(), strict=True)
    items = "".join(f"<li>{escape(_sentence(name, row, headline))}</li>" for name, (_, row) in named)
    return f"<ul>{items}</ul>"


def _sentence(name: str, row: pd.Series, metric: str) -> str:
    final = f"{metric.replace('_', ' ')} {_value(row['final'], metric)} at step {row['steps']}"
    text = f"{name or row['arm']}: {final}"
    if row.get("final_low"):
        text += f" ({_value(row['final_low'], metric)} – {_value(row['final_high'], metric)})"
    if reached := row.get("steps_50"):
        text += (
            f"; 50 % not reached by step {reached[1:]}" if reached.startswith(">") else f"; 50 % from step {reached}"
        )
    if row.get("difference"):
        p = f", p {float(row['p']):.2g}" if row.get("p") else ""
        text += f"; {_points(row['difference'])} points against {row['baseline']}{p}"
    return text + "."


def _points(text: str) -> str:
    return f"{100 * float(text):+.1f}"


def _value(text: str, metric: str) -> str:
    if not text:
        return "–"
    number = float(text)
    return f"{number:.1%}" if is_share(metric) else f"{number:.3g}"


def _table(study: StudyFolder) -> str:
    """summary.csv without its empty columns and without what stands above."""
    left_out = ("study", "arm", "method", "base_model", "scale", "seeds", "steps")
    rows = study.summary
    names = [name for name in rows.columns if name not in left_out and (rows[name] != "").any()]
    cells = [[_short(row[name]) for name in names] for _, row in rows.iterrows()]
    return table([name.replace("_", " ") for name in names], cells)


def _short(text: str) -> str:
    try:
        return f"{float(text):.3g}"
    except ValueError:
        return text


def _rollouts(study: StudyFolder) -> str:
    parts, shown = [], set()
    for arm, seed, folder in study.runs():
        rows = rollouts.first_and_last(folder) if arm not in shown else []
        if not rows:
            continue
        shown.add(arm)
        chosen = rows[:1] + rows[1:][-1:]
        parts.append(f"<h3>{escape(arm)}, seed {seed}</h3>" + "".join(rollouts.rollout(row, folder) for row in chosen))
        if len(parts) == MOST_ROLLOUTS:
            break
    if not parts:
        return ""
    return f"<details><summary>Rollouts, token by token</summary>{rollouts.key()}{''.join(parts)}</details>"


def _sources(study: StudyFolder) -> str:
    """Recipe of each arm (that of its first seed) and the manifest, folded away."""
    found: dict[str, Path] = {}
    for arm, _, folder in study.runs():
        found.setdefault(arm, folder)
    recipes = "".join(
        folded(f"recipe of {arm}", (folder / RECIPE_FILE).read_text(encoding="utf-8")) for arm, folder in found.items()
    )
    return recipes + folded("manifest", json.dumps(study.about, indent=2, ensure_ascii=False))
