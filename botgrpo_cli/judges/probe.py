"""What a server can do, asked at the start: some ignore schemas or drop images and still answer with HTTP 200.

Each question can only be answered right by a server that does what is tested, whatever the model is like.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass

from botgrpo_cli.judges.base import Image
from botgrpo_cli.judges.parse import Malformed, read_object, require_schema
from botgrpo_cli.judges.transport import RETRIED, Answer, Fault, Prompt, Rung, Transport

Send = Callable[[Prompt, int | None], Answer]  # with retries; the number of tries, None for the usual one
FEATURE_TRIES = 2  # a server may say with a 500 that it lacks a feature, and says so again

# Nothing of this is asked for in words, so only a server that enforces the schema answers like this. It uses what
# the schemas of the protocols use, so that a server which refuses one of these keywords is found out here.
ENFORCED = {
    "type": "object",
    "properties": {
        "fruit": {"type": "string", "enum": ["tangerine"]},
        "lines": {
            "type": "array",
            "maxItems": 1,
            "items": {
                "type": "object",
                "properties": {"line": {"type": "integer", "minimum": 7, "maximum": 9}},
                "required": ["line"],
                "additionalProperties": False,
            },
        },
    },
    "required": ["fruit", "lines"],
    "additionalProperties": False,
}
ANY_OBJECT = {"type": "object"}
COLOURS = {"red": (255, 0, 0), "blue": (0, 0, 255)}
COLOUR = {
    "type": "object",
    "properties": {"colour": {"type": "string", "enum": ["red", "green", "blue", "yellow", "black", "white"]}},
    "required": ["colour"],
    "additionalProperties": False,
}


@dataclass(frozen=True)
class Probe:
    """What was found."""

    rung: Rung
    sees_images: bool
    images: str  # how that is known, a sentence
    model: str | None  # as the server names it in its answers
    reports_tokens: bool


def run_probe(transport: Transport, send: Send, *, temperature: float | None, max_tokens: int) -> Probe:
    """Three to six short calls. Raises Fault when the server cannot be used at all, or is too busy to tell."""

    def ask(text: str, schema: dict, rung: Rung, images: tuple[Image, ...] = (), tries: int | None = None) -> Answer:
        system = "You answer in JSON." if rung != "json_schema" else ""
        return send(Prompt(system, (text, *images), schema, rung, temperature, max_tokens), tries)

    def fulfils(text: str, schema: dict, rung: Rung) -> bool:
        """Whether the whole answer is JSON under `schema`, with nothing around it."""
        try:
            answer = ask(text, schema, rung, tries=FEATURE_TRIES)
        except Fault as fault:
            _raise_unless_lacking(fault)
            return False
        text = answer.text.strip()
        try:
            require_schema(read_object(text), schema)
        except Malformed:
            return False
        return text.startswith("{") and text.endswith("}")

    first = ask("Say hello.", ANY_OBJECT, "prompt")  # shows that address, key and model are right
    rung: Rung = "prompt"
    if "json_schema" in transport.rungs and fulfils("Say hello.", ENFORCED, "json_schema"):
        rung = "json_schema"
    elif "json_object" in transport.rungs and fulfils("Say hello.", ANY_OBJECT, "json_object"):
        rung = "json_object"

    named = []
    sees, images = True, "the model named the colour of a red and of a blue square"
    for name, rgb in COLOURS.items():
        # The two calls differ in the square alone: who does not see it cannot be right twice, but by chance.
        try:
            square = Image(square_png(rgb))
            answer = ask("What colour is this square?", COLOUR, rung, (square,), tries=FEATURE_TRIES)
        except Fault as fault:
            _raise_unless_lacking(fault)
            sees, images = False, f"the server refuses images: {fault}"
            break
        named.append(_colour(answer.text))
        if named[-1] != name:
            shown = " and ".join(list(COLOURS)[: len(named)])
            sees, images = False, f"of a {shown} square the model said {' and '.join(named)}, so images do not arrive"
            break
    return Probe(rung, sees, images, first.model, first.prompt_tokens is not None)


def _colour(text: str) -> str:
    try:
        value = read_object(text)
        require_schema(value, COLOUR)
        return value["colour"]
    except Malformed:
        return "no colour"


def _raise_unless_lacking(fault: Fault) -> None:
    """A busy or unreachable server says nothing of what it can do, and a wrong key nothing either."""
    if fault.status is None or fault.status in RETRIED or fault.status in (401, 403):
        raise fault


def square_png(rgb: tuple[int, int, int], side: int = 256) -> bytes:
    """A PNG of one colour, `side` x `side` pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    rows = zlib.compress((b"\0" + bytes(rgb) * side) * side)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
