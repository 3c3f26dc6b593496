"""The JSON schemas of the judges' replies. The verdict is read from these keys and from nothing else in a reply."""

from __future__ import annotations

from typing import Any

from botgrpo_cli.judges.blames import MAX_LINES, TOP

_SCORE = {"type": "integer", "minimum": 0, "maximum": TOP}
_TEXT = {"type": "string"}
_LINES = {
    "type": "array",
    "maxItems": MAX_LINES,
    "items": {
        "type": "object",
        "properties": {"line": {"type": "integer", "minimum": 1}, "impact": _SCORE, "why": _TEXT},
        "required": ["line", "impact", "why"],
        "additionalProperties": False,
    },
}


def _object(**properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


# Reasons come first: a model that writes them before the numbers has thought before it scores.
CODE = _object(why=_TEXT, not_react={"type": "boolean"}, validity=_SCORE, task=_SCORE, aesthetic=_SCORE)
CODE_LINES = _object(**CODE["properties"], lines=_LINES)
SCREEN = _object(why=_TEXT, score=_SCORE)
SCREEN_LINES = _object(**SCREEN["properties"], lines=_LINES)
BLAME = _object(lines=_LINES)
PAIR = _object(why=_TEXT, better={"type": "string", "enum": ["first", "second", "tie"]})
