"""The React task's prompt sets: written app briefs from package data, and the tiny scale's generated specs."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Literal, get_args

from botgrpo_cli.errors import InputError, nearest
from botgrpo_cli.tasks.base import Prompt, Split
from botgrpo_cli.tasks.react.content import check_asks

Kind = Literal["briefs", "easy-briefs", "generated"]
LEVELS = ("easy", "medium", "hard")
MAX_ASKS = 5

_KEYS = {"id", "split", "level", "brief", "asks"}
_STOP_WORDS = frozenset(
    {
        *("a", "an", "and", "any", "are", "as", "at", "be", "but", "by", "can", "do", "each", "for", "from", "give"),
        *("has", "have", "i", "in", "into", "is", "it", "its", "just", "make", "me", "my", "need", "of", "on", "one"),
        *("or", "our", "out", "please", "s", "should", "show", "shows", "so", "that", "the", "their", "them", "then"),
        *("there", "they", "this", "to", "under", "up", "us", "want", "we", "what", "when", "where", "which", "while"),
        *("who", "whose", "with", "you", "your"),
    }
)
_WORD = re.compile(r"[^\W_]+")


def normalise(text: str) -> str:
    """`text` without what does not tell briefs apart: case, punctuation, white space and stop words (our choice).

    >>> normalise("Show me a Counter,  with ONE button!")
    'counter button'
    """
    return " ".join(word for word in _WORD.findall(text.casefold()) if word not in _STOP_WORDS)


def load_prompts(kind: Kind, split: Split) -> list[Prompt]:
    """The prompts of one set and split, in a fixed order; `Prompt.text` is the brief alone, without instruction.

    `briefs` are the written app briefs, `easy-briefs` those of level easy, `generated` the specs of
    `botgrpo_cli.tiny.react`. Raises InputError for an unknown kind or split and for a set that is empty,
    ValueError for data that is damaged: a wrong row, an ask outside the content vocabulary, an id used twice.
    """
    _require(kind, get_args(Kind), "prompt set")
    _require(split, get_args(Split), "split")
    if kind == "generated":
        from botgrpo_cli.tiny.react import prompts as generate  # the generator is only needed at the tiny scale

        prompts = checked(generate(split), f"the generated {split} set")
    else:
        prompts = read_briefs(files(__package__) / "data" / f"{split}.jsonl", split)
        if kind == "easy-briefs":
            prompts = [prompt for prompt in prompts if prompt.level == "easy"]
    if not prompts:
        raise InputError(f"The prompt set '{kind}' has no {split} prompts. Choose another set with task.prompts.")
    return prompts


def read_briefs(file: Traversable, split: Split) -> list[Prompt]:
    """The briefs of one JSON-lines file. Raises ValueError that names file and line of the first wrong row."""
    prompts = []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            prompts.append(_prompt(json.loads(line), split))
        except ValueError as error:  # json.JSONDecodeError is one
            raise ValueError(f"{file.name}:{number}: {error}") from error
    return checked(prompts, file.name)


def checked(prompts: list[Prompt], where: str) -> list[Prompt]:
    """`prompts` as they came. Raises ValueError for an id used twice or an ask outside the content vocabulary."""
    seen: set[str] = set()
    for prompt in prompts:
        if prompt.id in seen:
            raise ValueError(f"In {where} the id '{prompt.id}' is used twice; ids must be unique.")
        seen.add(prompt.id)
        try:
            check_asks(prompt.asks)
        except ValueError as error:
            raise ValueError(f"In {where}, prompt '{prompt.id}': {error}") from error
    return prompts


def _prompt(row: object, split: Split) -> Prompt:
    if not isinstance(row, dict) or set(row) != _KEYS:
        raise ValueError(f"Expected an object with exactly the keys {', '.join(sorted(_KEYS))}.")
    for key in ("id", "brief"):
        if not isinstance(row[key], str) or not row[key].strip():
            raise ValueError(f"Key '{key}': expected a text that is not blank.")
    if row["split"] != split:
        raise ValueError(f"Key 'split': expected '{split}', found {row['split']!r}.")
    if row["level"] not in LEVELS:
        raise ValueError(
            f"Key 'level': expected one of {', '.join(LEVELS)}, found {row['level']!r}.{nearest(row['level'], LEVELS)}"
        )
    asks = row["asks"]
    if not isinstance(asks, list) or not all(isinstance(ask, str) for ask in asks) or not 1 <= len(asks) <= MAX_ASKS:
        raise ValueError(f"Key 'asks': expected a list of 1 to {MAX_ASKS} texts.")
    return Prompt(id=row["id"], text=row["brief"], level=row["level"], asks=tuple(asks))


def _require(word: str, valid: tuple[str, ...], what: str) -> None:
    if word not in valid:
        raise InputError(f"There is no {what} '{word}'; expected one of {', '.join(valid)}.{nearest(word, valid)}")
