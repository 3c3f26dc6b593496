"""From what a model wrote to a JSON object, or to a sentence that says why not."""

from __future__ import annotations

import contextlib
import json
import re
from typing import Any, NoReturn

LONGEST = 50_000  # characters read of a reply; token limits keep real ones far below
STARTS = 100  # opening braces tried for the last object; a verdict has a handful, and trying costs time
_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})[^\n`]*\n(.*?)^[ \t]*\1", re.MULTILINE | re.DOTALL)
_REFUSAL = re.compile(
    r"\s*(sorry, (but )?i|i am sorry|i['’]m sorry|im sorry|i can(not| not|['’]t|t)|"
    r"(i am|i['’]m|im) (unable|not able)|i (won['’]t|will not))\b",
    re.IGNORECASE,
)


class Malformed(ValueError):
    """The reply is no verdict; the text is a sentence that can be shown to the model."""


def read_object(text: str) -> dict:
    """The JSON object in `text`.

    Text through the last `</think>` is dropped. Then: all of it as strict JSON, else the first fenced block, else the
    last balanced object. The first of these that is JSON is the reply, right or wrong. NaN is no JSON, and a key may
    stand there once. Raises Malformed.
    """
    value = _find(text[:LONGEST].rpartition("</think>")[2].strip())
    if value is _NOTHING:
        raise Malformed("It holds no JSON object.")
    if not isinstance(value, dict):
        raise Malformed("It is JSON, but no object.")
    return value


def require_schema(value: dict, schema: dict, *, entries: bool = True) -> None:
    """Raises Malformed when `value` is not valid under `schema`: types (a truth value is no number), enums, ranges.

    Without `entries`, what stands in lists is left to the reader, and so are unknown keys: one wrong entry of an
    attribution must not spoil the others.
    """
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match

    errors = Draft202012Validator(schema).iter_errors(value)
    if not entries:
        errors = (error for error in errors if not _about_entries(error))
    error = best_match(errors)
    if error is not None:
        place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.absolute_path)
        raise Malformed(f"{place.lstrip('.') or 'The object'}: {error.message[:200]}.")


def _about_entries(error) -> bool:
    inside = any(isinstance(part, int) for part in error.absolute_path)
    return inside or error.validator in ("maxItems", "minItems", "additionalProperties")


def looks_refused(text: str) -> bool:
    """Whether a reply without any JSON opens as refusals do. Only English is known; others count as malformed."""
    return "{" not in text and bool(_REFUSAL.match(text.rpartition("</think>")[2]))


_NOTHING = object()


def _find(text: str) -> Any:
    value = _loads(text)
    if value is not _NOTHING:
        return value
    fenced = _FENCE.search(text)
    if fenced and (value := _loads(fenced.group(2))) is not _NOTHING:
        return value
    return _last_object(text)


def _loads(text: str) -> Any:
    try:
        return _DECODER.decode(text.strip())
    except (ValueError, RecursionError):
        return _NOTHING


def _last_object(text: str) -> Any:
    starts = [match.start() for match in re.finditer("{", text)][-STARTS:]
    found, end = _NOTHING, 0
    for start in starts:
        if start >= end:  # else it is inside the object before
            with contextlib.suppress(ValueError, RecursionError):
                found, end = _DECODER.raw_decode(text, start)
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _once(pairs: list[tuple[str, Any]]) -> dict:
    if len({name for name, _ in pairs}) < len(pairs):
        raise ValueError("a key is there twice")
    return dict(pairs)


_DECODER = json.JSONDecoder(parse_constant=_no_constant, object_pairs_hook=_once)
