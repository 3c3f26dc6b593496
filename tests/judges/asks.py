"""A small question that tests ask, and replies to it."""

from __future__ import annotations

import json
from typing import Any

from botgrpo_cli.judges.base import Ask, Image

SCHEMA = {
    "type": "object",
    "properties": {"score": {"type": "integer", "minimum": 0, "maximum": 10}, "side": {"enum": ["A", "B"]}},
    "required": ["score", "side"],
    "additionalProperties": False,
}
GOOD = {"score": 7, "side": "A"}
GOOD_TEXT = json.dumps(GOOD)


def ask(text: str = "Which one?", *images: Image, **changes: Any) -> Ask:
    parts = (text, *images)
    return Ask(**{"system": "You judge.", "parts": parts, "schema": SCHEMA, "template": "test/1", **changes})
